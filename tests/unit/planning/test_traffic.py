"""Bytes as planned, against every frame of recorded rounds."""

from __future__ import annotations

from collections import Counter

import pytest

from securefl.config.limits import cluster_sizes
from securefl.ids import EVERYONE, SERVER
from securefl.planning.traffic import Cohort, party_says, server_says, traffic
from securefl.rounds.plan import Plan
from securefl.wire.envelope import peek
from tests.simulation.world import RUN, World, scenario

_NUMBERS = 6
"""Bytes by which the numbers in the head of one frame, and of what it relays, may be longer or shorter."""


def cohort_of(world: World, length: int) -> Cohort:
    plan: Plan = world.plan
    sums = plan.scenario.secure_sum
    (members,) = set(cluster_sizes(plan.scenario.parties, plan.scenario.clustering.size))
    return Cohort(
        run=RUN,
        party=world.parties[0],
        parties=plan.scenario.parties,
        members=members,
        reclusterings=plan.scenario.clustering.reclusterings,
        clusters=plan.limits.clusters,
        parameters=length,
        word=plan.limits.ring_bits // 8,
        min_survivors=sums.min_survivors,
        k=sums.k_anonymity,
        quorum=plan.limits.quorum,
        samples=10,
        sequence=10,
    )


def recorded(world: World, party: str, round_: int) -> tuple[Counter[str], Counter[str], Counter[str]]:
    """Bytes by kind that a party sent and received in one round, and frames by kind."""
    sent: Counter[str] = Counter()
    received: Counter[str] = Counter()
    frames: Counter[str] = Counter()
    for frame in world.frames:
        head = peek(frame, "nobody").header
        if head.round != round_:
            continue
        if head.sender == party:
            sent[head.kind] += len(frame)
        elif head.sender == SERVER and head.recipient in {party, EVERYONE}:
            received[head.kind] += len(frame)
        else:
            continue
        frames[head.kind] += 1
    return sent, received, frames


@pytest.mark.parametrize(
    ("parties", "size", "again", "server", "length", "bits"),
    [(8, 4, 1, "curious", 64, 32), (10, 5, 2, "active", 300, 64), (8, 8, 1, "curious", 40_000, 64)],
)
def test_a_recorded_round_has_the_planned_bytes(
    parties: int, size: int, again: int, server: str, length: int, bits: int
) -> None:
    made = scenario(
        parties,
        size=str(size),
        reclusterings=str(again),
        threshold=str(size // 2 + 1),
        min_survivors=str(size // 2 + 1),
        server=server,
        rounds="2",
        encoding__ring_bits=str(bits),
    )
    world = World(made, length=length).run()
    cohort = cohort_of(world, length)
    for party in world.parties:
        sent, received, frames = recorded(world, party, 1)
        for says, found in ((party_says(cohort), sent), (server_says(cohort), received)):
            planned: Counter[str] = Counter()
            for kind, number in says:
                planned[kind] += number
            assert planned.keys() == found.keys()
            for kind, number in found.items():
                close = _NUMBERS * (frames[kind] + (parties + again * size if kind in LISTS else 1))
                paths = 34 * size.bit_length() * size * again if kind in {"BoxList", "ShareBoxes"} else 0
                assert -close <= planned[kind] - number <= close + paths, kind
        whole = sum(sent.values()) + sum(received.values())
        assert traffic(cohort).total == pytest.approx(whole, rel=0.01 if size in {4, 8} else 0.05)


LISTS = {"Announce", "Reveals", "KeyList", "BoxList", "Freeze", "Certificate", "Release", "ShareBoxes"}
"""Messages that hold frames or numbers of others. Boxes for the last members may be shorter."""


def test_a_long_vector_travels_in_frames_of_half_a_mebibyte() -> None:
    world = World(scenario(3, rounds="1"), length=8).run()
    short, long = (dict(party_says(cohort_of(world, length)))["MaskedInput"] for length in (8, 300_000))
    heads = (long - 300_000 * 4, short - 8 * 4)
    assert 3 * heads[1] - 60 <= heads[0] <= 3 * heads[1]
