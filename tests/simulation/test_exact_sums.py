"""The opened ring sums are, bit for bit, the sums of the survivors' encoded updates without any masks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import numpy as np
import pytest

from securefl.base.arrays import F32
from securefl.base.ids import PartyId
from securefl.methods.encoding.ring import to_ring
from securefl.methods.weighting.weights import cap_of, public_weights
from securefl.protocol.messages.rounds import Hello
from securefl.protocol.round.party.upload import UpdateId, make_upload
from securefl.protocol.round.server.stacking import ClusterSum
from securefl.protocol.round.shared.reports import RoundDone, SumOpened, SurvivorsFrozen
from tests.simulation.spy import Grasp, spying
from tests.simulation.world import Op, World, scenario


def uneven(party: PartyId, round_: int, params: F32) -> F32:
    """Another update for every party, round and coordinate, none of them on the grid."""
    number = int(party[1:])
    step = np.sin(np.arange(params.size) * 0.7 + number * 1.3 + round_).astype(np.float32)
    return np.asarray(params + step * (number + 1), dtype=np.float32)


def samples(party: PartyId) -> int:
    return 3 + 7 * int(party[1:])


def expected(world: World, opened: ClusterSum, round_: int, weights: dict[PartyId, float]) -> list[int]:
    """The same sum without masks, from the same entropy."""
    bits = world.plan.limits.ring_bits
    total = to_ring(np.zeros(world.plan.length, dtype=np.int64), bits)
    for party in opened.survivors:
        before = world.models[round_]
        entropy = world.entropy_of(party).child("update", round_)
        upload = make_upload(
            world.plan,
            UpdateId(round_, 0, before, ()),
            uneven(party, round_, before).astype(np.float64) - before,
            weights[party],
            entropy,
        )
        total += upload.ring
    return [int(word) for word in total]


def check_all(world: World) -> list[ClusterSum]:
    sums = world.reports(SumOpened)
    for report in sums:
        frozen = {f.round: f for f in world.reports(SurvivorsFrozen)}[report.round]
        counts = {party: samples(party) for party in (*frozen.survivors, *frozen.dropped)}
        weights = dict(public_weights(world.scenario.weighting, counts))
        assert [int(w) for w in report.opened.ring] == expected(world, report.opened, report.round, weights)
    return [report.opened for report in sums]


@pytest.mark.parametrize("server", ["curious", "active"])
@pytest.mark.parametrize(("parties", "reclusterings"), [(3, 1), (7, 1), (7, 2), (8, 3), (11, 2)])
def test_every_opened_sum(server: str, parties: int, reclusterings: int) -> None:
    # Uneven clusters against an active server need a larger threshold.
    threshold = "3" if server == "active" and parties != 3 else "2"
    made = scenario(
        parties,
        server=server,
        reclusterings=str(reclusterings),
        leakage__mode="report",
        threshold=threshold,
        min_survivors=threshold,
        rounds="2",
    )
    world = World(made, train=uneven, samples=samples).run()
    sums = check_all(world)
    assert len(sums) == 2 * reclusterings * (parties // 3)
    assert not [r for node in world.nodes.values() for r in node.rejects]


@pytest.mark.parametrize("mode", ["ignore", "passthrough", "truncate", "truncate by alpha"])
@pytest.mark.parametrize("bits", [32, 64])
def test_weights_and_rings(mode: str, bits: int) -> None:
    """What each party multiplies its update by it finds out by itself: no message says a cap or a weight."""
    sets = {"weighting__mode": f'"{mode.split(maxsplit=1)[0]}"', "encoding__ring_bits": str(bits)}
    sets["encoding__clip"] = "2.5"
    if mode == "truncate":
        sets["weighting__cap"] = "20"
    elif mode == "truncate by alpha":
        sets |= {"weighting__alpha": "0.2", "weighting__alpha_star": "0.4"}
        # Of 3, 10, 17, 24, 31 and 38 the last four are cut: 2 U = 0.4 (13 + 4 U).
        made = scenario(6, **sets)
        assert cap_of(made.weighting, {PartyId(f"p0{n}"): 3 + 7 * n for n in range(6)}) == 13
    world = World(scenario(6, **sets), train=uneven, samples=samples, length=33).run()
    assert len(check_all(world)) == 2


DROPS: Sequence[tuple[Op, ...]] = (
    (Op("crash", "p01", "KeyAdvert"),),
    (Op("crash", "p01", "ShareBoxes"),),
    (Op("crash", "p01", "MaskedInput"),),
    (Op("crash", "p01", "Receipt"),),
    (Op("crash", "p01", "Release"),),
    (Op("crash", "p01", "MaskedInput", 1),),
    (Op("crash", "p01", "ShareBoxes"), Op("crash", "p07", "MaskedInput")),
)


@pytest.mark.parametrize("server", ["curious", "active"])
@pytest.mark.parametrize("reclusterings", [1, 2])
@pytest.mark.parametrize("ops", DROPS)
def test_with_dropouts(server: str, reclusterings: int, ops: tuple[Op, ...]) -> None:
    made = scenario(
        12,
        size="4",
        threshold="3",
        min_survivors="3",
        server=server,
        reclusterings=str(reclusterings),
        leakage__mode="report",
    )
    with spying() as spy:
        world = World(made, train=uneven, samples=samples, ops=ops).run()
    sums = check_all(world)
    (done,) = world.reports(RoundDone)
    dead = {op.who for op in ops}
    crashed_before_release = {n for n in dead if not world.nodes[PartyId(n)].alive} - {
        op.who for op in ops if op.kind == "Release"
    }
    assert not crashed_before_release & set(done.survivors)
    for opened in sums:
        assert set(opened.survivors) == set(opened.members) & set(done.survivors)
    counted = [party for opened in sums for party in opened.survivors]
    assert all(counted.count(party) == reclusterings for party in done.survivors)
    assert len(sums) + len(done.lost) == 3 * reclusterings
    assert {frozenset(s.survivors) for s in sums} == {g.members for g in Grasp(spy).groups()}


@pytest.mark.parametrize("count", [0, -1, 2**31 + 1, 1.5])
def test_a_count_that_nobody_may_declare_leaves_its_party_out(count: float) -> None:
    """Such a hello is refused as a message; the others go on, and nobody's weight is touched."""
    world = World(
        scenario(7), train=uneven, samples=lambda party: cast("int", count) if party == "p06" else 10
    )
    world.run()
    (done,) = world.reports(RoundDone)
    assert "p06" not in done.participants
    assert len(done.survivors) == 6
    assert any(reject.culprit == "p06" for reject in world.server.rejects)


def test_hellos_carry_the_declared_counts() -> None:
    world = World(scenario(3), samples=samples).run()
    assert [hello.samples for hello in world.messages(Hello)] == [3, 10, 17]
