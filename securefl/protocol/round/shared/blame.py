"""Judgement of evidence from roster and scenario alone, after the run (ADR 0044, Evidence).

A value that is neither signed nor the preimage of a signed digest proves nothing. The server signs a claim
together with its proof's contents, so any failure of these is its fault, whichever process holds them.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from securefl.base import crypto
from securefl.base.errors import PeerError, SecureflError, UsageError
from securefl.base.ids import SERVER, PartyId
from securefl.methods import clustering
from securefl.protocol import kernel, messages, secure_sum, wire
from securefl.protocol.round.shared import chain, charges, leakage, repeating, signed_claim, statement
from securefl.protocol.round.shared.draw import Draw, draw_round
from securefl.protocol.round.shared.metric_atoms import agreed_statement
from securefl.protocol.round.shared.plan import RunPlan


class NoFaultError(SecureflError):
    """Evidence that proves no fault; the message states why."""


class FaultFound(NamedTuple):
    """Culprit and fault."""

    culprit: str
    what: str


def judge(charge: charges.Charge, plan: RunPlan, first: chain.ChainLink | None = None) -> FaultFound:
    """Return the process that a charge convicts, with its fault.

    ``first``, the first link of the chain, is needed only if another first model is announced.

    Raises:
        NoFaultError: the charge is unsigned, is of another run or scenario, or shows no fault.
    """
    try:
        match charge:
            case charges.FalseClaim():
                return _judge_claim(charge, plan, first)
            case charges.Equivocation():
                return _judge_equivocation(charge, plan)
            case _:
                return _judge_shares(charge, plan)
    except PeerError as error:
        raise NoFaultError(f"proves nothing: {error.reason}") from error
    except UsageError as error:
        # Unsigned values need not be consistent.
        raise NoFaultError(f"proves nothing: {error}") from error


def fixed_round(
    plan: RunPlan,
    round_: int,
    drawn: Draw,
    model: bytes,
    hellos: Mapping[PartyId, messages.Hello],
    survivors: frozenset[PartyId],
    commitments: Sequence[bytes],
) -> chain.CertifiedRound | None:
    """Return the round that a freeze fixes; None without one commitment per opened sum."""
    limits = {name: hello.limits for name, hello in hellos.items()}
    question = leakage.LedgerQuestion(
        round_, drawn.assignment, survivors, limits, clustering.sums_apart(plan.scenario)
    )
    keys = leakage.opened_keys(drawn.assignment, survivors, question.answer().admitted)
    if len(keys) != len(commitments):
        return None
    announced = statement.announced_digest(hellos)
    stated = statement.round_statement(
        plan.run, round_, model, plan.config_digest(), announced, drawn.assignment, survivors
    )
    bound = statement.bound_statement(stated, commitments)
    return chain.CertifiedRound(round_, bound, drawn, survivors, dict(zip(keys, commitments, strict=True)))


def certified_round(
    plan: RunPlan, signed: charges.SignedClaim, record: charges.RoundPreimage
) -> chain.CertifiedRound:
    """Return the round of a claim's statement; raise NoFaultError if the record is not its preimage."""
    round_, hellos = signed.claim.round, {PartyId(name): hello for name, hello in record.hellos}
    nonces = {PartyId(name): nonce for name, nonce in record.nonces}
    survivors = frozenset(PartyId(name) for name in record.survivors)
    if nonces.keys() != hellos.keys() or any(
        clustering.commitment(nonce, plan.run, round_, record.draw, name) != hellos[name].commitment
        for name, nonce in nonces.items()
    ):
        raise NoFaultError("its nonces are not those that the hellos commit to")
    seeds = {hello.atom_seed for hello in hellos.values() if clustering.is_founded(hello.atom_seed)}
    if len(seeds) > 1 or not hellos.keys() <= set(plan.roster.parties):
        raise NoFaultError("its hellos are not those of one round")
    try:
        for seed in seeds:
            clustering.kept_in(seed, plan.roster.parties)
    except ValueError as error:
        raise NoFaultError(f"its hellos state atoms with {error}") from error
    samples = {name: hello.samples for name, hello in hellos.items()}
    groups = {name: hello.group for name, hello in hellos.items()}
    stated = agreed_statement(plan, {name: hello.atom_seed for name, hello in hellos.items()})
    atom_seed = next(iter(seeds), stated)
    drawn = draw_round(plan, round_, record.draw, record.model, nonces, samples, atom_seed, groups)
    fixed = fixed_round(plan, round_, drawn, record.model, hellos, survivors, record.commitments)
    if fixed is None or fixed.statement != signed.claim.statement:
        raise NoFaultError("its record is not of the claimed round, or of another scenario")
    return fixed


def _judge_claim(charge: charges.FalseClaim, plan: RunPlan, first: chain.ChainLink | None) -> FaultFound:
    signed, claim, contents = charge.signed, charge.signed.claim, charge.contents
    for one in (signed, *charge.earlier):
        signed_claim.check_signed(one, plan.roster, plan.run)
    if isinstance(contents, charges.Announced) and (what := _model_fault(signed, contents, plan, first)):
        return FaultFound(SERVER, what)
    for one in charge.earlier:
        if what := _claim_conflict(one, signed, plan):
            return FaultFound(SERVER, what)
    if _is_of_another_round(charge, plan):
        what = f"claims a result of another round than the certified {claim.round}"
        return FaultFound(SERVER, what)
    if charge.record is None:
        raise NoFaultError("it takes the round that is claimed to judge it")
    certified = certified_round(plan, signed, charge.record)
    try:
        repeating.check_all_sums(certified, claim)
    except PeerError as error:
        return FaultFound(SERVER, error.reason)
    repeat = _repeat_of(signed, contents, charge.record, plan, certified)
    # From here on everything is signed by the server, or follows from it.
    try:
        repeat()
    except repeating.RoundingError as error:
        raise NoFaultError(f"the server {error.reason}") from error
    except PeerError as error:
        return FaultFound(SERVER, error.reason)
    raise NoFaultError("all that it holds is as it should be")


def _repeat_of(
    signed: charges.SignedClaim,
    contents: charges.Contents,
    record: charges.RoundPreimage,
    plan: RunPlan,
    certified: chain.CertifiedRound,
) -> Callable[[], None]:
    match contents:
        case charges.Announced():
            link = chain.link_of(plan.run, signed.claim)
            return lambda: chain.check_attests(plan, certified, link, contents.attests)
        case charges.ShownOpening():
            return _opening(signed, contents, record, plan, certified)
        case _:
            return _step(signed, contents, record, plan, certified)


def _is_announcement(signed: charges.SignedClaim) -> bool:
    """Return True if signed in an announcement, not in a proof."""
    return signed.claim.round < signed.place[0]


def _claim_conflict(one: charges.SignedClaim, signed: charges.SignedClaim, plan: RunPlan) -> str:
    for first, other in ((one, signed), (signed, one)):
        root, round_ = chain.link_of(plan.run, first.claim).root, first.place[0]
        differ = root != chain.link_of(plan.run, other.claim).root
        if first.claim.round == other.claim.round and differ:
            return f"signed two results of round {first.claim.round}"
        if not _is_announcement(first):
            continue
        if _is_announcement(other) and round_ == other.place[0] and differ:
            return f"signed two states for round {round_}"
        if _is_announcement(other) and round_ < other.place[0] and first.claim.round > other.claim.round:
            return f"starts round {other.place[0]} from an earlier state than round {round_}"
        if round_ == other.claim.round and other.claim.previous != root:
            return f"claims that round {round_} began from another state than it announced"
    return ""


def _is_of_another_round(charge: charges.FalseClaim, plan: RunPlan) -> bool:
    claim, quorum = charge.signed.claim, plan.limits.quorum
    signers, statements = set[PartyId](), set[bytes]()
    for frame in charge.endorsements:
        delivery = wire.open_relayed(frame, plan.roster, plan.run, SERVER, SERVER)
        if isinstance(delivery.message, messages.Endorse) and delivery.place == kernel.Place(claim.round):
            signers.add(delivery.sender)
            statements.add(delivery.message.statement)
    if quorum is None or len(signers & set(plan.roster.parties)) < quorum or len(statements) != 1:
        return False
    return claim.statement not in statements


def _model_fault(
    signed: charges.SignedClaim, shown: charges.Announced, plan: RunPlan, first: chain.ChainLink | None
) -> str:
    if not _is_announcement(signed) or signed.contents != signed_claim.announced_contents(
        shown.model, shown.attests
    ):
        raise NoFaultError("it is not what the server signed of an announcement")
    if signed.claim.model != shown.model:
        return f"starts round {signed.place[0]} with a model outside the verified chain"
    if signed.claim.round >= 0:
        return ""
    if first is None:
        raise NoFaultError("it takes the first model to judge it")
    if chain.link_of(plan.run, signed.claim).root != first.root:
        return "starts with another first model than the seed gives"
    raise NoFaultError("the model is of the chain")


def _opening(
    signed: charges.SignedClaim,
    shown: charges.ShownOpening,
    record: charges.RoundPreimage,
    plan: RunPlan,
    certified: chain.CertifiedRound,
) -> Callable[[], None]:
    place, members = kernel.Place(*signed.place), tuple(PartyId(name) for name in shown.members)
    key, assignment = (place.reclustering, place.cluster), certified.drawn.assignment
    if place != kernel.Place(certified.round, *key) or key not in certified.commitments:
        raise NoFaultError("it is about no sum of the claimed round")
    fit = set(members) <= set(assignment.clusters[key[0]][key[1]])
    fewest = plan.scenario.secure_sum.min_survivors
    if not fit or list(members) != sorted(set(members)) or len(members) < fewest:
        raise NoFaultError("its members are no attempt of that cluster")
    if not 0 <= shown.attempt < plan.scenario.secure_sum.max_attempts:
        raise NoFaultError("there is no such attempt")
    announced = statement.announced_digest({PartyId(name): hello for name, hello in record.hellos})
    binding = statement.mask_binding(assignment, announced, record.model, plan.config_digest())
    setup = plan.setup(kernel.Place(certified.round, *key, shown.attempt), members, binding)
    numbers = frozenset(shown.sharers)
    if not numbers | set(shown.added) <= set(range(len(members))) or sorted(shown.added) != [*shown.added]:
        raise NoFaultError("it names members that there are not")
    alive = tuple(i for i in sorted(numbers) if members[i] in certified.survivors)
    known = secure_sum.Repeatable(setup, b"", numbers, alive, shown.added)
    vectors = secure_sum.proven_vectors(known, shown.vectors)
    frames = shown.adverts, shown.receipts
    if secure_sum.opening_contents(setup, numbers, shown.opened, frames, vectors.digests) != signed.contents:
        raise NoFaultError("it is not what the server proved")
    message = messages.OpeningProof(
        claim=signed.claim,
        adverts=shown.adverts,
        receipts=shown.receipts,
        signature=signed.signature,
        sealed=b"",
        vectors=shown.vectors,
    )

    def repeat() -> None:
        _, key_list = secure_sum.read_key_list(setup, shown.adverts, plan.roster)
        lists = plan.sums.lists_digest(setup, key_list, numbers, alive)
        sure = secure_sum.Repeatable(setup, lists, numbers, alive, shown.added)
        repeating.repeat_sum(plan, certified, sure, message, shown.opened, vectors)

    return repeat


def _step(
    signed: charges.SignedClaim,
    shown: charges.ShownStep,
    record: charges.RoundPreimage,
    plan: RunPlan,
    certified: chain.CertifiedRound,
) -> Callable[[], None]:
    claim = signed.claim
    if (
        kernel.Place(*signed.place) != kernel.Place(claim.round)
        or signed_claim.step_contents(shown.step) != signed.contents
    ):
        raise NoFaultError("it is not what the server proved")
    if chain.link_of(plan.run, shown.previous).root != claim.previous:
        raise NoFaultError("the link before is not the one that the claim names")
    size = 4 * plan.total_parameters
    if len(shown.params) != size + 8 * len(plan.first_values):
        raise NoFaultError("its model is of another length")
    params = np.frombuffer(shown.params[:size], dtype="<f4").astype(np.float32)
    if statement.start_digest(shown.params) != record.model:
        raise NoFaultError("its model is not the round's")
    state = shown.previous.state
    return lambda: repeating.repeat_step(plan, certified, claim, state, params, shown.step)


def _judge_equivocation(charge: charges.Equivocation, plan: RunPlan) -> FaultFound:
    one, other = (
        wire.open_relayed(frame, plan.roster, plan.run, SERVER, SERVER)
        for frame in (charge.first, charge.second)
    )
    if one.sender != other.sender or one.sender not in plan.roster.parties:
        raise NoFaultError("its frames are not of one party")
    if what := charges.contradiction(one.place, one.message, other.place, other.message):
        return FaultFound(one.sender, what)
    raise NoFaultError("an honest party may have signed both frames")


def _judge_shares(charge: secure_sum.DealtSecrets, plan: RunPlan) -> FaultFound:
    delivery = wire.open_relayed(charge.advert, plan.roster, plan.run, SERVER, SERVER)
    members, advert = tuple(PartyId(name) for name in charge.members), delivery.message
    fewest = plan.scenario.secure_sum.min_survivors
    whole = list(members) == sorted(set(members)) and len(members) >= fewest
    if not isinstance(advert, messages.KeyAdvert) or not whole or delivery.sender not in members:
        raise NoFaultError("it is about no member of a sum")
    setup = plan.setup(delivery.place, members, b"")
    owner, kinds = setup.index(delivery.sender), secure_sum.share_kinds(setup.components)
    digest_of = setup.share_digester()
    if len(charge.digests) != len(members) or any(len(each) != len(kinds) for each in charge.digests):
        raise NoFaultError("it has not one digest for each share")
    if crypto.merkle_root([secure_sum.share_leaf(*each) for each in charge.digests]) != advert.shares_root:
        raise NoFaultError("its digests are not those that the advert pins")
    for kind, shares in charge.secrets:
        held = dict(shares)
        if len(held) != setup.threshold or not 0 <= kind < len(kinds):
            raise NoFaultError("it has not as many shares as open a secret")
        for holder, share in held.items():
            if not 0 <= holder < len(members):
                raise NoFaultError("it names a holder that there is not")
            if digest_of(owner, holder, kinds[kind], share) != charge.digests[holder][kind]:
                raise NoFaultError("a share is not the one that its owner has pinned")
        if what := _secret_fault(setup, owner, kind, held, advert):
            return FaultFound(delivery.sender, f"{what} in {setup.describe()}")
    raise NoFaultError("the shares make the secrets that were advertised")


def _secret_fault(
    setup: secure_sum.Setup, owner: int, kind: int, held: Mapping[int, bytes], advert: messages.KeyAdvert
) -> str:
    try:
        secret = crypto.combine({holder + 1: share for holder, share in held.items()}, setup.threshold)
    except crypto.BadShareError as error:
        return f"shared an impossible secret ({error})"
    number, stated = kind - 2, advert.noise_digests
    if kind == 0:
        same = setup.seed_digest(owner, secret) == advert.seed_digest
    elif kind == 1:
        same = crypto.KeyPair.from_private(secret).public == advert.mask_key
    else:
        # Secrets that were not advertised need not be shared.
        same = number >= len(stated) or setup.noise_digest(owner, number, secret) == stated[number]
    return (
        ""
        if same
        else f"shared another {secure_sum.share_kinds(setup.components)[kind]} secret than it advertised"
    )
