"""Verified rounds: parties repeat what the server makes of a round, and train on nothing else (ADR 0044)."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import partial
from typing import Any, cast

import numpy as np
import pytest
from msgspec import structs

from securefl.base.arrays import F32, Ring
from securefl.base.errors import PeerError
from securefl.base.ids import SERVER, PartyId
from securefl.protocol.kernel.effects import Aborted, Finished, Send
from securefl.protocol.kernel.events import Received
from securefl.protocol.messages.masking import Receipt, VectorReceipt
from securefl.protocol.messages.rounds import (
    Announce,
    BindingFreeze,
    Freeze,
    Reveal,
)
from securefl.protocol.messages.verification import (
    Attest,
    ChainedAnnounce,
    ChainedReveal,
    OpeningProof,
    RoundClaim,
    StepProof,
)
from securefl.protocol.round.party.phases import PartyHistory
from securefl.protocol.round.party.verifying import follow, on_proof
from securefl.protocol.round.shared.blame import judge
from securefl.protocol.round.shared.charges import parse_evidence
from securefl.protocol.round.shared.repeating import LAST_BITS
from securefl.protocol.round.shared.reports import (
    ClustersDrawn,
    LinkFollowed,
    ModelFinal,
    RoundDone,
)
from securefl.protocol.secure_sum import evidence
from securefl.protocol.secure_sum.crypten import member as crypten_member
from securefl.protocol.secure_sum.evidence import OpenedSecrets
from securefl.protocol.secure_sum.masking import client as masking_client
from securefl.scenario.scenario import Scenario
from tests.seen import patch_seen
from tests.simulation.lying import (
    Sums,
    distinct,
    followed,
    kept_evidence,
    other_claim,
    other_outcome,
    other_secrets,
    other_sums,
    reclaimed,
    resigned,
    verified,
)
from tests.simulation.world import Node, Op, World
from tests.tiers import covering, sampled

P = [PartyId(f"p{i:02d}") for i in range(12)]
START = np.zeros(16, dtype=np.float32).tobytes()
VALIDATED = {
    "secure_sum__kind": '"crypten"',
    "secure_sum__validate": "{norm = 40.0}",
    "encoding__clip": "30.0",
    "rounds": "2",
}
OPEN = {
    "groups__count": "2",
    "groups__mode": '"open"',
    "groups__choice_epsilon": "2.0",
    "weighting__mode": '"ignore"',
    "secure_sum__colluders": "1",
}
PARTY_NOISE = {
    "privacy__unit": '"party"',
    "privacy__multiplier": "0.5",
    "privacy__delta": "0.05",
    "encoding__clip": "64.0",
    "encoding__scale_bits": "2",
}
RECORD_NOISE = {
    "privacy__unit": '"record"',
    "privacy__multiplier": "1.5",
    "privacy__delta": "0.05",
    "privacy__records": "100",
    "training__batch_size": "16",
    "training__dp_sgd": "{}",
    "weighting__mode": '"ignore"',
    "encoding__scale_bits": "13",
}
MODES: dict[str, dict[str, str]] = {
    "masking": {},
    "two reclusterings": {"reclusterings": "2", "leakage__mode": '"report"'},
    "everybody": {"secure_sum__verify": '"all"'},
    "CrypTen": {"secure_sum__kind": '"crypten"', "rounds": "2"},
    "momentum": {"server_optimiser__momentum": "0.9"},
    "median": {"aggregation__rule": '{type = "median"}'},
    "truncated weights": {"weighting__mode": '"truncate"', "weighting__cap": "5"},
    "ring of 64 bits": {"encoding__ring_bits": "64"},
    "validated": VALIDATED,
    "new work": {"reclusterings": "2", "clustering__new_work": "true", "leakage__mode": '"report"'},
    "ignored counts": {"weighting__mode": '"ignore"'},
    "open groups": OPEN,
    "open groups that begin": OPEN | {"groups__warmup": "1", "rounds": "4"},
    "local noise": PARTY_NOISE,
    "threshold noise": PARTY_NOISE | {"privacy__placement": '"threshold"'},
    "removable noise": PARTY_NOISE | {"privacy__placement": '"dropout-exact"'},
    "record noise": RECORD_NOISE | {"privacy__placement": '"dropout-exact"'},
    "atoms": {"size": "6", "clustering__atoms": "3", "threshold": "4", "min_survivors": "4"},
}


@pytest.mark.parametrize("mode", sampled(MODES, [*MODES.keys() - {"validated"}]))
def test_every_round_is_confirmed_and_followed(mode: str) -> None:
    made = verified(**MODES[mode])
    run = followed(made)
    rounds = made.stop.rounds
    assert isinstance(run.world.server.outcome, Finished)
    assert run.confirmed == list(range(rounds))
    assert run.reasons(P) == ""
    for round_ in range(rounds):
        models = run.models(round_, P)
        parts = np.split(run.world.models[round_], made.groups.count)
        assert models
        assert models <= {part.tobytes() for part in parts}
    for name in P:
        followed_by = [one.round for one in run.world.reports(LinkFollowed, name)]
        assert followed_by == list(range(rounds - 1)), "of the last there is no next round"


def test_the_models_are_those_of_a_run_that_verifies_nothing() -> None:
    made = [verified(secure_sum__verify=f'"{how}"', **MODES["median"]) for how in ("off", "committee", "all")]
    seen = [followed(one).world for one in made]
    finals = [world.reports(ModelFinal)[0].params.tobytes() for world in seen]
    assert len(set(finals)) == 1


def test_nothing_more_is_said_where_nothing_is_verified() -> None:
    world = followed(verified(secure_sum__verify='"off"')).world
    for kind, base in (
        (VectorReceipt, Receipt),
        (BindingFreeze, Freeze),
        (ChainedAnnounce, Announce),
        (ChainedReveal, Reveal),
    ):
        assert not world.messages(kind)
        assert world.messages(base)
    for proof in (OpeningProof, StepProof, Attest):
        assert not world.messages(proof)


class TestDropouts:
    @pytest.mark.parametrize(
        "kind", ["KeyAdvert", "ShareBoxes", "MaskedInput", "Endorse", "Release", "Attest"]
    )
    def test_a_member_that_crashes_costs_no_round(self, kind: str) -> None:
        run = followed(verified(), ops=[Op("crash", "p03", kind)])
        assert run.confirmed == [0, 1, 2]
        assert run.reasons(P) == ""

    def test_one_that_was_away_for_a_round_believes_more_than_q_others(self) -> None:
        run = followed(
            verified(rounds="4"), ops=[Op("drop", "p05", "Hello", 1), Op("drop", "p05", "Endorse", 1)]
        )
        assert run.confirmed == [0, 1, 2, 3]
        (last,) = run.models(3, [P[5]])
        assert last == run.world.models[3].tobytes()

    def test_without_attests_the_round_is_void_and_the_next_begins_where_it_began(self) -> None:
        lost = [Op("drop", name, "Attest", nth) for name in P for nth in range(2)]
        run = followed(verified(), ops=lost)
        assert run.refused[0][0] == 0
        assert run.models(1, P) == set(), "a round is skipped"
        assert run.models(2, P) == {START}


def one_more(sums: Sums, k: int = 0) -> Sums:
    ring = sums[0].ring.copy()
    ring[3:4] += ring.dtype.type(1 << k)
    return (replace(sums[0], ring=ring), *sums[1:])


def shifted(k: int) -> Callable[[Sums], Sums]:
    return lambda sums: one_more(sums, k)


def mapped(change: Callable[[Ring], Ring]) -> Callable[[Sums], Sums]:
    return lambda sums: (replace(sums[0], ring=change(sums[0].ring)), *sums[1:])


def swapped(sums: Sums) -> Sums:
    return (replace(sums[0], ring=sums[1].ring), replace(sums[1], ring=sums[0].ring), *sums[2:])


def lowest(ring: Ring) -> Ring:
    """With the integer that has no magnitude in one coordinate."""
    result = ring.copy()
    result[2:3] = 1 << (8 * ring.dtype.itemsize - 1)
    return result


def negated(ring: Ring) -> Ring:
    result = np.zeros_like(ring)
    result -= ring
    return result


def rotated(ring: Ring) -> Ring:
    result = ring.copy()
    result[4:], result[:4] = ring[:-4], ring[-4:]
    return result


LIES: dict[str, Callable[[], AbstractContextManager[None]]] = {
    "one step more in one coordinate": lambda: other_sums(one_more),
    **{f"S + 2^{k}": partial(other_sums, shifted(k)) for k in (8, 16, 30, 31)},
    "-S": lambda: other_sums(mapped(negated)),
    "rotated blocks": lambda: other_sums(mapped(rotated)),
    "zeros": lambda: other_sums(mapped(np.zeros_like)),
    "swapped clusters": lambda: other_sums(swapped),
    "all sums but one": lambda: other_sums(lambda sums: sums[1:]),
    "one sum twice": lambda: other_sums(lambda sums: (*sums[:2], replace(sums[2], ring=sums[1].ring))),
    "another model": lambda: other_outcome(params=one_further),
    "one parameter": lambda: other_outcome(params=past_rounding),
    "another state": lambda: other_outcome(moments=one_further),
    "another first model": lambda: other_claim(lambda claim: structs.replace(claim, previous=bytes(32))),
    "another certificate": lambda: other_claim(uncertified),
    "a sum that is said to be lost": lambda: other_claim(without_first),
    "other seeds": lambda: other_secrets(lambda one: OpenedSecrets({k: bytes(32) for k in one.seeds})),
    "no seeds": lambda: other_secrets(lambda _one: OpenedSecrets({})),
}
"""What a server may claim of every round in place of the truth."""
CORRUPT: tuple[tuple[str, ...], ...] = ((), ("p02",), ("p02", "p07"))
"""Parties that the server corrupts: none, f and q of them."""


def one_further(values: Any) -> Any:
    return values + values.dtype.type(1)


def past_rounding(model: F32) -> F32:
    """A small change of one parameter that cannot be another rounding."""
    changed = model.copy()
    changed[7] += 2 * LAST_BITS * np.spacing(max(np.float32(1), abs(changed[7])))
    return changed


def next_float(model: F32) -> F32:
    changed = model.copy()
    changed[7] = np.nextafter(changed[7], np.float32(np.inf), dtype=np.float32)
    return changed


def uncertified(claim: RoundClaim) -> RoundClaim:
    return structs.replace(claim, statement=bytes(32))


def without_first(claim: RoundClaim) -> RoundClaim:
    return structs.replace(claim, sums=(bytes(32), *claim.sums[1:]))


@pytest.mark.parametrize(("lie", "corrupt"), covering(LIES, CORRUPT))
def test_nobody_honest_trains_on_a_lie(lie: str, corrupt: tuple[str, ...]) -> None:
    """Colluders attest everything. In this run's clusters there is never more than one of them."""
    honest = [name for name in P if name not in corrupt]
    with LIES[lie]():
        run = followed(verified(), corrupt=[PartyId(name) for name in corrupt])
    assert run.confirmed == []
    assert isinstance(run.world.server.outcome, Aborted)
    for round_ in range(3):
        assert run.models(round_, honest) <= {START}
    assert run.models(0, honest) == {START}


def test_another_rounding_is_refused_and_named_as_such() -> None:
    """A server whose processor or numpy rounds otherwise gets no round, and is not convicted."""
    with other_outcome(moments=one_further):
        state = followed(verified(rounds="1"))
    assert state.confirmed == []
    assert not [one for name in (*P, SERVER) for one in kept_evidence(state.world, name)]
    with other_outcome(params=next_float):
        run = followed(verified(rounds="1"))
    assert run.confirmed == []
    assert run.models(0, P) == {START}
    reasons = {one.reason for name in P for one in run.world.nodes[name].rejects}
    assert any("differs in the last bits from what the sums of round 0 make here" in one for one in reasons)
    assert not [one for name in (*P, SERVER) for one in kept_evidence(run.world, name)]


def test_a_first_model_that_does_not_follow_from_the_seed_is_refused() -> None:
    made = verified()
    other = np.ones(16, dtype=np.float32)

    class Elsewhere(World):
        def first_link(self, initial: F32) -> Any:
            return super().first_link(np.zeros_like(initial))

    world = Elsewhere(made, length=16, initial=other).run()
    assert not world.reports(RoundDone)[0].survivors
    assert all("of another or an earlier state" in world.nodes[name].rejects[0].reason for name in P)


def clusters(made: Scenario, round_: int = 0) -> tuple[tuple[PartyId, ...], ...]:
    """The clusters of a round, which no lie about an earlier one changes in the first."""
    (drawn,) = [one for one in followed(made).world.reports(ClustersDrawn) if one.round == round_]
    return drawn.clusters[0]


class TestMoreThanFInACluster:
    """The cluster counts as Byzantine, for the rule as well; it may say later what it has sent."""

    def test_they_choose_their_own_sum_as_late_as_they_like(self) -> None:
        corrupt = clusters(verified())[0][:2]
        with other_sums(one_more):
            seen = followed(verified(), corrupt=corrupt)
        assert 0 in seen.confirmed

    def test_and_no_other(self) -> None:
        corrupt = clusters(verified())[1][:2]
        with other_sums(one_more):
            assert followed(verified(), corrupt=corrupt).confirmed == []

    @pytest.mark.parametrize("ring", sampled(["32", "64"], ["64"]))
    def test_the_rule_does_not_see_one_that_no_members_could_send(self, ring: str) -> None:
        """Not even the lowest integer of 64 bits, which has no magnitude. The round stands without it."""
        made = verified(encoding__ring_bits=ring)
        corrupt = clusters(made)[0][:2]
        with other_sums(lambda sums: (replace(sums[0], ring=lowest(sums[0].ring)), *sums[1:])):
            seen = followed(made, corrupt=corrupt)
        assert 0 in seen.confirmed
        assert seen.world.reports(RoundDone)[0].failed == ((0, 0),)
        without = [
            distinct(name, 0, np.zeros(16, dtype=np.float32)) for name in P if name not in clusters(made)[0]
        ]
        (model,) = seen.models(1, [name for name in P if name not in corrupt])
        assert np.frombuffer(model, dtype=np.float32) == pytest.approx(np.mean(without, axis=0), abs=1e-3)


@pytest.mark.parametrize("kind", ["masking", "crypten"])
def test_a_member_that_masks_what_cannot_be_encoded_takes_no_round_from_the_others(kind: str) -> None:
    honest, client = evidence.input_with_receipt, masking_client if kind == "masking" else crypten_member

    def too_much(setup: Any, member: int, masked: Any, *rest: Any) -> Any:
        if setup.members[member] == "p04":
            masked = masked + masked.dtype.type(1 << 30)
        return honest(setup, member, masked, *rest)

    with patch_seen(client, "input_with_receipt", too_much):
        run = followed(verified(secure_sum__kind=f'"{kind}"'))
    assert run.confirmed == [0, 1, 2]
    drawn = [one.clusters[0] for one in run.world.reports(ClustersDrawn)]
    own = [next(j for j, some in enumerate(one) if "p04" in some) for one in drawn]
    assert [done.failed for done in run.world.reports(RoundDone)] == [((0, j),) for j in own]


@pytest.mark.parametrize(
    ("mode", "lie"),
    covering(
        ["CrypTen", "validated", "two reclusterings", "everybody", "momentum"],
        ["one step more in one coordinate", "swapped clusters", "other seeds", "no seeds"],
    ),
)
def test_nor_does_anybody_in_other_modes(mode: str, lie: str) -> None:
    with LIES[lie]():
        run = followed(verified(**MODES[mode]))
    assert run.confirmed == []
    assert run.models(1, P) | run.models(2, P) <= {START}


def seen_by_a_verifier(made: Scenario, kind: type[Any]) -> list[tuple[Any, PartyHistory, Received[Any]]]:
    """Context, past and event of every step in which a party takes such a message."""
    seen: list[tuple[Any, PartyHistory, Received[Any]]] = []

    def look(node: Node, before: Any, event: object, _after: object, _effects: object) -> None:
        if isinstance(event, Received) and isinstance(event.message, kind) and node.name in P:
            seen.append((cast("Any", node.machine)._ctx, before.past, event))

    world = World(made, length=16, train=distinct)
    world.observers.append(look)
    world.run()
    return seen


def test_a_verifier_attests_one_root_a_round() -> None:
    ctx, past, event = seen_by_a_verifier(verified(rounds="1"), OpeningProof)[0]
    after, effects = on_proof(ctx, past, event.place, event.message)
    assert any(isinstance(one, Send) for one in effects)
    claim = structs.replace(event.message.claim, model=bytes(32))
    other = reclaimed(ctx, past, event.place, event.message, claim)
    with pytest.raises(PeerError, match="signed two results") as caught:
        on_proof(ctx, after, event.place, other)
    found = judge(parse_evidence(caught.value.evidence), ctx.plan)
    assert found == ("server", "signed two results of round 0")


def test_an_earlier_link_is_no_answer() -> None:
    announced = seen_by_a_verifier(verified(), ChainedAnnounce)
    early = next(event.message for _, _, event in announced if event.place.round == 1)
    ctx, past, last = next(one for one in announced if one[2].place.round == 2)
    model = last.message.claim.model
    place = last.place
    assert follow(ctx, past, place, last.message, model)[2], "the true one"
    with pytest.raises(PeerError, match="outside the verified chain") as other:
        follow(ctx, past, place, resigned(ctx, past, place, early, model=model), model)
    what = "starts round 2 with a model outside the verified chain"
    assert judge(parse_evidence(other.value.evidence), ctx.plan) == (SERVER, what)
    following, *_ = follow(ctx, past, place, last.message, model)
    with pytest.raises(PeerError, match="earlier state") as back:
        follow(ctx, following, place, resigned(ctx, past, place, early), early.claim.model)
    what = "signed two states for round 2"
    assert judge(parse_evidence(back.value.evidence), ctx.plan) == (SERVER, what)


@pytest.mark.parametrize("keep", [0, -1, "twice", "another's"])
def test_too_few_attests_confirm_nothing(keep: int | str) -> None:
    announced = seen_by_a_verifier(verified(), ChainedAnnounce)
    ctx, past, event = next(one for one in announced if one[2].place.round == 1)
    said = event.message
    frames = {
        0: (),
        -1: said.attests[:-1],
        "twice": (*said.attests[:-1], said.attests[0]),
        "another's": (*said.attests[:-1], said.hellos[0]),
    }[keep]
    altered = structs.replace(said, attests=frames)
    with pytest.raises(PeerError, match="signature"):
        follow(ctx, past, event.place, altered, said.claim.model)
    with pytest.raises(PeerError, match=r"confirmation|authentic") as caught:
        follow(ctx, past, event.place, resigned(ctx, past, event.place, altered), said.claim.model)
    assert judge(parse_evidence(caught.value.evidence), ctx.plan) == (SERVER, caught.value.reason)
