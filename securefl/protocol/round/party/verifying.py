"""A party's part in verifying rounds: it repeats openings and steps, and follows the chain (ADR 0044)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from securefl.base.crypto import BoxError
from securefl.base.errors import PeerError, UsageError
from securefl.base.ids import SERVER, PartyId
from securefl.methods.encoding import from_ring, from_wire
from securefl.methods.feasibility import largest_sum
from securefl.protocol.kernel import ROOT, Journal, Place, Report, Send
from securefl.protocol.messages import (
    Announce,
    Attest,
    ChainedAnnounce,
    ChainedReveal,
    Opened,
    OpeningProof,
    Reveal,
    RoundClaim,
    Step,
    StepProof,
)
from securefl.protocol.round.party.phases import PartyContext, Past, Verifying
from securefl.protocol.round.server.checking import checks_of, failed
from securefl.protocol.round.server.phases import Standing
from securefl.protocol.round.server.stacking import ClusterSum
from securefl.protocol.round.server.stepping import after_sums
from securefl.protocol.round.shared.chain import (
    LOST,
    CertifiedRound,
    ChainLink,
    check_attests,
    committee,
    link_of,
    state_digest,
    sum_digest,
)
from securefl.protocol.round.shared.reports import LinkFollowed, Repeated, RunEffect
from securefl.protocol.round.shared.statement import model_digest, proof_context
from securefl.protocol.secure_sum import repeat_opening
from securefl.protocol.wire import decode_struct


def on_proof(
    ctx: PartyContext, past: Past, place: Place, message: OpeningProof | StepProof
) -> tuple[Past, tuple[RunEffect, ...]]:
    """Repeat an opening, or the step, and attest what it comes to.

    Raises:
        PeerError: it comes to something else than is claimed, or is nothing for this party to verify.
    """
    verifying, last = past.verifying, past.link
    if verifying is None or last is None or place.round != verifying.certified.round:
        raise PeerError(
            SERVER, f"proves what it made of round {place.round} to a party that cannot verify it"
        )
    link = _claimed(ctx, verifying, last, message.claim)
    if isinstance(message, OpeningProof):
        _repeat_sum(ctx, verifying, link, place, message)
    else:
        _repeat_step(ctx, verifying, last, link, place, message)
    after = replace(past, verifying=replace(verifying, attested=link.root))
    told = Report(Repeated(place.round, place.reclustering, place.cluster, link.root))
    return after, (told, Send(SERVER, place, Attest(root=link.root)))


def follow(
    ctx: PartyContext, past: Past, message: Announce, model: bytes
) -> tuple[Past, ChainLink, bool, tuple[RunEffect, ...]]:
    """Check the link that an announcement says the round's model is of, as far as this party can.

    Returns:
        What the party carries; the link; whether it has seen it confirmed; what it notes before it says so.

    Raises:
        PeerError: there is none, it is about another model, or it is not confirmed.
    """
    if not isinstance(message, ChainedAnnounce):
        raise PeerError(SERVER, "announces a round without the chain of its model")
    link = link_of(ctx.plan.run, message.claim)
    if message.claim.model != model:
        raise PeerError(SERVER, "announces a model that is not of the chain")
    verifying, last = past.verifying, past.link
    if last is not None and link.root != last.root and message.claim.round <= last.claim.round:
        raise PeerError(SERVER, "announces a model of another chain, or of an earlier link of it")
    if last is None or link.root == last.root:
        # A party that has started again knows the root only, from its journal.
        sure = last is not None or link.root == ctx.root
        return replace(past, link=link) if sure else past, link, sure, ()
    if verifying is None or message.claim.previous != last.root:
        # It was away: more than q others have to say that they have seen it confirmed.
        return past, link, False, ()
    _check_claim(verifying, last, message.claim)
    check_attests(ctx.plan, verifying.certified, link, message.attests)
    followed, noted = accepted(past, link)
    return followed, link, True, noted


def accepted(past: Past, link: ChainLink) -> tuple[Past, tuple[RunEffect, ...]]:
    """Take a link as confirmed; durably, before anybody is told."""
    after = replace(past, link=link, verifying=None)
    round_ = max(link.claim.round, 0)
    return after, (Journal(round_, ROOT + link.root.hex()), Report(LinkFollowed(link.claim.round, link.root)))


def vouched(ctx: PartyContext, link: ChainLink, reveals: Mapping[PartyId, Reveal]) -> bool:
    """Whether more than q others say that they have seen the link confirmed: one of them is honest."""
    saying = sum(
        isinstance(said, ChainedReveal) and said.root == link.root and party != ctx.me
        for party, said in reveals.items()
    )
    return saying > ctx.plan.scenario.secure_sum.colluders


def _claimed(ctx: PartyContext, verifying: Verifying, last: ChainLink, claim: RoundClaim) -> ChainLink:
    _check_claim(verifying, last, claim)
    link = link_of(ctx.plan.run, claim)
    if verifying.attested not in {b"", link.root}:
        raise PeerError(SERVER, f"claims two outcomes of round {claim.round}")
    return link


def _check_claim(verifying: Verifying, last: ChainLink, claim: RoundClaim) -> None:
    certified = verifying.certified
    if (claim.round, claim.statement) != (certified.round, certified.statement):
        raise PeerError(SERVER, f"claims an outcome of another round than was certified as {certified.round}")
    if claim.previous != last.root:
        raise PeerError(SERVER, f"claims that round {claim.round} began with another model")
    if len(claim.sums) != len(certified.commitments):
        raise PeerError(SERVER, f"claims {len(claim.sums)} sums, {len(certified.commitments)} were certified")
    if LOST in claim.sums:
        raise PeerError(SERVER, "claims a model of a part of the certified sums")


def _unsealed(ctx: PartyContext, link: ChainLink, place: Place, sealed: bytes) -> bytes:
    if ctx.identity is None:
        raise UsageError("this party was made without its keys")
    try:
        return ctx.identity.open_sealed(sealed, proof_context(link.root, place, ctx.me))
    except BoxError as error:
        raise PeerError(SERVER, "sends a proof that does not open") from error


def _repeat_sum(
    ctx: PartyContext, verifying: Verifying, link: ChainLink, place: Place, message: OpeningProof
) -> None:
    key, certified = (place.reclustering, place.cluster), verifying.certified
    known = verifying.instances.get(key)
    if known is None or place != Place(certified.round, *key):
        raise PeerError(SERVER, f"proves a sum of cluster {key}, which this party is not in")
    opened = decode_struct(Opened, _unsealed(ctx, link, place, message.sealed), SERVER)
    ring = repeat_opening(ctx.plan.sums, known, certified.commitments[key], message, opened, ctx.plan.roster)
    stated = dict(zip(certified.commitments, link.claim.sums, strict=True))[key]
    if sum_digest(ctx.plan.run, certified.round, key, ring) != stated:
        raise PeerError(SERVER, f"claims another sum of {known.setup.describe()} than its members made")


def _repeat_step(
    ctx: PartyContext,
    verifying: Verifying,
    last: ChainLink,
    link: ChainLink,
    place: Place,
    message: StepProof,
) -> None:
    plan, certified, claim = ctx.plan, verifying.certified, link.claim
    if place != Place(certified.round) or ctx.me not in committee(plan, certified):
        raise PeerError(SERVER, "proves a step to a party that is not of its committee")
    step = decode_struct(Step, _unsealed(ctx, link, place, message.sealed), SERVER)
    if len(step.velocity) != 8 * plan.broadcast:
        raise PeerError(SERVER, "proves a step from a state of another length")
    velocity = np.frombuffer(step.velocity, dtype="<f8").astype(np.float64)
    if state_digest(velocity) != last.claim.state:
        raise PeerError(SERVER, "proves a step from another state than the chain has")
    sums = _read_sums(ctx, certified, claim, step.sums)
    excluded = failed(checks_of(plan, certified.round, sums))
    before = Standing(certified.round, verifying.params, velocity)
    after, _, _ = after_sums(plan, before, certified.drawn, certified.survivors, sums, excluded=excluded)
    if model_digest(after.params) != claim.model or state_digest(after.velocity) != claim.state:
        raise PeerError(SERVER, f"claims another model than the sums of round {certified.round} make")


def _read_sums(
    ctx: PartyContext, certified: CertifiedRound, claim: RoundClaim, raw: bytes
) -> Sequence[ClusterSum]:
    plan, sums, start = ctx.plan, list[ClusterSum](), 0
    bits = plan.limits.ring_bits
    for key, stated in zip(certified.commitments, claim.sums, strict=True):
        words = plan.words(key[0])
        end = start + words * bits // 8
        ring = from_wire(memoryview(raw)[start:end], words, bits, SERVER)
        if sum_digest(plan.run, certified.round, key, ring) != stated:
            raise PeerError(SERVER, f"proves a step with another sum of cluster {key} than it claims")
        alive = certified.alive(key)
        if np.abs(from_ring(ring)).max(initial=0) > largest_sum(plan.scenario, len(alive)):
            raise PeerError(SERVER, f"claims a sum of cluster {key} beyond what its members can encode")
        members = certified.drawn.assignment.clusters[key[0]][key[1]]
        sums.append(ClusterSum(*key, members=members, survivors=alive, ring=ring))
        start = end
    if start != len(raw):
        raise PeerError(SERVER, "proves a step with more sums than were certified")
    return sums
