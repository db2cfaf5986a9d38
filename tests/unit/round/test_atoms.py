"""Rounds with atoms: formed in the first draw, kept for the run, whole or absent in every sum."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from dataclasses import replace
from unittest.mock import PropertyMock, patch

import msgspec
import pytest

from securefl.base.errors import PeerError
from securefl.base.ids import PartyId
from securefl.methods.clustering.atoms import form_atoms, splits, whole
from securefl.protocol.kernel.effects import ATOMS, Finished, Send
from securefl.protocol.kernel.machine import Event
from securefl.protocol.messages.rounds import Freeze, Hello, Limits
from securefl.protocol.messages.union import AnyMessage
from securefl.protocol.round.party.machine import PartyMachine
from securefl.protocol.round.party.phases import PartyContext
from securefl.protocol.round.shared.atom_seed import atom_seed_of, reason_atoms_unknown
from securefl.protocol.round.shared.draw import shortage
from securefl.protocol.round.shared.plan import RunPlan
from securefl.protocol.round.shared.reports import (
    ClustersDrawn,
    Effects,
    RoundDone,
    RoundSkipped,
    RunEffect,
    SatOut,
    SharesReleased,
    SumOpened,
)
from tests.simulation.world import Op, World, scenario
from tests.unit.misbehaviour.lab import Lab, shown
from tests.unit.round.samples import plan_of

ATOMIC = {"clustering__atoms": "2", "size": "4"}
X, Y = bytes(31) + b"\1", bytes(31) + b"\2"


def without(parties: Iterable[str], *nths: int, kind: str = "Hello") -> list[Op]:
    return [Op("drop", name, kind, nth) for name in parties for nth in nths]


def atoms_of(world: World) -> tuple[tuple[PartyId, ...], ...]:
    """The atoms that every party of a finished world has kept, from what it noted durably."""
    kept = {step for name in world.parties for _, step in world.nodes[name].journal if step.startswith(ATOMS)}
    (step,) = kept
    return form_atoms(bytes.fromhex(step.removeprefix(ATOMS)), world.parties, world.scenario.clustering.atoms)


def assert_whole(world: World) -> None:
    """No sum of the run has split an atom, and all parties saw the server's clusters."""
    atoms = atoms_of(world)
    for opened in world.reports(SumOpened):
        assert not splits(atoms, opened.opened.survivors)
        assert not splits(atoms, opened.opened.members)
    clusters = {drawn.round: drawn.clusters for drawn in world.reports(ClustersDrawn)}
    for name in world.parties:
        assert all(
            clusters[d.round] == d.clusters for d in world.reports(ClustersDrawn, name) if d.clusters[0]
        )


def test_dropouts_take_their_atoms_along_and_the_atoms_stay() -> None:
    config = scenario(11, rounds="3", reclusterings="2", **ATOMIC)
    cast = {
        "p01": (shown("drop", phase="after-keys", rounds=[0]),),
        "p07": (shown("drop", phase="after-shares", rounds=[2], announced=True),),
    }
    lab = Lab(config, cast)
    lab.ops = without(["p03"], 1)
    lab.run()
    assert_whole(lab)
    atoms = atoms_of(lab)
    assert sorted(map(len, atoms)) == [2, 2, 2, 2, 3]
    home = {party: set(atom) for atom in atoms for party in atom}
    done = {d.round: set(d.survivors) for d in lab.reports(RoundDone)}
    everybody = set(lab.parties)
    assert done[2] == everybody - home[PartyId("p07")]
    assert done[1] == everybody - home[PartyId("p03")]
    assert home[PartyId("p01")].isdisjoint(done[0])
    for round_ in range(3):
        lab.assert_sums_right(round_)
    mate = min(home[PartyId("p03")] - {PartyId("p03")})
    out = next(r for r in lab.reports(SatOut, mate) if r.round == 1)
    assert out == SatOut(1, "its atom is not whole, or not drawn")


def test_who_misses_the_atom_draw_learns_of_it_from_the_others() -> None:
    world = World(scenario(8, rounds="3", **ATOMIC), ops=without(["p00", "p05"], 0))
    world.run()
    assert_whole(world)
    late = [h.atom_seed for h in world.messages(Hello, PartyId("p00"))]
    assert late[:2] == [b"", b""]
    assert len(late[2]) == 32
    assert [len(d.survivors) for d in world.reports(RoundDone)][1:] == [8, 8]


def test_too_few_whole_atoms_cost_the_round_but_not_the_atoms() -> None:
    """In round 0 nobody knows yet who belongs together: it turns out after the draw."""
    config = scenario(8, rounds="3", clustering__atoms="4", size="8", min_survivors="4", threshold="4")
    world = World(config, ops=without(["p00"], 0, 2)).run()
    skipped = [(r.round, r.reason) for r in world.reports(RoundSkipped)]
    assert skipped == [(0, "7 parties are there; 7 are there, and 8 are needed"), (2, skipped[1][1])]
    assert skipped[1][1] == "7 parties are there; 4 of them are in whole atoms, and 8 are needed"
    assert [len(d.survivors) for d in world.reports(RoundDone)] == [0, 8, 0]


def test_an_atom_draw_without_clusters_still_forms_the_atoms() -> None:
    config = scenario(9, rounds="3", clustering__atoms="3", size="6", min_survivors="3", threshold="3")
    world = World(config, ops=without(["p00", "p01", "p02"], 0))
    world.run()
    (skipped,) = world.reports(RoundSkipped)
    assert skipped.round == 0
    assert "of them are in whole atoms, and 6 are needed" in skipped.reason
    assert isinstance(world.server.outcome, Finished)
    (atom_seed,) = {hello.atom_seed for hello in world.messages(Hello) if hello.atom_seed}
    assert form_atoms(atom_seed, world.parties, 3) == atoms_of(world)


def test_a_server_that_splits_an_atom_gets_nothing() -> None:
    """Differencing by dropout over rounds: each time another member of one atom is said to be missing."""
    config = scenario(6, size="6", clustering__atoms="3")

    def lie(_event: Event[AnyMessage], effects: tuple[RunEffect, ...]) -> Effects:
        return tuple(
            msgspec_replaced(effect)
            if isinstance(effect, Send) and isinstance(effect.message, Freeze)
            else effect
            for effect in effects
        )

    def msgspec_replaced(effect: Send[AnyMessage]) -> Send[AnyMessage]:
        assert isinstance(effect.message, Freeze)
        survivors = tuple(name for name in effect.message.survivors if name != "p04")
        return Send(effect.to, effect.place, msgspec.structs.replace(effect.message, survivors=survivors))

    world = World(config)
    world.server.seam = lie
    world.run()
    assert not world.reports(SumOpened)
    for name in world.parties:
        assert not world.reports(SharesReleased, name)
        if name != "p04":
            assert "lists survivors that split an atom" in [r.reason for r in world.nodes[name].rejects]


def hello(atom_seed: bytes) -> Hello:
    zero = bytes(32)
    limits = Limits(min_survivors=2, k_anonymity=2, leakage="veto", colluders=0, leverage=1_000_000)
    return Hello(
        samples=1, model_digest=zero, config_digest=zero, commitment=zero, limits=limits, atom_seed=atom_seed
    )


def plan_with(colluders: int) -> RunPlan:
    """A plan of which nothing counts but the colluders."""
    plan = World(scenario(6)).plan
    sums = msgspec.structs.replace(plan.scenario.secure_sum, colluders=colluders)
    return replace(plan, scenario=msgspec.structs.replace(plan.scenario, secure_sum=sums))


def hellos(*atom_seeds: bytes) -> dict[PartyId, Hello]:
    return {PartyId(f"p{i}"): hello(atom_seed) for i, atom_seed in enumerate(atom_seeds)}


@pytest.mark.parametrize(
    ("stated", "known", "colluders", "expected"),
    [
        ((b"", b""), b"", 0, b""),
        ((X, b""), X, 5, X),
        ((X, b""), b"", 0, X),
        ((X, X, b""), b"", 1, X),
    ],
)
def test_the_atoms_that_hellos_state(
    stated: tuple[bytes, ...], known: bytes, colluders: int, expected: bytes
) -> None:
    assert atom_seed_of(plan_with(colluders), hellos(*stated), known) == expected
    assert reason_atoms_unknown(hellos(*stated), known) is None


@pytest.mark.parametrize(
    ("stated", "known", "colluders", "says"),
    [
        ((X, Y), X, 0, "different atoms"),
        ((X, Y), b"", 0, "different atoms"),
        ((Y, b""), X, 0, "different atoms"),
        ((X, b"", b""), b"", 1, "1 parties confirm, 2 are needed"),
        ((X, X, b""), b"", 2, "2 parties confirm, 3 are needed"),
    ],
)
def test_a_server_that_mixes_atoms_or_has_colluders_vouch_is_refused(
    stated: tuple[bytes, ...], known: bytes, colluders: int, says: str
) -> None:
    with pytest.raises(PeerError, match=says):
        atom_seed_of(plan_with(colluders), hellos(*stated), known)


def test_atoms_that_nobody_knows_any_more_are_not_formed_anew() -> None:
    assert reason_atoms_unknown(hellos(b"", b""), X) == "none of them was there when the atoms were formed"


def test_the_server_refuses_who_states_other_atoms() -> None:
    def lie(_event: Event[AnyMessage], effects: tuple[RunEffect, ...]) -> Effects:
        return tuple(
            Send(e.to, e.place, msgspec.structs.replace(e.message, atom_seed=Y))
            if isinstance(e, Send) and isinstance(e.message, Hello)
            else e
            for e in effects
        )

    world = World(scenario(6, rounds="2", **ATOMIC))
    world.nodes[PartyId("p02")].seam = lie
    world.run()
    assert {(r.culprit, r.reason) for r in world.server.rejects} == {
        ("p02", "states atoms that this run does not have")
    }
    assert [len(d.survivors) for d in world.reports(RoundDone)] == [4, 4]


def test_a_restarted_party_keeps_its_atoms() -> None:
    plan = plan_of(scenario(12, **ATOMIC))
    world = World(scenario(12, **ATOMIC))
    ctx = PartyContext(plan, PartyId("p00"), 1, world.entropy_of(PartyId("p00")), atom_seed=X)
    phase, _ = PartyMachine(ctx).start(0.0)
    assert getattr(phase, "past").atom_seed == X  # noqa: B009 - any phase


def test_shortage_counts_members_of_whole_atoms() -> None:
    plan = plan_of(scenario(13, **ATOMIC))
    atoms = form_atoms(X, plan.roster.parties, 2)
    everybody = set(itertools.chain(*atoms))
    assert shortage(plan, everybody, X) is None
    one_of_each = {atom[0] for atom in atoms}
    assert len(one_of_each) == 6
    assert shortage(plan, one_of_each) == "7 are needed: more than half of the roster"
    with patch.object(RunPlan, "majority", PropertyMock(return_value=6)):
        assert shortage(plan, one_of_each) is None, "unknown before the atoms are formed"
        found = shortage(plan, one_of_each, X)
    assert found == "0 of them are in whole atoms, and 4 are needed"
    assert whole(atoms, everybody - one_of_each) == ()
