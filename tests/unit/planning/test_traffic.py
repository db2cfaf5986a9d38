"""Bytes as planned, against every frame of recorded rounds."""

from __future__ import annotations

from collections import Counter

import pytest

from securefl.base.crypto.boxes import OVERHEAD
from securefl.base.ids import EVERYONE, SERVER
from securefl.lab.planning.frames import Cohort, SumKind
from securefl.lab.planning.traffic import party_says, server_says, traffic
from securefl.lab.planning.verifiers import (
    committee_hears,
    opener_hears,
    verifier_says,
    verifier_traffic,
    verifiers_of,
)
from securefl.methods.clustering.sizes import cluster_sizes
from securefl.methods.feasibility.validation import largest_checked
from securefl.methods.privacy import components_of
from securefl.protocol.messages.validation import Deals, OwnerDeal
from securefl.protocol.messages.verification import OpeningProof, StepProof
from securefl.protocol.round.shared.plan import RunPlan
from securefl.protocol.secure_sum.validated.dealing import requests_of
from securefl.protocol.wire.codec import encode
from securefl.protocol.wire.envelope import peek
from securefl.scenario.privacy import DEAL_BYTES
from tests.simulation.lying import verified
from tests.simulation.world import RUN, World, scenario
from tests.tiers import sampled

_NUMBERS = 6
"""Bytes by which the numbers in the head of one frame, and of what it relays, may be longer or shorter."""


def cohort_of(world: World, length: int) -> Cohort:
    plan: RunPlan = world.plan
    sums = plan.scenario.secure_sum
    assert sums.kind != "plain"
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
        kind=sums.kind if sums.validated is None else "validated",
        components=components_of(plan.scenario),
        verifiers=verifiers_of(plan.scenario, members),
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


KINDS = {
    "masking": {},
    "crypten": {"secure_sum__kind": "crypten"},
    "validated": {
        "secure_sum__kind": "crypten",
        "secure_sum__validate": "{ norm = 4.0 }",
        "encoding__clip": "3.6",
        "weighting__mode": "ignore",
    },
}


@pytest.mark.parametrize(
    ("kind", "parties", "size", "again", "server", "length", "bits"),
    [
        ("masking", 8, 4, 1, "curious", 64, 32),
        ("masking", 10, 5, 2, "active", 300, 64),
        ("masking", 8, 8, 1, "curious", 40_000, 64),
        ("crypten", 6, 3, 2, "curious", 64, 32),
        ("crypten", 3, 3, 1, "active", 40_000, 64),
        ("validated", 3, 3, 1, "active", 300, 64),
        ("validated", 4, 4, 1, "curious", 5, 64),
    ],
)
def test_a_recorded_round_has_the_planned_bytes(
    kind: str, parties: int, size: int, again: int, server: str, length: int, bits: int
) -> None:
    at = 0 if kind == "validated" else 1
    made = scenario(
        parties,
        size=str(size),
        reclusterings=str(again),
        threshold=str(size // 2 + 1),
        min_survivors=str(size // 2 + 1),
        server=server,
        rounds=str(at + 1),
        encoding__ring_bits=str(bits),
        **KINDS[kind],
    )
    world = World(made, length=length).run()
    cohort = cohort_of(world, length)
    for party in world.parties:
        sent, received, frames = recorded(world, party, at)
        for says, found in ((party_says(cohort), sent), (server_says(cohort), received)):
            planned: Counter[str] = Counter()
            for name, number in says:
                planned[name] += number
            assert planned.keys() == found.keys()
            for name, number in found.items():
                close = _NUMBERS * (frames[name] + (parties + again * size if name in LISTS else 1))
                paths = 34 * size.bit_length() * size * again if name in BOXED else 0
                assert -close <= planned[name] - number <= close + paths, name
        whole = sum(sent.values()) + sum(received.values())
        assert traffic(cohort).total == pytest.approx(whole, rel=0.01 if size in {4, 8} else 0.05)


REMOVABLE = {
    "privacy__unit": "party",
    "privacy__multiplier": "0.5",
    "privacy__delta": "0.05",
    "privacy__placement": "dropout-exact",
    "encoding__clip": "64.0",
    "encoding__scale_bits": "2",
}
VERIFIED: dict[str, tuple[int, dict[str, str]]] = {
    "masking": (300, {}),
    "two reclusterings": (64, {"reclusterings": "2", "leakage__mode": '"report"'}),
    "everybody": (64, {"secure_sum__verify": '"all"'}),
    "ring of 64 bits, long": (40_000, {"encoding__ring_bits": "64"}),
    "CrypTen": (300, {"secure_sum__kind": '"crypten"'}),
    "removable noise": (64, REMOVABLE),
    "nobody to spare": (64, {"size": "3", "threshold": "3"}),
}


@pytest.mark.parametrize("mode", sampled(VERIFIED, [*VERIFIED][::3]))
def test_a_verified_round_has_the_planned_bytes(mode: str) -> None:
    """A member that verifies nothing, one that repeats openings, and one of the committee."""
    length, more = VERIFIED[mode]
    made = verified(rounds="3", **more)
    world = World(made, length=length).run()
    cohort = cohort_of(world, length)
    at, roles = 1, set()
    told = verifier_traffic(cohort)
    assert told is not None
    whole = Counter[str]()
    for party in world.parties:
        sent, received, frames = recorded(world, party, at)
        openings, steps = (
            sum(
                one.to == party and one.place.round == at and isinstance(one.message, kind)
                for one in world.sent
            )
            for kind in (OpeningProof, StepProof)
        )
        roles.add((openings > 0, steps))
        planned = [Counter[str](), Counter[str]()]
        for counter, said, times in (
            (planned[0], party_says(cohort), 1),
            (planned[1], server_says(cohort), 1),
            (planned[0], verifier_says(cohort), openings + steps),
            (planned[1], opener_hears(cohort), openings),
            (planned[1], committee_hears(cohort), steps),
        ):
            for name, number in said:
                counter[name] += times * number
        for counter, found in zip(planned, (sent, received), strict=True):
            assert {name for name, number in counter.items() if number} == found.keys()
            for name, number in found.items():
                inside = len(world.parties) + 2 * cohort.sums + cohort.reclusterings * cohort.members
                close = _NUMBERS * (frames[name] + (inside if name in LISTS else 1))
                paths = 34 * 3 * cohort.members * cohort.reclusterings if name in BOXED else 0
                assert -close <= counter[name] - number <= close + paths, name
                whole["found"] += number
        whole["planned"] += sum(planned[0].values()) + sum(planned[1].values())
        extra = openings * told.opening.received + steps * told.step.received
        base = traffic(cohort)
        assert base.total + extra + (openings + steps) * told.step.sent == sum(
            sum(counter.values()) for counter in planned
        )
    assert whole["planned"] == pytest.approx(whole["found"], rel=0.02)
    assert len(world.parties) * (traffic(cohort).total + told.mean.total) == pytest.approx(
        whole["planned"], rel=1e-3
    )
    assert (cohort.components > 0) == (mode == "removable noise")
    if mode == "masking":
        assert roles == {(True, 1), (True, 0)}, "2 f + 2 = 4 of 4 repeat the opening"


BOXED = {"BoxList", "ShareBoxes"}
LISTS = {
    "Announce",
    "ChainedAnnounce",
    "OpeningProof",
    "BindingFreeze",
    "Reveals",
    "KeyList",
    "BoxList",
    "Freeze",
    "Certificate",
    "Release",
    "ShareBoxes",
}
"""Messages that hold frames or numbers of others. Boxes for the last members may be shorter."""


def test_a_long_vector_travels_in_frames_of_half_a_mebibyte() -> None:
    world = World(scenario(3, rounds="1"), length=8).run()
    short, long = (dict(party_says(cohort_of(world, length)))["MaskedInput"] for length in (8, 300_000))
    heads = (long - 300_000 * 4, short - 8 * 4)
    assert 3 * heads[1] - 60 <= heads[0] <= 3 * heads[1]


@pytest.mark.parametrize(
    ("members", "length", "measured"),
    [
        (3, 25_450, {"masking": (103.3, 1.8), "crypten": (102.6, 1.3), "validated": (446.6, 253.1)}),
        (5, 25_450, {"masking": (104.0, 3.2), "crypten": (102.6, 2.2), "validated": (975.3, 797.5)}),
        (3, 1_000_000, {"masking": (4_002.3, 1.8), "crypten": (4_001.6, 1.3), "validated": (16_042, 8_051)}),
    ],
)
def test_sums_cost_what_the_benchmark_measured(
    members: int, length: int, measured: dict[SumKind, tuple[float, float]]
) -> None:
    """kB of docs/crypten.md, which leave out the round around the sum."""
    around = {"Hello", "Reveal", "ModelAnnounce", "Invite", "Announce", "Reveals"}
    for kind, (up, down) in measured.items():
        cohort = Cohort(
            run="bench",
            party="p00",
            parties=members,
            members=members,
            reclusterings=1,
            clusters=1,
            parameters=length,
            word=8 if kind == "validated" else 4,
            min_survivors=2,
            k=2,
            quorum=None,
            kind=kind,
        )
        for says, found in ((party_says(cohort), up), (server_says(cohort), down)):
            planned = sum(size for name, size in says if name not in around) / 1000
            assert planned == pytest.approx(found, rel=0.001, abs=0.1), kind


@pytest.mark.parametrize("projections", [8, 64, 256])
def test_triples_of_the_largest_cluster_that_is_validated_just_fit_into_a_frame(projections: int) -> None:
    most = largest_checked(projections)
    for members, fits in ((most, True), (most + 1, False)):
        words = sum(request.size for request in requests_of(members - 1, projections))
        deals = [OwnerDeal(owner=0, seed=bytes(32), correction=bytes(8 * words))]
        deals += [OwnerDeal(owner=members - 1, seed=bytes(32), correction=b"")] * (members - 2)
        assert (OVERHEAD + len(encode(Deals(checks=tuple(deals)))) <= DEAL_BYTES) is fits, members
