"""Verification at a party: repeat openings and steps, follow the chain (ADR 0044)."""

from collections.abc import Callable, Mapping
from dataclasses import replace

from securefl.base import crypto, sums
from securefl.base.errors import PeerError, UsageError
from securefl.base.ids import SERVER, PartyId
from securefl.protocol import kernel, messages, secure_sum
from securefl.protocol.round.party import accusing, phases
from securefl.protocol.round.shared import chain, reports, signed_claim
from securefl.protocol.round.shared.charges import Announced, Contents, SignedClaim
from securefl.protocol.round.shared.repeating import RoundingError, check_claim, repeat_step, repeat_sum
from securefl.protocol.round.shared.statement import proof_context


class UnsignedProofError(PeerError):
    """A proof without the server's signature: its contents prove nothing."""


def on_proof(
    ctx: phases.PartyContext,
    past: phases.PartyHistory,
    place: kernel.Place,
    message: messages.OpeningProof | messages.StepProof,
) -> tuple[phases.PartyHistory, tuple[reports.RunEffect, ...]]:
    """Repeat an opening or the step, and attest the result.

    Raises:
        UnsignedProofError: the server has not signed the contents, or they cannot be decrypted.
        PeerError: the result differs from the claim, or the proof is not for this party.
    """
    verifying, last = past.verifying, past.link
    if verifying is None or last is None or place.round != verifying.certified.round:
        raise PeerError(SERVER, f"sends a proof of round {place.round} to a party that cannot verify it")
    link = chain.link_of(ctx.plan.run, message.claim)
    try:
        if isinstance(message, messages.OpeningProof):
            signed, contents, repeat = _read_opening_proof(ctx, verifying, link, place, message)
        else:
            signed, contents, repeat = _read_step_proof(ctx, verifying, last, link, place, message)
    except PeerError as error:
        raise UnsignedProofError(error.culprit, error.reason) from error
    try:
        check_claim(verifying.certified, last, message.claim)
        _check_single_result(verifying, link)
        repeat()
    except RoundingError:
        raise
    except PeerError as error:
        error.evidence = accusing.false_claim_evidence(past, signed, contents())
        raise
    places = (*verifying.places, place)
    after = replace(past, verifying=replace(verifying, attested=link.root, places=places, signed=signed))
    report = kernel.Report(reports.Repeated(place.round, place.reclustering, place.cluster, link.root))
    return after, (report, kernel.Send(SERVER, place, messages.Attest(root=link.root)))


def follow(
    ctx: phases.PartyContext,
    past: phases.PartyHistory,
    place: kernel.Place,
    message: messages.Announce,
    model: bytes,
) -> tuple[phases.PartyHistory, chain.ChainLink, bool, tuple[reports.RunEffect, ...]]:
    """Check the link that an announcement gives for the round's model, as far as possible.

    Returns:
        The party's state; the link; True if known to be confirmed; entries to record before the reveal.

    Raises:
        PeerError: the link is missing, is about another model, or is not confirmed.
    """
    if not isinstance(message, messages.ChainedAnnounce):
        raise PeerError(SERVER, "starts a round without the chain of its model")
    signed = signed_claim.check_announced(message, place, model, ctx.plan.roster, ctx.plan.run)
    try:
        after, link, sure, noted = _check_link(ctx, past, message, model)
    except PeerError as error:
        announced = Announced(model=model, attests=message.attests)
        error.evidence = accusing.false_claim_evidence(past, signed, announced)
        raise
    return replace(after, announced=signed), link, sure, noted


def _check_link(
    ctx: phases.PartyContext, past: phases.PartyHistory, message: messages.ChainedAnnounce, model: bytes
) -> tuple[phases.PartyHistory, chain.ChainLink, bool, tuple[reports.RunEffect, ...]]:
    link = chain.link_of(ctx.plan.run, message.claim)
    if message.claim.model != model:
        raise PeerError(SERVER, "starts a round with a model outside the verified chain")
    verifying, last = past.verifying, past.link
    # A restarted party's journal has only root and round of its last link.
    root, reached = (ctx.root, ctx.root_round) if last is None else (last.root, last.claim.round)
    if root and link.root != root and message.claim.round <= reached:
        raise PeerError(SERVER, "starts a round with a model of another or an earlier state")
    if last is None or link.root == last.root:
        sure = last is not None or link.root == ctx.root
        return replace(past, link=link) if sure else past, link, sure, ()
    if verifying is None or message.claim.previous != last.root:
        # The party was away: more than q others must have seen the link confirmed.
        return past, link, False, ()
    check_claim(verifying.certified, last, message.claim)
    chain.check_attests(ctx.plan, verifying.certified, link, message.attests)
    followed, noted = accept_link(past, link)
    return followed, link, True, noted


def accept_link(
    past: phases.PartyHistory, link: chain.ChainLink
) -> tuple[phases.PartyHistory, tuple[reports.RunEffect, ...]]:
    """Accept a link as confirmed, durably before it is sent."""
    after = replace(past, link=link, verifying=None)
    round_ = max(link.claim.round, 0)
    return after, (
        kernel.Journal(round_, kernel.ROOT + link.root.hex()),
        kernel.Report(reports.LinkFollowed(link.claim.round, link.root)),
    )


def is_vouched_for(
    ctx: phases.PartyContext, link: chain.ChainLink, reveals: Mapping[PartyId, messages.Reveal]
) -> bool:
    """Return True if more than q others state that the link is confirmed: one is honest."""
    saying = sums.exact_sum(
        isinstance(reveal, messages.ChainedReveal) and reveal.root == link.root and party != ctx.me
        for party, reveal in reveals.items()
    )
    return saying > ctx.plan.scenario.secure_sum.colluders


def _check_single_result(verifying: phases.VerifiableRound, link: chain.ChainLink) -> None:
    if verifying.attested not in {b"", link.root}:
        raise PeerError(SERVER, f"signed two results of round {link.claim.round}")


def _open_sealed(
    ctx: phases.PartyContext, link: chain.ChainLink, place: kernel.Place, sealed: bytes
) -> bytes:
    if ctx.identity is None:
        raise UsageError("cannot decrypt a proof: this party was created without its identity; pass identity")
    try:
        return ctx.identity.open_sealed(sealed, proof_context(link.root, place, ctx.me))
    except crypto.BoxError as error:
        raise PeerError(SERVER, "sends a proof that cannot be decrypted") from error


_Proven = tuple[SignedClaim, Callable[[], Contents], Callable[[], None]]
"""Signed claim of a proof, its contents as evidence, and its check."""


def _read_opening_proof(
    ctx: phases.PartyContext,
    verifying: phases.VerifiableRound,
    link: chain.ChainLink,
    place: kernel.Place,
    message: messages.OpeningProof,
) -> _Proven:
    key, certified = (place.reclustering, place.cluster), verifying.certified
    known = verifying.instances.get(key)
    if known is None or place != kernel.Place(certified.round, *key):
        raise PeerError(SERVER, f"proves a sum of cluster {key}, which this party is not in")
    plain = _open_sealed(ctx, link, place, message.sealed)
    vectors = secure_sum.proven_vectors(known, message.vectors)
    frames = message.adverts, message.receipts
    contents = secure_sum.opening_contents(known.setup, known.sharers, plain, frames, vectors.digests)
    signed = _check_signed_claim(ctx, place, message, contents)
    return (
        signed,
        lambda: accusing.opening_evidence(known, message, plain),
        lambda: repeat_sum(ctx.plan, certified, known, message, plain, vectors),
    )


def _read_step_proof(
    ctx: phases.PartyContext,
    verifying: phases.VerifiableRound,
    last: chain.ChainLink,
    link: chain.ChainLink,
    place: kernel.Place,
    message: messages.StepProof,
) -> _Proven:
    certified, params = verifying.certified, verifying.params
    if place != kernel.Place(certified.round) or ctx.me not in chain.committee(ctx.plan, certified):
        raise PeerError(SERVER, "sends a proof to a party outside the committee")
    plain = _open_sealed(ctx, link, place, message.sealed)
    signed = _check_signed_claim(ctx, place, message, signed_claim.step_contents(plain))
    state = last.claim.state
    return (
        signed,
        lambda: accusing.step_evidence(verifying, last.claim, plain),
        lambda: repeat_step(ctx.plan, certified, link.claim, state, params, plain),
    )


def _check_signed_claim(
    ctx: phases.PartyContext,
    place: kernel.Place,
    message: messages.OpeningProof | messages.StepProof,
    contents: bytes,
) -> SignedClaim:
    signed = SignedClaim(claim=message.claim, place=place, contents=contents, signature=message.signature)
    signed_claim.check_signed(signed, ctx.plan.roster, ctx.plan.run)
    return signed
