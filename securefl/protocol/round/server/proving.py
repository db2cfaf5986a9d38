"""Verified rounds at the server: claim, prove, and collect attestations (ADR 0044)."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

from securefl.base.arrays import F32
from securefl.base.errors import PeerError
from securefl.base.ids import PartyId
from securefl.methods import encoding, feasibility
from securefl.protocol import kernel, messages, secure_sum, wire
from securefl.protocol.round.server import phases
from securefl.protocol.round.server.stacking import ClusterSum
from securefl.protocol.round.shared import reports, signed_claim, statement
from securefl.protocol.round.shared.allowance import allowed_seconds
from securefl.protocol.round.shared.chain import (
    LOST,
    Attested,
    CertifiedRound,
    committee,
    link_of,
    may_attest,
    missing_attests,
    opening_attests,
    sent_state,
    state_digest,
    sum_digest,
)

CLAIMED_OTHERWISE = "before it was started again the server claimed another outcome, of other sums"


@dataclass(frozen=True, slots=True)
class OpenedSums:
    """All opened sums of a round, and the secrets that opened them."""

    sums: tuple[ClusterSum, ...] = ()
    secrets: Mapping[reports.ClusterKey, secure_sum.OpenedSecrets] = field(default_factory=dict, repr=False)


def certified_of(view: phases.RoundView, frozen: phases.Frozen, round_: int) -> CertifiedRound:
    """Return the certified facts of a round."""
    return CertifiedRound(round_, frozen.statement, view.drawn, frozen.survivors, frozen.commitments)


def claim_step(
    ctx: phases.ServerContext,
    before: phases.ServerState,
    after: phases.ServerState,
    view: phases.RoundView,
    frozen: phases.Frozen,
    unmasked: OpenedSums,
) -> tuple[phases.ServerState, reports.Effects]:
    """Claim the result of a round, and prove it to its verifiers; journal it first.

    ``unmasked`` may lack only sums that may be lost.
    """
    run, round_, certified = ctx.plan.run, before.round, certified_of(view, frozen, before.round)
    chain = before.claims.chain
    if chain is None:
        return after, ()
    opened = {one.key: sum_digest(run, round_, one.key, one.ring) for one in unmasked.sums}
    claim = messages.RoundClaim(
        round=round_,
        previous=chain.link.root,
        statement=frozen.statement,
        sums=tuple(opened.get(key, LOST) for key in certified.commitments),
        state=state_digest(after.moments, after.values),
        model=statement.model_digest(after.params, after.values),
    )
    link = link_of(run, claim)
    proofs: list[kernel.Send[messages.AnyMessage]] = []
    for key in opened:
        proofs += _prove_opening(ctx, certified, claim, key, frozen.instances[key], unmasked.secrets[key])
    proofs += _prove_step(
        ctx, certified, claim, sent_state(before.moments, before.values), unmasked.sums, after.params
    )
    asked: dict[kernel.Place, set[PartyId]] = {}
    for proof in proofs:
        asked.setdefault(proof.place, set()).add(proof.to)
    pending = phases.PendingClaim(
        link, certified, before, {place: frozenset(of) for place, of in asked.items()}
    )
    return replace(after, claims=replace(after.claims, pending=pending)), (
        kernel.Journal(round_, kernel.CLAIMED + link.root.hex()),
        *proofs,
    )


def contradicts_earlier_claim(ctx: phases.ServerContext, standing: phases.ServerState) -> bool:
    """Return True if an earlier server claimed another result of the round."""
    resumed, pending = ctx.resumed, standing.claims.pending
    if resumed is None or pending is None:
        return False
    round_, root = resumed.last_claim
    return round_ == standing.round and root != pending.link.root


def on_attest(
    ctx: phases.ServerContext,
    standing: phases.ServerState,
    sender: PartyId,
    place: kernel.Place,
    message: messages.Attest,
    signed: bytes,
) -> phases.ServerState:
    """Accept a verifier's attestation.

    Raises:
        PeerError: no claim, another root, a party that may not attest this, or a second one.
    """
    pending = standing.claims.pending
    if pending is None:
        if standing.claims.chain is not None and message.root == standing.claims.chain.link.root:
            return standing  # enough others were faster
        if ctx.resumed is not None and ctx.resumed.last_claim == (place.round, message.root):
            return standing  # claimed by an earlier server
        raise PeerError(sender, f"confirms a result of round {place.round} that the server did not send")
    if message.root != pending.link.root or not may_attest(ctx.plan, pending.certified, place, sender):
        raise PeerError(sender, f"confirms a part of round {place.round} that it should not verify")
    given = pending.attests.get(place, {})
    if sender in given or not signed:
        raise PeerError(sender, "sends a confirmation at the wrong time")
    attests = {**pending.attests, place: {**given, sender: signed}}
    return replace(standing, claims=replace(standing.claims, pending=replace(pending, attests=attests)))


def missing_confirmations(ctx: phases.ServerContext, pending: phases.PendingClaim) -> str | None:
    """Return what the claim lacks, or None if it is confirmed."""
    return missing_attests(ctx.plan, pending.certified, pending.link.claim, pending.attests)


def awaited_attests(ctx: phases.ServerContext, pending: phases.PendingClaim) -> Collection[PartyId]:
    """Return the parties that the claim waits for; none once confirmed."""
    if missing_confirmations(ctx, pending) is None:
        return frozenset()
    given = pending.attests
    return frozenset().union(
        *(of - given.get(place, {}).keys() for place, of in pending.verifiers_by_place.items())
    )


def attesting_time(ctx: phases.ServerContext) -> float:
    """Return the seconds that verifiers have once everything else is ready."""
    return allowed_seconds(ctx.plan, "verify")


def confirmation_report(pending: phases.PendingClaim) -> reports.ClaimConfirmed:
    """Return the report of a confirmed claim."""
    verifiers = {party for given in pending.attests.values() for party in given}
    return reports.ClaimConfirmed(pending.certified.round, pending.link.root, len(verifiers))


def without_claim(standing: phases.ServerState) -> phases.ServerState:
    """Return the state before the unconfirmed step."""
    pending = standing.claims.pending
    if pending is None:
        return standing
    before = pending.before
    return replace(
        standing,
        params=before.params,
        moments=before.moments,
        values=before.values,
        trust=before.trust,
        updates=before.updates,
        rounds_without_update=before.rounds_without_update,
        progress=before.progress,
        claims=replace(standing.claims, pending=None),
    )


def with_confirmed_claim(ctx: phases.ServerContext, standing: phases.ServerState) -> phases.ServerState:
    """Return the state with its claim as the last link, and the needed attestations."""
    pending = standing.claims.pending
    if pending is None:
        return standing
    certified, frames = pending.certified, list[bytes]()
    for place, given in sorted(pending.attests.items()):
        needed = len(given)
        if place.reclustering >= 0:
            alive = certified.alive((place.reclustering, place.cluster))
            needed = opening_attests(ctx.plan, len(alive))
        frames += [frame for _, frame in sorted(given.items())][:needed]
    return replace(standing, claims=phases.Claims(Attested(pending.link, tuple(frames))))


def with_chain(
    ctx: phases.ServerContext, standing: phases.ServerState, draw: int, announce: messages.Announce
) -> messages.Announce:
    """Return the announcement with the last link and its attestations, if verified."""
    chain = standing.claims.chain
    if chain is None:
        return announce
    claim, place = chain.link.claim, kernel.Place(standing.round, attempt=draw)
    contents = signed_claim.announced_contents(
        statement.model_digest(standing.params, standing.values), chain.frames
    )
    signed = signed_claim.sign_claim(ctx.identity, ctx.plan.run, claim, place, contents)
    return messages.ChainedAnnounce(
        hellos=announce.hellos, claim=claim, attests=chain.frames, signature=signed.signature
    )


def _prove_opening(
    ctx: phases.ServerContext,
    certified: CertifiedRound,
    claim: messages.RoundClaim,
    key: reports.ClusterKey,
    instance: secure_sum.CollectingInputs,
    secrets: secure_sum.OpenedSecrets,
) -> list[kernel.Send[messages.AnyMessage]]:
    added = instance.summed_members(certified.survivors)
    alive = certified.alive(key)
    # Each round takes another part of the cluster.
    start = certified.round % len(alive)
    asked = (alive[start:] + alive[:start])[: feasibility.openers_asked(ctx.plan.scenario, len(alive))]
    vectors = _join_vectors(ctx.store, [instance.inputs[index] for index in added])
    opened = messages.Opened(
        seeds=tuple(sorted(secrets.seeds.items())),
        keys=tuple(sorted(secrets.keys.items())),
        noise=tuple(sorted(secrets.noise.items())),
    )
    setup, place, plain = instance.setup, kernel.Place(claim.round, *key), wire.encode(opened)
    adverts = tuple(instance.frames[index] for index in sorted(instance.frames))
    receipts = tuple(instance.receipts[index] for index in added)
    inputs = {index: instance.digests[index] for index in added}
    contents = secure_sum.opening_contents(setup, instance.sharers, plain, (adverts, receipts), inputs)
    signed = signed_claim.sign_claim(ctx.identity, ctx.plan.run, claim, place, contents)
    return [
        kernel.Send(
            party,
            place,
            messages.OpeningProof(
                claim=claim,
                adverts=adverts,
                receipts=receipts,
                signature=signed.signature,
                sealed=_seal_proof(ctx, claim, place, party, plain),
                vectors=vectors,
            ),
        )
        for party in asked
    ]


def _prove_step(
    ctx: phases.ServerContext,
    certified: CertifiedRound,
    claim: messages.RoundClaim,
    state: bytes,
    sums: Sequence[ClusterSum],
    params: F32,
) -> list[kernel.Send[messages.AnyMessage]]:
    place = kernel.Place(claim.round)
    step = messages.Step(
        moments=state,
        totals=(),
        sums=b"".join(encoding.to_wire(one.ring) for one in sums),
        model=params.astype("<f4", copy=False).tobytes(),
    )
    plain = wire.encode(step)
    signature = signed_claim.sign_claim(
        ctx.identity, ctx.plan.run, claim, place, signed_claim.step_contents(plain)
    ).signature
    return [
        kernel.Send(
            party,
            place,
            messages.StepProof(
                claim=claim, signature=signature, sealed=_seal_proof(ctx, claim, place, party, plain)
            ),
        )
        for party in committee(ctx.plan, certified)
        if party in certified.survivors
    ]


def _seal_proof(
    ctx: phases.ServerContext, claim: messages.RoundClaim, place: kernel.Place, party: PartyId, plain: bytes
) -> bytes:
    context = statement.proof_context(link_of(ctx.plan.run, claim).root, place, party)
    entropy = ctx.entropy.child("proof", *place, party)
    return ctx.plan.roster.parties[party].seal(plain, context, entropy)


def _join_vectors(store: secure_sum.VectorStore, handles: Sequence[int]) -> bytes:
    return b"".join(store.get(handle) for handle in handles)
