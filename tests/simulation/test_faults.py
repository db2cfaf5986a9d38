"""Any list of faults, in any order, of anybody: the run ends, and what is opened is right.

The invariants are in :func:`check`. A list of operations that once broke one of them is kept as a literal.
"""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from securefl.base.arrays import F32
from securefl.base.ids import SERVER, PartyId
from securefl.methods.encoding.ring import to_ring
from securefl.protocol.kernel.effects import LEADS, Aborted, Finished, Journal
from securefl.protocol.kernel.events import Received
from securefl.protocol.messages.rounds import Release
from securefl.protocol.round.shared.reports import (
    InstanceLost,
    InstanceRetried,
    RoundDone,
    SharesReleased,
    SumOpened,
    SumsWithheld,
)
from tests.simulation.spy import Grasp, Spy, spying
from tests.simulation.world import Op, World, scenario
from tests.tiers import examples

PARTY_KINDS = (
    "Join",
    "Hello",
    "Reveal",
    "KeyAdvert",
    "ShareBoxes",
    "MaskedInput",
    "Receipt",
    "Endorse",
    "Release",
)
SERVER_KINDS = (
    "RollCall",
    "ModelAnnounce",
    "Invite",
    "Announce",
    "Reveals",
    "KeyList",
    "BoxList",
    "Freeze",
    "Certificate",
    "Goodbye",
)

acts = st.sampled_from(["drop", "duplicate", "delay", "corrupt", "crash"])
names = st.sampled_from([f"p{i:02d}" for i in range(6)])
faults = st.one_of(
    st.builds(Op, st.just("spoil"), names, st.just("ShareBoxes"), st.integers(0, 3)),
    st.builds(Op, acts, names, st.sampled_from(PARTY_KINDS), st.integers(0, 3)),
    st.builds(Op, acts, st.just("server"), st.sampled_from(SERVER_KINDS), st.integers(0, 7)),
)


def powers(party: PartyId, round_: int, params: F32) -> F32:
    """Member i adds 2^i / 4 in coordinate 0: the sum shows who was counted and how often."""
    step = np.zeros_like(params)
    step[0] = 2.0 ** int(party[1:]) / 4
    step[1] = round_ + 1
    return params + step


def check(world: World, spy: Spy, min_survivors: int) -> None:
    crashed = {op.who for op in world.ops if op.act == "crash"}
    outcome = world.server.outcome
    assert isinstance(outcome, Finished | Aborted) or SERVER in crashed
    for node in world.nodes.values():
        assert node.outcome is not None or not node.alive, f"{node.name} hangs in {node.phase}"

    bits = world.plan.limits.ring_bits
    scale = 2**world.scenario.encoding.scale_bits
    counted: Counter[tuple[int, PartyId]] = Counter()
    for report in world.reports(SumOpened):
        opened = report.opened
        assert len(opened.survivors) >= min_survivors
        # Later models are not whole numbers in float32, so the update is 2^i only almost.
        assert round(4 * int(opened.ring[0]) / scale) == sum(2 ** int(p[1:]) for p in opened.survivors)
        exact = to_ring(np.zeros(world.plan.length, dtype=np.int64), bits)
        for party in opened.survivors:
            counted[report.round, party] += 1
            used = [
                m
                for (i, name), m in spy.masked.items()
                if name == party and i[1:4] == (report.round, opened.reclustering, opened.cluster)
            ]
            np.add(exact, used[-1].encoded, out=exact)
        np.testing.assert_array_equal(opened.ring, exact)
    for done in world.reports(RoundDone):
        closed = [r for w in world.reports(SumsWithheld) if w.round == done.round for r in w.reclusterings]
        reclusterings = world.scenario.clustering.reclusterings - len(closed)
        lost_after_freeze = {
            (r.reclustering, r.cluster) for r in world.reports(InstanceLost) if r.round == done.round
        }
        for party in done.participants:
            times = counted[done.round, party]
            assert times in {0, reclusterings} or lost_after_freeze
            assert not times or party in done.survivors

    attempts: dict[tuple[int, int, int, PartyId], set[int]] = {}
    for setup, holder, _ in spy.released:
        i = setup.instance
        attempts.setdefault((i.round, i.reclustering, i.cluster, holder), set()).add(i.attempt)
    assert all(len(used) == 1 for used in attempts.values())
    sent: Counter[tuple[PartyId, int]] = Counter(
        (s.sender, s.place.round) for s in world.sent if isinstance(s.message, Release)
    )
    assert all(times == 1 for times in sent.values())
    for name in world.parties:
        node = world.nodes[name]
        for released in world.reports(SharesReleased, name):
            assert (released.round, "released") in node.journal
        assert len(node.journal) == len(set(node.journal))
    grasp = Grasp(spy)
    assert not grasp.both_kinds()
    assert not grasp.alone()
    assert all(len(group.members) >= min_survivors for group in grasp.groups())


def run(kind: str, reclusterings: int, ops: list[Op], rounds: str = "2") -> World:
    with spying() as spy:
        world = World(
            scenario(6, server=kind, reclusterings=str(reclusterings), rounds=rounds), train=powers, ops=ops
        )
        world.run()
    check(world, spy, 2)
    return world


@settings(max_examples=examples(40), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    kind=st.sampled_from(["curious", "active"]),
    reclusterings=st.integers(1, 2),
    ops=st.lists(faults, min_size=1, max_size=6),
)
# One instance lost early, another still waiting: the server woke for deadlines in the past, for ever.
@example(
    kind="curious",
    reclusterings=1,
    ops=[Op("drop", "p00", "KeyAdvert"), Op("drop", "p01", "KeyAdvert"), Op("drop", "p02", "KeyAdvert")],
)
# Nobody hears the end: every party has to give up by itself.
@example(kind="curious", reclusterings=1, ops=[Op("drop", "server", "Goodbye")])
# Two retries at once, and a party that does not come back from its own.
@example(
    kind="active",
    reclusterings=2,
    ops=[Op("spoil", "p00", "ShareBoxes", 0), Op("crash", "p01", "KeyAdvert", 2)],
)
@example(
    kind="curious",
    reclusterings=1,
    ops=[Op("drop", f"p{i:02d}", "KeyAdvert") for i in (0, 1, 2, 3)] + [Op("delay", "p04", "ShareBoxes")],
)
def test_any_faults(kind: str, reclusterings: int, ops: list[Op]) -> None:
    run(kind, reclusterings, ops)


PHASES = ("Hello", "Reveal", "KeyAdvert", "ShareBoxes", "MaskedInput", "Receipt", "Endorse", "Release")


@pytest.mark.parametrize("kind", ["curious", "active"])
@pytest.mark.parametrize("phase", PHASES)
@pytest.mark.parametrize("count", [0, 1, 2, 3, 4])
def test_dropouts_of_one_cluster_at_each_phase(kind: str, phase: str, count: int) -> None:
    """One cluster of 5 with t = min_survivors = 3; it stands 2 dropouts and opens for nobody with 3."""
    made = scenario(5, size="5", threshold="3", min_survivors="3", server=kind)
    ops = [Op("crash", f"p{i:02d}", phase) for i in range(count)]
    with spying() as spy:
        world = World(made, train=powers, ops=ops).run()
    check(world, spy, 3)
    sums = world.reports(SumOpened)
    if phase == "Endorse" and kind == "curious":
        assert len(sums) == 1  # Nobody endorses, so nobody crashes.
        return
    left = 5 - count
    if phase in {"Hello", "Reveal"}:
        # Too few for a cluster of 5: the run ends before anybody draws a key.
        assert bool(sums) == (count == 0)
        assert (count == 0) or (isinstance(world.server.outcome, Aborted) and not spy.advertised)
        return
    assert bool(sums) == (left >= 3)
    if sums:
        survivors = 5 if phase in {"Endorse", "Release"} else left
        assert len(sums[0].opened.survivors) == survivors
    elif phase != "Release":
        assert not Grasp(spy).groups()


@pytest.mark.parametrize("kind", ["curious", "active"])
@pytest.mark.parametrize("nth", [0, 1])
@pytest.mark.parametrize("message", ["KeyAdvert", "ShareBoxes", "MaskedInput", "Receipt"])
def test_one_lost_message_of_one_instance_uncounts_its_sender_everywhere(
    kind: str, nth: int, message: str
) -> None:
    """At R = 2 a party counted once only would be exposed by the difference of the totals."""
    world = run(kind, 2, [Op("drop", "p02", message, nth)], rounds="1")
    (done,) = world.reports(RoundDone)
    assert set(done.survivors) == set(world.parties) - {"p02"}
    # Where the draw would expose somebody now, the ledger keeps the second reclustering closed.
    assert set(done.opened) >= {(0, 0), (0, 1)}
    assert len(done.opened) + 2 * len(world.reports(SumsWithheld)) == 4
    assert not any("p02" in r.opened.survivors for r in world.reports(SumOpened))


@pytest.mark.parametrize("kind", ["curious", "active"])
def test_the_journal_comes_before_the_shares(kind: str) -> None:
    """A party that cannot write its journal keeps its shares."""
    world = World(scenario(6, server=kind), train=powers)
    order: list[tuple[PartyId, str]] = []
    for name in world.parties:

        def note(event: object, effects: tuple[object, ...], name: PartyId = name) -> tuple[object, ...]:
            told = [e for e in effects if not (isinstance(e, Journal) and e.step.startswith(LEADS))]
            order.extend((name, type(getattr(e, "message", e)).__name__) for e in told)
            return effects

        world.nodes[name].seam = note  # type: ignore[assignment]
    world.run()
    for name in world.parties:
        own = [kind for who, kind in order if who == name]
        assert own.count("Journal") == 3
        assert own.index("Journal") < own.index("Reveal")
        assert own.index("Reveal") < own.index("Journal", own.index("Reveal")) < own.index("MaskedInput")
        assert len(own) - 1 - own[::-1].index("Journal") < own.index("Release")


@pytest.mark.parametrize("kind", ["curious", "active"])
@pytest.mark.parametrize("reclusterings", [1, 2])
def test_a_bad_box_costs_accuser_and_accused_and_a_second_attempt(kind: str, reclusterings: int) -> None:
    made = scenario(
        10, size="5", reclusterings=str(reclusterings), threshold="3", min_survivors="3", server=kind
    )
    with spying() as spy:
        world = World(made, train=powers, ops=[Op("spoil", "p04", "ShareBoxes")]).run()
    check(world, spy, 3)
    (retried,) = world.reports(InstanceRetried)
    assert "p04" in retried.excluded
    (done,) = world.reports(RoundDone)
    assert set(done.survivors) == set(world.parties) - set(retried.excluded)
    assert len(done.opened) + 2 * len(world.reports(SumsWithheld)) == 2 * reclusterings


def test_duplicates_do_not_reach_the_machines() -> None:
    """The inbox drops them; what the machines see is the run without faults."""
    ops = [Op("duplicate", "p01", kind, 0) for kind in PARTY_KINDS]
    ops += [Op("duplicate", "server", kind, n) for kind in SERVER_KINDS for n in range(6)]
    seen: list[tuple[PartyId, str]] = []
    world = World(scenario(6, server="active"), train=powers, ops=ops)
    world.observers.append(
        lambda node, _b, event, _a, _e: (
            seen.append((node.name, type(event.message).__name__)) if isinstance(event, Received) else None
        )
    )
    world.run()
    assert not any(node.rejects for node in world.nodes.values())
    assert seen.count((SERVER, "Hello")) == 6
