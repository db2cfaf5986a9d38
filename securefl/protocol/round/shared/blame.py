"""The judging of charges, by anybody with the roster and the scenario (ADR 0044, Evidence).

Nothing in a charge is believed: it is signed, it is the preimage of a digest that was signed, or it is of no
use. What the server signs of a proof covers all that is in it, so that each way in which it fails is the
server's, whoever holds it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple, assert_never

import numpy as np

from securefl.base import crypto
from securefl.base.errors import PeerError, SecureflError, UsageError
from securefl.base.ids import SERVER, PartyId
from securefl.methods import clustering
from securefl.protocol import kernel, messages, secure_sum, wire
from securefl.protocol.round.shared import chain, leakage, repeating, signed_claim, statement
from securefl.protocol.round.shared.charges import (
    BadAnnouncement,
    BadDeal,
    BadOpening,
    BadStep,
    Charge,
    OtherParts,
    OtherStatement,
    RoundPreimage,
    SignedClaim,
    TwoClaims,
    TwoWords,
)
from securefl.protocol.round.shared.draw import draw_round
from securefl.protocol.round.shared.metric_atoms import agreed_statement
from securefl.protocol.round.shared.plan import RunPlan


class ConvictsNobodyError(SecureflError):
    """A charge proves nothing against anybody: one line says why."""


class Conviction(NamedTuple):
    """Who broke the protocol, and how."""

    culprit: str
    what: str


def convicts(charge: Charge, plan: RunPlan, first: chain.ChainLink | None = None) -> Conviction:
    """Return whom a charge convicts.

    Args:
        charge: from anybody.
        plan: of the run, from its scenario, its roster and the model's length.
        first: what the chain of models begins with; needed only where another first model is announced.

    Raises:
        ConvictsNobodyError: it is not signed, of another run or scenario, or holds against nobody.
    """
    try:
        return _judged(charge, plan, first)
    except PeerError as error:
        raise ConvictsNobodyError(f"proves nothing: {error.reason}") from error
    except UsageError as error:
        # What nobody has signed need not fit together.
        raise ConvictsNobodyError(f"proves nothing: {error}") from error


class ConvictedError(PeerError):
    """A peer sent something wrong, and there is a charge that convicts somebody for it."""

    def __init__(self, error: PeerError, charge: Charge, conviction: Conviction) -> None:
        super().__init__(error.culprit, error.reason)
        self.charge = charge
        self.conviction = conviction


def with_charge(
    error: PeerError, charges: Iterable[Charge], plan: RunPlan, first: chain.ChainLink | None = None
) -> PeerError:
    """Return a refusal with the first of some charges that convicts anybody; as it is where none does."""
    for charge in charges:
        try:
            return ConvictedError(error, charge, convicts(charge, plan, first))
        except ConvictsNobodyError:
            continue
    return error


def certified_round(plan: RunPlan, signed: SignedClaim, record: RoundPreimage) -> chain.CertifiedRound:
    """Return the round that a claim's statement is about.

    Raises:
        ConvictsNobodyError: the record is not what the statement is a digest of.
    """
    round_, hellos = signed.claim.round, {PartyId(name): hello for name, hello in record.hellos}
    nonces = {PartyId(name): nonce for name, nonce in record.nonces}
    survivors = frozenset(PartyId(name) for name in record.survivors)
    if nonces.keys() != hellos.keys() or any(
        clustering.commitment(nonce, plan.run, round_, record.draw, name) != hellos[name].commitment
        for name, nonce in nonces.items()
    ):
        raise ConvictsNobodyError("its nonces are not those that the hellos commit to")
    seeds = {hello.atom_seed for hello in hellos.values() if clustering.is_founded(hello.atom_seed)}
    if len(seeds) > 1 or not hellos.keys() <= set(plan.roster.parties):
        raise ConvictsNobodyError("its hellos are not those of one round")
    try:
        for seed in seeds:
            clustering.kept_in(seed, plan.roster.parties)
    except ValueError as error:
        raise ConvictsNobodyError(f"its hellos state atoms with {error}") from error
    samples = {name: hello.samples for name, hello in hellos.items()}
    groups = {name: hello.group for name, hello in hellos.items()}
    stated = agreed_statement(plan, {name: hello.atom_seed for name, hello in hellos.items()})
    atom_seed = next(iter(seeds), stated)
    drawn = draw_round(plan, round_, record.draw, record.model, nonces, samples, atom_seed, groups)
    config, announced = plan.config_digest(), statement.announced_digest(hellos)
    stated = statement.round_statement(
        plan.run, round_, record.model, config, announced, drawn.assignment, survivors
    )
    if statement.bound_statement(stated, record.commitments) != signed.claim.statement:
        raise ConvictsNobodyError("its record is not of the claimed round, or of another scenario")
    limits = {name: hello.limits for name, hello in hellos.items()}
    question = leakage.Question(
        round_, drawn.assignment, survivors, limits, clustering.sums_apart(plan.scenario)
    )
    keys = leakage.opened_keys(drawn.assignment, survivors, question.answer().admitted)
    if len(keys) != len(record.commitments):
        raise ConvictsNobodyError("its record fixes other sums than may be opened")
    commitments = dict(zip(keys, record.commitments, strict=True))
    return chain.CertifiedRound(round_, signed.claim.statement, drawn, survivors, commitments)


def _judged(  # noqa: PLR0911 - one return for each kind
    charge: Charge, plan: RunPlan, first: chain.ChainLink | None
) -> Conviction:
    match charge:
        case TwoClaims():
            return _two_claims(charge, plan)
        case OtherStatement():
            return _other_statement(charge, plan)
        case OtherParts():
            signed_claim.check_signed(charge.signed, plan.roster, plan.run)
            certified = certified_round(plan, charge.signed, charge.record)
            return _server_if(lambda: repeating.check_parts(certified, charge.signed.claim))
        case BadAnnouncement():
            return _bad_announcement(charge, plan, first)
        case BadOpening():
            return _bad_opening(charge, plan)
        case BadStep():
            return _bad_step(charge, plan)
        case TwoWords():
            return _two_words(charge, plan)
        case BadDeal():
            return _bad_deal(charge, plan)
        case _:
            assert_never(charge)


def _server_if(check: Callable[[], None]) -> Conviction:
    """The server's conviction if a check of what it signed fails."""
    try:
        check()
    except repeating.RoundingError as error:
        raise ConvictsNobodyError(f"the server {error.reason}") from error
    except PeerError as error:
        return Conviction(SERVER, error.reason)
    raise ConvictsNobodyError("all that it holds is as it should be")


def _announces(signed: SignedClaim) -> bool:
    """Whether it was signed in an announcement: in a proof the round is the claim's."""
    return signed.claim.round < signed.place[0]


def _two_claims(charge: TwoClaims, plan: RunPlan) -> Conviction:
    for one in (charge.first, charge.second):
        signed_claim.check_signed(one, plan.roster, plan.run)
    for one, other in ((charge.first, charge.second), (charge.second, charge.first)):
        root, round_ = chain.link_of(plan.run, one.claim).root, one.place[0]
        differ = root != chain.link_of(plan.run, other.claim).root
        if one.claim.round == other.claim.round and differ:
            return Conviction(SERVER, f"claims two outcomes of round {one.claim.round}")
        if not _announces(one):
            continue
        if _announces(other) and round_ == other.place[0] and differ:
            return Conviction(SERVER, f"announces two links for round {round_}")
        if _announces(other) and round_ < other.place[0] and one.claim.round > other.claim.round:
            what = f"announces in round {other.place[0]} an earlier link than in round {round_}"
            return Conviction(SERVER, what)
        if round_ == other.claim.round and other.claim.previous != root:
            return Conviction(SERVER, f"claims that round {round_} began with another link than it announced")
    raise ConvictsNobodyError("both claims may be true")


def _other_statement(charge: OtherStatement, plan: RunPlan) -> Conviction:
    signed_claim.check_signed(charge.signed, plan.roster, plan.run)
    claim, quorum = charge.signed.claim, plan.limits.quorum
    signers, statements = set[PartyId](), set[bytes]()
    for frame in charge.endorsements:
        said = wire.open_relayed(frame, plan.roster, plan.run, SERVER, SERVER)
        if not isinstance(said.message, messages.Endorse) or said.place != kernel.Place(claim.round):
            raise ConvictsNobodyError("it holds something else than endorsements of the claimed round")
        signers.add(said.sender)
        statements.add(said.message.statement)
    if quorum is None or len(signers & set(plan.roster.parties)) < quorum or len(statements) != 1:
        raise ConvictsNobodyError("its endorsements make no certificate")
    if claim.statement in statements:
        raise ConvictsNobodyError("the claim is about what was certified")
    return Conviction(SERVER, f"claims an outcome of another round than was certified as {claim.round}")


def _bad_announcement(charge: BadAnnouncement, plan: RunPlan, first: chain.ChainLink | None) -> Conviction:
    signed, claim = charge.signed, charge.signed.claim
    if not _announces(signed) or signed.contents != signed_claim.announced_contents(
        charge.model, charge.attests
    ):
        raise ConvictsNobodyError("it is not what the server signed of an announcement")
    signed_claim.check_signed(signed, plan.roster, plan.run)
    if claim.model != charge.model:
        return Conviction(SERVER, f"announces a model for round {signed.place[0]} that is not of the chain")
    if claim.round < 0:
        if first is None:
            raise ConvictsNobodyError("it takes the first model to judge it")
        if chain.link_of(plan.run, claim).root != first.root:
            return Conviction(SERVER, "announces another first model than follows from the seed")
    if charge.record is None or claim.round < 0:
        raise ConvictsNobodyError("the model is of the chain")
    certified = certified_round(plan, signed, charge.record)

    def confirmed() -> None:
        repeating.check_parts(certified, claim)
        chain.check_attests(plan, certified, chain.link_of(plan.run, claim), charge.attests)

    return _server_if(confirmed)


def _bad_opening(charge: BadOpening, plan: RunPlan) -> Conviction:
    signed, place = charge.signed, kernel.Place(*charge.signed.place)
    certified = certified_round(plan, signed, charge.record)
    key, members = (place.reclustering, place.cluster), tuple(PartyId(name) for name in charge.members)
    setup = _setup_of(charge, plan, certified, members)
    if place != kernel.Place(certified.round, *key) or key not in certified.commitments:
        raise ConvictsNobodyError("it is about no sum of the claimed round")
    numbers = frozenset(charge.sharers)
    if not numbers | set(charge.added) <= set(range(len(members))) or sorted(charge.added) != [*charge.added]:
        raise ConvictsNobodyError("it names members that there are not")
    alive = tuple(i for i in sorted(numbers) if members[i] in certified.survivors)
    known = secure_sum.Repeatable(setup, b"", numbers, alive, charge.added)
    vectors = secure_sum.proven_vectors(known, charge.vectors)
    frames = charge.adverts, charge.receipts
    if secure_sum.opening_contents(setup, numbers, charge.opened, frames, vectors.digests) != signed.contents:
        raise ConvictsNobodyError("it is not what the server proved")
    signed_claim.check_signed(signed, plan.roster, plan.run)
    # From here on all is signed by the server or follows from what is.
    repeating.check_parts(certified, signed.claim)
    message = messages.OpeningProof(
        claim=signed.claim,
        adverts=charge.adverts,
        receipts=charge.receipts,
        signature=signed.signature,
        sealed=b"",
        vectors=charge.vectors,
    )

    def repeated() -> None:
        _, key_list = secure_sum.read_key_list(setup, charge.adverts, plan.roster)
        lists = plan.sums.lists_digest(setup, key_list, numbers, alive)
        sure = secure_sum.Repeatable(setup, lists, numbers, alive, charge.added)
        repeating.repeat_sum(plan, certified, sure, message, charge.opened, vectors)

    return _server_if(repeated)


def _setup_of(
    charge: BadOpening, plan: RunPlan, certified: chain.CertifiedRound, members: tuple[PartyId, ...]
) -> secure_sum.Setup:
    """The attempt that the server proved; its members are signed for with the proof."""
    assignment = certified.drawn.assignment
    hellos = {PartyId(name): hello for name, hello in charge.record.hellos}
    binding = statement.mask_binding(
        assignment, statement.announced_digest(hellos), charge.record.model, plan.config_digest()
    )
    _, reclustering, cluster, _ = charge.signed.place
    among = dict(certified.commitments)
    if (reclustering, cluster) not in among:
        raise ConvictsNobodyError("it is about no sum of the claimed round")
    fit = set(members) <= set(assignment.clusters[reclustering][cluster])
    fewest = plan.scenario.secure_sum.min_survivors
    if not fit or list(members) != sorted(set(members)) or len(members) < fewest:
        raise ConvictsNobodyError("its members are no attempt of that cluster")
    if not 0 <= charge.attempt < plan.scenario.secure_sum.max_attempts:
        raise ConvictsNobodyError("there is no such attempt")
    return plan.setup(kernel.Place(certified.round, reclustering, cluster, charge.attempt), members, binding)


def _bad_step(charge: BadStep, plan: RunPlan) -> Conviction:
    signed, claim = charge.signed, charge.signed.claim
    if (
        kernel.Place(*signed.place) != kernel.Place(claim.round)
        or signed_claim.step_contents(charge.step) != signed.contents
    ):
        raise ConvictsNobodyError("it is not what the server proved")
    signed_claim.check_signed(signed, plan.roster, plan.run)
    certified = certified_round(plan, signed, charge.record)
    repeating.check_parts(certified, claim)
    if chain.link_of(plan.run, charge.previous).root != claim.previous:
        raise ConvictsNobodyError("the link before is not the one that the claim names")
    size = 4 * plan.broadcast
    if len(charge.params) != size + len(statement.clip_bytes(plan.first_clip)):
        raise ConvictsNobodyError("its model is of another length")
    params = np.frombuffer(charge.params[:size], dtype="<f4").astype(np.float32)
    if statement.start_digest(charge.params) != charge.record.model:
        raise ConvictsNobodyError("its model is not the round's")
    state = charge.previous.state
    return _server_if(lambda: repeating.repeat_step(plan, certified, claim, state, params, charge.step))


def _two_words(charge: TwoWords, plan: RunPlan) -> Conviction:
    one, other = (
        wire.open_relayed(frame, plan.roster, plan.run, SERVER, SERVER)
        for frame in (charge.first, charge.second)
    )
    if one.sender != other.sender or one.sender not in plan.roster.parties:
        raise ConvictsNobodyError("its frames are not of one party")
    first, second, at = one.message, other.message, one.place
    if isinstance(first, messages.Attest) and isinstance(second, messages.Attest):
        if at.round == other.place.round and first.root != second.root:
            return Conviction(one.sender, f"attests two outcomes of round {at.round}")
    elif isinstance(first, messages.Endorse) and isinstance(second, messages.Endorse):
        if at == other.place and first != second:
            return Conviction(one.sender, f"endorses two statements of round {at.round}")
    elif (
        isinstance(first, messages.Receipt)
        and isinstance(second, messages.Receipt)
        and at == other.place
        and first != second
    ):
        where = f"round {at.round} reclustering {at.reclustering} cluster {at.cluster} attempt {at.attempt}"
        return Conviction(one.sender, f"signs two receipts in {where}")
    raise ConvictsNobodyError("an honest party may have signed both frames")


def _bad_deal(charge: BadDeal, plan: RunPlan) -> Conviction:
    said = wire.open_relayed(charge.advert, plan.roster, plan.run, SERVER, SERVER)
    members, advert = tuple(PartyId(name) for name in charge.members), said.message
    fewest = plan.scenario.secure_sum.min_survivors
    whole = list(members) == sorted(set(members)) and len(members) >= fewest
    if not isinstance(advert, messages.KeyAdvert) or not whole or said.sender not in members:
        raise ConvictsNobodyError("it is about no member of a sum")
    setup = plan.setup(said.place, members, b"")
    owner, kinds, digest_of = (
        setup.index(said.sender),
        secure_sum.share_kinds(setup.components),
        setup.share_digester(),
    )
    if len(charge.digests) != len(members) or any(len(each) != len(kinds) for each in charge.digests):
        raise ConvictsNobodyError("it has not one digest for each share")
    if crypto.merkle_root([secure_sum.share_leaf(*each) for each in charge.digests]) != advert.shares_root:
        raise ConvictsNobodyError("its digests are not those that the advert pins")
    held = dict(charge.shares)
    if len(held) != setup.threshold or not 0 <= charge.kind < len(kinds):
        raise ConvictsNobodyError("it has not as many shares as open a secret")
    for holder, share in held.items():
        if not 0 <= holder < len(members):
            raise ConvictsNobodyError("it names a holder that there is not")
        if digest_of(owner, holder, kinds[charge.kind], share) != charge.digests[holder][charge.kind]:
            raise ConvictsNobodyError("a share is not the one that its owner has pinned")
    try:
        secret = crypto.combine({holder + 1: share for holder, share in held.items()}, setup.threshold)
    except crypto.BadShareError as error:
        return Conviction(said.sender, f"shared an impossible secret ({error}) in {setup.describe()}")
    if _is_advertised(setup, owner, charge.kind, secret, advert):
        raise ConvictsNobodyError("the shares make the secret that was advertised")
    what = f"shared another {kinds[charge.kind]} secret than it advertised in {setup.describe()}"
    return Conviction(said.sender, what)


def _is_advertised(
    setup: secure_sum.Setup, owner: int, kind: int, secret: bytes, advert: messages.KeyAdvert
) -> bool:
    if kind == 0:
        return setup.seed_digest(owner, secret) == advert.seed_digest
    if kind == 1:
        return crypto.KeyPair.from_private(secret).public == advert.mask_key
    number = kind - 2
    stated = advert.noise_digests
    # What it has not advertised it need not have shared.
    return number >= len(stated) or setup.noise_digest(owner, number, secret) == stated[number]
