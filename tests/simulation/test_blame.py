"""Evidence: whoever lies is convicted by what it signed, and nobody who does not (ADR 0044)."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from itertools import combinations
from typing import Any, cast
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs

from securefl.base.errors import PeerError
from securefl.base.ids import SERVER, PartyId, RunId
from securefl.protocol.kernel.effects import Send
from securefl.protocol.kernel.events import Received
from securefl.protocol.messages.masking import VectorReceipt
from securefl.protocol.messages.rounds import Endorse
from securefl.protocol.messages.verification import Attest, ChainedAnnounce, OpeningProof, StepProof
from securefl.protocol.round.party import verifying
from securefl.protocol.round.party.accusing import false_claim_evidence
from securefl.protocol.round.party.phases import PartyHistory
from securefl.protocol.round.server import opening
from securefl.protocol.round.server.accusing import bad_shares_evidence
from securefl.protocol.round.shared.blame import NoFaultError, judge
from securefl.protocol.round.shared.chain import first_link, link_of
from securefl.protocol.round.shared.charges import (
    Announced,
    Charge,
    Equivocation,
    FalseClaim,
    RoundPreimage,
    ShownOpening,
    ShownStep,
    SignedClaim,
    encode_evidence,
    parse_evidence,
)
from securefl.protocol.round.shared.plan import RunPlan
from securefl.protocol.round.shared.reports import ClustersDrawn
from securefl.protocol.round.shared.signed_claim import check_announced
from securefl.protocol.secure_sum.masking import client
from securefl.protocol.secure_sum.port import DealtSecrets
from securefl.protocol.wire.envelope import peek
from securefl.scenario.scenario import Scenario
from tests.simulation import world as world_module
from tests.simulation.lying import (
    Evidence,
    Followed,
    distinct,
    followed,
    kept_evidence,
    other_claim,
    other_outcome,
    verified,
)
from tests.simulation.test_verified_rounds import CORRUPT, LIES, MODES, P, next_float
from tests.simulation.world import RUN, Node, Op, World
from tests.tiers import covering, examples, sampled

FAULTS = {
    "another model": "claims another model than the sums of round 0 give",
    "one parameter": "claims another model than the sums of round 0 give",
    "another first model": "claims that round 0 began from another state than it announced",
    "another certificate": "claims a result of another round than the certified 0",
    "a sum that is said to be lost": "claims a model that uses only some of the certified sums",
}
"""Conviction for a lie; a proof of a sum that fails for all others."""
TOLD = [lie for lie in LIES if lie not in {"all sums but one", "another state"}]
"""Lies that convict. Who opens too few sums claims nothing; another state may be another rounding of moments.
In both cases the round is void."""


def anybody(plan: RunPlan) -> RunPlan:
    """What somebody who was not there knows: the run's name, scenario, roster and the model's length."""
    return RunPlan(RunId(str(plan.run)), plan.scenario, plan.limits, plan.roster, plan.length)


def found(run: Followed, honest: Collection[PartyId] = P) -> list[Evidence]:
    return kept_evidence(run.world, *honest, SERVER)


@pytest.mark.parametrize(("lie", "corrupt"), covering(TOLD, CORRUPT))
def test_each_lie_convicts_the_server(lie: str, corrupt: tuple[str, ...]) -> None:
    honest = [name for name in P if name not in corrupt]
    with LIES[lie]():
        run = followed(verified(rounds="1"), corrupt=[PartyId(name) for name in corrupt])
    seen = found(run, honest)
    assert seen
    for one in seen:
        kept = parse_evidence(encode_evidence(one.charge))
        assert isinstance(kept, FalseClaim)
        culprit, what = judge(kept, anybody(run.world.plan))
        assert culprit == one.culprit == SERVER
        if lie in FAULTS:
            assert what == FAULTS[lie]
        else:
            assert isinstance(kept.contents, ShownOpening)
            assert what == one.reason


@pytest.mark.parametrize(
    ("lie", "mode"),
    covering(
        ["one step more in one coordinate", "other seeds", "another model"],
        ["CrypTen", "validated", "two reclusterings", "momentum", "atoms"],
    ),
)
def test_in_other_modes_as_well(mode: str, lie: str) -> None:
    with LIES[lie]():
        run = followed(verified(**{**MODES[mode], "rounds": "1"}))
    seen = found(run)
    assert seen
    for one in seen:
        assert judge(one.charge, anybody(run.world.plan)).culprit == SERVER


def test_a_claim_about_fewer_sums() -> None:
    with other_claim(lambda claim: structs.replace(claim, sums=claim.sums[1:])):
        run = followed(verified(rounds="1"))
    whats = {judge(one.charge, anybody(run.world.plan)).what for one in found(run)}
    assert whats == {"claims 2 sums, 3 were certified"}


def test_another_first_model_takes_the_first_model_to_judge() -> None:
    class Elsewhere(World):
        def first_link(self, initial: Any) -> Any:
            return super().first_link(np.zeros_like(initial))

    world = Elsewhere(verified(rounds="1"), length=16, initial=np.ones(16, dtype=np.float32)).run()
    (one, *_) = kept_evidence(world, P[0])
    plan = anybody(world.plan)
    with pytest.raises(NoFaultError, match="takes the first model"):
        judge(one.charge, plan)
    assert judge(one.charge, plan, first_link(plan, np.zeros(16, dtype=np.float32))).culprit == SERVER
    with pytest.raises(NoFaultError, match="of the chain"):
        judge(one.charge, plan, first_link(plan, np.ones(16, dtype=np.float32)))


Kept = tuple[Any, PartyHistory, Received[Any]]


def honest_run(made: Scenario, run: str = RUN, ops: Collection[Op] = ()) -> tuple[World, list[Kept]]:
    """A run without a lie, and all proofs and announcements that parties took."""
    seen: list[Kept] = []

    def look(node: Node, before: Any, event: object, _after: object, _effects: object) -> None:
        kinds = OpeningProof | StepProof | ChainedAnnounce
        if isinstance(event, Received) and isinstance(event.message, kinds) and node.name in P:
            seen.append((cast("Any", node.machine)._ctx, before.past, event))

    with patch.object(world_module, "RUN", RunId(run)):
        world = World(made, length=16, train=distinct, ops=ops)
        world.observers.append(look)
        world.run()
    assert not kept_evidence(world, *P, SERVER)
    return world, seen


def suspicion(seen: Kept, **changes: Any) -> FalseClaim:
    """The evidence that a party would keep of a message if it refused it; ``changes`` are of its past."""
    ctx, past, event = seen
    past = replace(past, **changes)
    message, place, known = event.message, event.place, past.verifying
    if isinstance(message, ChainedAnnounce):
        model = message.claim.model
        signed = check_announced(message, place, model, ctx.plan.roster, ctx.plan.run)
        charge = parse_evidence(
            false_claim_evidence(past, signed, Announced(model=model, attests=message.attests))
        )
    else:
        link = link_of(ctx.plan.run, message.claim)
        assert known is not None
        assert past.link is not None
        if isinstance(message, OpeningProof):
            signed, contents, _ = verifying._read_opening_proof(ctx, known, link, place, message)
        else:
            signed, contents, _ = verifying._read_step_proof(ctx, known, past.link, link, place, message)
        charge = parse_evidence(false_claim_evidence(past, signed, contents()))
    assert isinstance(charge, FalseClaim)
    return charge


def parts(charge: FalseClaim) -> list[FalseClaim]:
    """The same evidence, also as it would be with none of the values that another check begins with."""
    bare = structs.replace(charge, earlier=(), endorsements=())
    return [charge, bare, structs.replace(bare, record=None)]


@cache
def honest_charges() -> tuple[RunPlan, tuple[Charge, ...], tuple[bytes, ...]]:
    """The plan of a run, what can be charged with material of it and of another one, and all its frames."""
    made = verified(rounds="3", server_optimiser__momentum="0.5")
    world, seen = honest_run(made)
    _, others = honest_run(made, "another")
    charges: list[Charge] = [one for kept in (*seen, *others) for one in parts(suspicion(kept))]
    words = [f for f in world.frames if peek(f, "x").header.kind in {"Attest", "Endorse", "VectorReceipt"}]
    charges += [Equivocation(first=one, second=words[0]) for one in words]
    return anybody(world.plan), tuple(charges), tuple(world.frames)


@pytest.mark.parametrize("mode", sampled(MODES, [mode for mode in [*MODES][::2] if mode != "validated"]))
def test_honest_material_convicts_nobody(mode: str) -> None:
    world, seen = honest_run(verified(**{**MODES[mode], "rounds": "2"}))
    plan, kinds = anybody(world.plan), set[type]()
    for charge in (charge for one in seen for charge in parts(suspicion(one))):
        kinds.add(type(charge.contents))
        with pytest.raises(NoFaultError):
            judge(charge, plan, first_link(plan, world.models[0]))
    assert kinds == {Announced, ShownOpening, ShownStep}


def test_another_rounding_convicts_nobody() -> None:
    with other_outcome(params=next_float):
        world, seen = honest_run(verified(rounds="1"))
    steps = [suspicion(one) for one in seen if isinstance(one[2].message, StepProof)]
    assert steps
    for charge in steps:
        with pytest.raises(NoFaultError, match="last bits"):
            judge(charge, anybody(world.plan))


def openings(seen: list[Kept]) -> list[FalseClaim]:
    return [suspicion(one) for one in seen if isinstance(one[2].message, OpeningProof)]


def test_a_retry_convicts_nobody() -> None:
    ops = [Op("spoil", "p03", "ShareBoxes")]
    made = verified(size="6", threshold="4", min_survivors="4", rounds="1")
    world, seen = honest_run(made, ops=ops)
    charges = openings(seen)
    attempts = {one.contents.attempt for one in charges if isinstance(one.contents, ShownOpening)}
    assert max(attempts) == 1, "otherwise this tests nothing"
    for charge in charges:
        with pytest.raises(NoFaultError, match="as it should be"):
            judge(charge, anybody(world.plan))


def test_no_two_signatures_of_a_run_convict_anybody() -> None:
    plan, charges, frames = honest_charges()
    shown = {
        encode_evidence(structs.replace(charge, earlier=())): charge
        for charge in charges
        if isinstance(charge, FalseClaim)
    }
    claims = {one.signed.signature: one for one in shown.values() if one.record is not None}
    for one, other in combinations(claims.values(), 2):
        for charge, earlier in ((one, other), (other, one)):
            with pytest.raises(NoFaultError):
                judge(structs.replace(charge, earlier=(earlier.signed,)), plan)
    kinds: dict[tuple[str, str], list[bytes]] = {}
    for frame in frames:
        header = peek(frame, "x").header
        if header.sender in P and header.kind in {"Attest", "Endorse", "VectorReceipt"}:
            kinds.setdefault((header.sender, header.kind), []).append(frame)
    assert len(kinds) == 3 * len(P)
    for said in kinds.values():
        for first, second in combinations(said, 2):
            with pytest.raises(NoFaultError):
                judge(Equivocation(first=first, second=second), plan)


NESTED = (SignedClaim, RoundPreimage, Announced, ShownOpening, ShownStep)


@cache
def pool() -> dict[str, list[Any]]:
    """Values of honest material by the name of their field, of all charges and what they consist of."""
    values: dict[str, list[Any]] = {}

    def add(one: Any) -> None:
        for name in one.__struct_fields__:
            value = getattr(one, name)
            values.setdefault(name, []).append(value)
            for part in value if name == "earlier" else (value,):
                if isinstance(part, NESTED):
                    add(part)

    for charge in honest_charges()[1]:
        add(charge)
    values["first"] = values["second"] = [*values["first"], *values["second"]]
    values["earlier"] += [(one,) for one in values["signed"]]
    return values


def mixed(draw: st.DrawFn, one: Any) -> Any:
    """A charge, or what it consists of, with one field from elsewhere, cut or altered."""
    name = draw(st.sampled_from(one.__struct_fields__))
    value = getattr(one, name)
    how = draw(st.sampled_from(["elsewhere", "within", "cut", "alter"]))
    if how == "within" and isinstance(value, NESTED):
        return structs.replace(one, **{name: mixed(draw, value)})
    if how == "cut" and isinstance(value, tuple | bytes) and len(value) > 4:
        at = draw(st.integers(0, len(value) - 1))
        cut = value[:at] + value[at + 1 :] if isinstance(value, tuple) else value[:at]
        return structs.replace(one, **{name: cut})
    if how == "alter" and isinstance(value, bytes) and value:
        at = draw(st.integers(0, len(value) - 1))
        return structs.replace(one, **{name: value[:at] + bytes([value[at] ^ 1]) + value[at + 1 :]})
    if how == "alter" and isinstance(value, int):
        return structs.replace(one, **{name: value + draw(st.sampled_from([-1, 1, 2**31]))})
    fitting = [other for other in pool()[name] if type(other) is type(value)]
    return structs.replace(one, **{name: draw(st.sampled_from(fitting))})


@st.composite
def framed(draw: st.DrawFn) -> Charge:
    charge = draw(st.sampled_from(honest_charges()[1]))
    for _ in range(draw(st.integers(1, 4))):
        charge = mixed(draw, charge)
    return charge


@settings(max_examples=examples(400), deadline=None)
@given(framed())
def test_nobody_honest_is_convicted_by_what_honest_machines_signed(charge: Charge) -> None:
    plan = honest_charges()[0]
    with pytest.raises(NoFaultError):
        judge(charge, plan)


@cache
def guilty(lie: str) -> tuple[RunPlan, FalseClaim]:
    with LIES[lie]():
        run = followed(verified(rounds="1"))
    charge = found(run)[0].charge
    assert isinstance(charge, FalseClaim)
    return anybody(run.world.plan), charge


def altered(value: Any) -> Any:  # noqa: PLR0911 - one return for each type
    match value:
        case bytes():
            return value[:-1] + bytes([value[-1] ^ 1])
        case int():
            return value + 1
        case SignedClaim():
            return structs.replace(value, signature=altered(value.signature))
        case RoundPreimage():
            return structs.replace(value, commitments=altered(value.commitments))
        case tuple():
            return (*value[:-1], altered(value[-1])) if value else (bytes(64),)
        case str():
            return "p11" if value != "p11" else "p10"
        case _:
            return structs.replace(value, model=altered(value.model))


OPENING = (
    "contents.attempt",
    "contents.members",
    "contents.sharers",
    "contents.added",
    "contents.adverts",
    "contents.receipts",
    "contents.opened",
    "contents.vectors",
    "record",
    "signed",
    "earlier",
)
STEP = ("contents.previous", "contents.params", "contents.step", "record", "signed", "earlier")
NEEDED = {
    "another model": STEP,
    "one parameter": STEP,
    "another first model": ("signed", "earlier"),
    "another certificate": ("signed", "earlier", "endorsements"),
    "a sum that is said to be lost": ("signed", "earlier", "record"),
    "other seeds": OPENING,
    "-S": OPENING,
}
"""Values that the conviction for a lie takes."""


@pytest.mark.parametrize(("lie", "name"), [(lie, name) for lie, names in NEEDED.items() for name in names])
def test_nothing_that_convicts_can_be_altered(lie: str, name: str) -> None:
    plan, charge = guilty(lie)
    assert judge(charge, plan).culprit == SERVER
    outer, _, inner = name.partition(".")
    value = getattr(charge, outer)
    other = structs.replace(value, **{inner: altered(getattr(value, inner))}) if inner else altered(value)
    with pytest.raises(NoFaultError):
        judge(structs.replace(charge, **{outer: other}), plan)


@pytest.mark.parametrize("lie", NEEDED)
def test_another_value_convicts_of_nothing_else(lie: str) -> None:
    """Whatever is altered of evidence, the server is convicted of its lie, or of nothing."""
    plan, charge = guilty(lie)
    what = judge(charge, plan).what
    names = [(name, "") for name in FalseClaim.__struct_fields__ if name != "contents"]
    for outer, inner in [*names, *(("contents", name) for name in charge.contents.__struct_fields__)]:
        value = getattr(charge, outer)
        other = structs.replace(value, **{inner: altered(getattr(value, inner))}) if inner else altered(value)
        try:
            assert judge(structs.replace(charge, **{outer: other}), plan) == (SERVER, what)
        except NoFaultError:
            continue


@pytest.mark.parametrize("name", RoundPreimage.__struct_fields__)
def test_nothing_of_a_rounds_record_can_be_altered(name: str) -> None:
    for lie in ("-S", "another model"):
        plan, charge = guilty(lie)
        assert charge.record is not None
        value = getattr(charge.record, name)
        other = value[:-1] if isinstance(value, tuple) else altered(value)
        with pytest.raises(NoFaultError):
            judge(structs.replace(charge, record=structs.replace(charge.record, **{name: other})), plan)


def test_another_scenario_or_run_convicts_nobody() -> None:
    for lie in ("-S", "another model"):
        plan, charge = guilty(lie)
        for other in (
            RunPlan(RunId("another"), plan.scenario, plan.limits, plan.roster, plan.length),
            RunPlan(plan.run, verified(rounds="2"), plan.limits, plan.roster, plan.length),
        ):
            with pytest.raises(NoFaultError):
                judge(charge, other)


@contextmanager
def another_secret(dealer: PartyId, kind: int) -> Iterator[None]:
    """A member shares another secret than it advertises, so that nobody notices before it is opened."""
    honest = client.deal

    def deal(setup: Any, owner: int, secrets: Any, entropy: Any) -> Any:
        if setup.members[owner] == dealer:
            secrets = tuple(bytes(32) if n == kind else one for n, one in enumerate(secrets))
        return honest(setup, owner, secrets, entropy)

    with patch.object(client, "deal", deal):
        yield


@pytest.mark.parametrize("kind", [0, 1])
def test_who_shares_another_secret_is_convicted_by_its_shares(kind: int) -> None:
    ops = [Op("crash", "p03", "MaskedInput")] if kind else []
    with another_secret(P[3], kind):
        run = followed(verified(rounds="1"), ops=ops)
    (one,) = found(run)
    assert isinstance(one.charge, DealtSecrets)
    plan = anybody(run.world.plan)
    culprit, what = judge(one.charge, plan)
    assert culprit == one.culprit == "p03"
    assert f"shared another {('seed', 'key')[kind]} secret" in what
    for name in DealtSecrets.__struct_fields__:
        other = structs.replace(one.charge, **{name: altered_deal(name, getattr(one.charge, name))})
        with pytest.raises(NoFaultError):
            judge(other, plan)


def altered_deal(name: str, value: Any) -> Any:
    match name:
        case "digests":
            return (*value[:-1], (*value[-1][:-1], bytes(32)))
        case "secrets":
            ((kind, shares), *rest) = value
            return ((kind, (*shares[:-1], (shares[-1][0], bytes(33)))), *rest)
        case "members":
            return tuple(P[: len(value)])
        case _:
            return altered(value)


def test_an_honest_deal_convicts_nobody() -> None:
    kept: list[DealtSecrets] = []
    honest = opening.unmask_all

    def unmask(ctx: Any, phase: Any) -> Any:
        for key, instance in phase.frozen.instances.items():
            survivors, shares = phase.frozen.survivors, phase.shares[key]
            for name in instance.setup.members:
                raw = bad_shares_evidence(ctx.plan, instance, survivors, shares, PeerError(name, "nothing"))
                kept.append(cast("DealtSecrets", parse_evidence(raw)))
        return honest(ctx, phase)

    with patch.object(opening, "unmask_all", unmask):
        run = followed(verified(rounds="1"), ops=[Op("crash", "p03", "MaskedInput")])
    plan = anybody(run.world.plan)
    assert {kind for one in kept for kind, _ in one.secrets} == {0, 1}
    for one in kept:
        for other in kept:
            mixed_up = structs.replace(one, secrets=other.secrets)
            swapped = structs.replace(one, members=other.members)
            for charge in (one, mixed_up, swapped, structs.replace(one, advert=other.advert)):
                with pytest.raises(NoFaultError):
                    judge(charge, plan)
        ((kind, shares),) = one.secrets
        numbers = [holder for holder, _ in shares]
        moved = tuple((numbers[n - 1], share) for n, (_, share) in enumerate(shares))
        with pytest.raises(NoFaultError, match="not the one"):
            judge(structs.replace(one, secrets=((kind, moved),)), plan)
        with pytest.raises(NoFaultError, match="as many shares"):
            judge(structs.replace(one, secrets=((kind, shares[1:]),)), plan)


def says_twice(kind: type[Any], **changes: Any) -> Any:
    """A party's seam: whatever of a kind it says, it says again with something else in it."""

    def seam(_event: object, effects: tuple[Any, ...]) -> tuple[Any, ...]:
        again = [
            replace(one, message=structs.replace(one.message, **changes))
            for one in effects
            if isinstance(one, Send) and isinstance(one.message, kind)
        ]
        return (*effects, *again)

    return seam


@pytest.mark.parametrize(
    ("kind", "changes", "what"),
    [
        (Attest, {"root": bytes(32)}, "attests two outcomes of round 0"),
        (Endorse, {"statement": bytes(32)}, "endorses two statements of round 0"),
        (VectorReceipt, {"input_digest": bytes(32)}, "signs two receipts in round 0"),
    ],
)
def test_who_signs_twice_is_convicted_by_it(kind: type[Any], changes: dict[str, bytes], what: str) -> None:
    world = World(verified(rounds="1"), length=16, train=distinct)
    for name in P[2:4]:
        world.nodes[name].seam = says_twice(kind, **changes)
    world.run()
    seen = kept_evidence(world)
    assert {one.culprit for one in seen} <= {"p02", "p03"}
    assert seen
    for one in seen:
        culprit, fault = judge(parse_evidence(encode_evidence(one.charge)), anybody(world.plan))
        assert culprit == one.culprit
        assert fault.startswith(what)
        assert isinstance(one.charge, Equivocation)
        with pytest.raises(NoFaultError):
            judge(structs.replace(one.charge, second=one.charge.first), anybody(world.plan))


def test_a_member_that_was_not_signed_for_convicts_nobody() -> None:
    """In a retry members are fewer than the cluster: who was left out is in no list."""
    made = verified(size="6", threshold="4", min_survivors="4", rounds="1")
    world, seen = honest_run(made, ops=[Op("spoil", "p03", "ShareBoxes")])
    plan = anybody(world.plan)
    for again in openings(seen):
        contents = again.contents
        if not isinstance(contents, ShownOpening) or not contents.attempt:
            continue
        drawn = world.reports(ClustersDrawn)[0].clusters[0]
        whole = next(c for c in drawn if set(contents.members) < set(c))
        with pytest.raises(NoFaultError, match="not what the server proved"):
            judge(structs.replace(again, contents=structs.replace(contents, members=whole)), plan)
        return
    pytest.fail("no sum was retried")


def test_nonces_that_nobody_committed_to_convict_nobody() -> None:
    plan, charge = guilty("another model")
    assert charge.record is not None
    (name, _), *rest = charge.record.nonces
    other = structs.replace(charge.record, nonces=((name, bytes(32)), *rest))
    with pytest.raises(NoFaultError, match="commit to"):
        judge(structs.replace(charge, record=other), plan)


def test_endorsements_of_few_convict_nobody() -> None:
    plan, charge = guilty("another certificate")
    assert plan.limits.quorum is not None
    for few in (charge.endorsements[: plan.limits.quorum - 1], charge.endorsements[:1] * 12, ()):
        with pytest.raises(NoFaultError, match="not of the claimed round"):
            judge(structs.replace(charge, endorsements=few), plan)


def test_words_of_two_parties_or_rounds_convict_nobody() -> None:
    plan, _, frames = honest_charges()
    said = [f for f in frames if peek(f, "x").header.kind == "VectorReceipt"]
    place = peek(said[0], "x").header.place
    same = [f for f in said if peek(f, "x").header.place == place]
    assert len({peek(f, "x").header.sender for f in same}) > 1
    for other in same[1:]:
        with pytest.raises(NoFaultError, match="not of one party"):
            judge(Equivocation(first=same[0], second=other), plan)
