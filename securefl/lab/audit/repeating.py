"""Openings and steps recomputed with the verifiers' function."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from securefl.base import crypto, entropy
from securefl.base.arrays import F32
from securefl.base.errors import PeerError
from securefl.base.ids import SERVER, PartyId
from securefl.lab.audit import finding, links
from securefl.lab.audit.kept_messages import AUDIT, KeptMessage, KeptMessages
from securefl.protocol import kernel, messages, secure_sum
from securefl.protocol.round import (
    NO_VALUES,
    CertifiedRound,
    PartyContext,
    PartyHistory,
    RoundingError,
    RunPlan,
    StartValues,
    UnsignedProofError,
    VerifiableRound,
    link_of,
    model_digest,
    on_proof,
    read_model,
)
from securefl.runtime import report

_Proof = KeptMessage[messages.OpeningProof] | KeptMessage[messages.StepProof]


@dataclass(frozen=True, slots=True)
class RepeatedHere:
    """Results of recomputed proofs."""

    same: frozenset[tuple[bytes, kernel.Place]]
    """Root and place of each sum and step that agrees."""
    differing: Mapping[tuple[bytes, kernel.Place], str]
    """Reason why a sum or step differs, by root and place."""
    wrong: tuple[finding.Finding, ...]
    unread: int
    """Proofs that could not be recomputed: without key or model."""

    def at(self, root: bytes, place: kernel.Place) -> bool:
        """Return True if this sum or step was recomputed as the root claims."""
        return (root, place) in self.same and (root, place) not in self.differing

    def differs(self, root: bytes) -> str:
        """Return why a sum or step of a root differs, or ""."""
        return next((why for (of, _), why in self.differing.items() if of == root), "")


def repeat_proofs(
    plan: RunPlan, kept: KeptMessages, chain: links.ModelChain, identities: Mapping[PartyId, crypto.Identity]
) -> RepeatedHere:
    """Recompute each opening and step that was sent to a party with a known private key.

    Proofs and models are kept with ``--lab`` only.
    """
    same, unread, unsigned = set[tuple[bytes, kernel.Place]](), 0, list[finding.Finding]()
    differing: dict[
        tuple[bytes, kernel.Place, str],
        list[_Proof],
    ] = {}
    rounded: dict[tuple[kernel.Place, str], list[_Proof]] = {}
    rounds = {one.round: one for one in chain.rounds}
    for proof in _proofs(kept):
        one = rounds.get(proof.place.round)
        past = None if one is None else _before(plan, kept, one, proof)
        if past is None or proof.by not in identities:
            unread += 1
            continue
        # Recomputing draws no randomness.
        nothing = entropy.InsecureSeededEntropy(0)
        ctx = PartyContext(plan, proof.by, 1, nothing, identity=identities[proof.by])
        root = link_of(plan.run, proof.message.claim).root
        try:
            if isinstance(past, PeerError):
                raise past
            on_proof(ctx, past, proof.place, proof.message)
        except UnsignedProofError as error:
            if proof.signed:
                differing.setdefault((root, proof.place, _why(error)), []).append(proof)
            else:
                # The transcript's writer may have invented it.
                unsigned.append(_unsigned_finding(proof, _why(error)))
        except RoundingError as error:
            same.add((root, proof.place))
            rounded.setdefault((proof.place, _why(error)), []).append(proof)
        except PeerError as error:
            why = _why(error)
            differing.setdefault((root, proof.place, why), []).append(proof)
        else:
            same.add((root, proof.place))
    wrong = tuple(_differs(place, why, proofs) for (_, place, why), proofs in differing.items())
    reasons = {(root, place): why for root, place, why in differing}
    last_bits = tuple(_rounds_otherwise(place, why, proofs) for (place, why), proofs in rounded.items())
    return RepeatedHere(frozenset(same), reasons, (*wrong, *last_bits, *unsigned), unread)


def _why(error: PeerError) -> str:
    return f"{'the server' if error.culprit == SERVER else error.culprit} {error.reason}"


def _proofs(
    kept: KeptMessages,
) -> Iterator[_Proof]:
    yield from kept.of(messages.OpeningProof)
    yield from kept.of(messages.StepProof)


def _before(
    plan: RunPlan,
    kept: KeptMessages,
    one: links.CheckedRound,
    proof: _Proof,
) -> PartyHistory | PeerError | None:
    """Return the verifier's state before the proof; None if it is unknown."""
    certified = None if one.seen is None else one.seen.certified
    if one.seen is None or certified is None or one.before is None:
        return None
    params, values = np.zeros(plan.total_parameters, dtype=np.float32), plan.first_values
    instances: dict[tuple[int, int], secure_sum.Repeatable] = {}
    if isinstance(proof.message, messages.OpeningProof):
        key = (proof.place.reclustering, proof.place.cluster)
        try:
            instances[key] = _instance(plan, kept, one, certified, key, proof.message)
        except PeerError as error:
            return UnsignedProofError(error.culprit, error.reason)
    else:
        model = _model(kept, plan, proof.place.round, one.before.claim.model)
        if model is None:
            return None
        params, values = model
    verifying = VerifiableRound(certified, params, instances, values=values)
    return PartyHistory(last_spent_round=-1, link=one.before, verifying=verifying)


def _model(kept: KeptMessages, plan: RunPlan, round_: int, digest: bytes) -> tuple[F32, StartValues] | None:
    """Return models and values of a round with this digest."""
    invites = [one.message for one in kept.of(messages.ValuedInvite) if one.place.round == round_]
    announced: list[StartValues] = [one.values for one in invites] or [NO_VALUES]
    versions = {
        one.digest: one.message for one in kept.of(messages.ModelAnnounce) if one.place.round == round_
    }
    for message in versions.values():
        try:
            params = read_model(plan, message.params)
        except PeerError:
            continue
        for values in announced:
            if model_digest(params, values) == digest:
                return params, values
    return None


def _instance(
    plan: RunPlan,
    kept: KeptMessages,
    one: links.CheckedRound,
    certified: CertifiedRound,
    key: tuple[int, int],
    proof: messages.OpeningProof,
) -> secure_sum.Repeatable:
    seen = one.seen
    attempts = {
        (attempt.reclustering, attempt.cluster): attempt.attempt
        for freeze in (() if seen is None else seen.freezes)
        for attempt in freeze.message.attempts
    }
    place = kernel.Place(one.round, *key, attempts.get(key, 0))
    members = certified.drawn.assignment.clusters[key[0]][key[1]]
    if place.attempt:
        fewer = [retry.message.members for retry in kept.of(messages.Retry) if retry.place == place]
        members = tuple(map(PartyId, fewer[0])) if fewer else members
    setup = plan.setup(place, members, b"" if seen is None else seen.binding)
    return secure_sum.repeatable_from(plan.sums, setup, certified.survivors, proof, plan.roster)


def _what(place: kernel.Place) -> str:
    return "step" if place.reclustering < 0 else f"sum of cluster {place.reclustering}.{place.cluster}"


def _unsigned_finding(proof: _Proof, why: str) -> finding.Finding:
    return finding.warning(
        AUDIT,
        f"The transcript of {proof.by} has a wrong proof without the server's signature, of the"
        f" {_what(proof.place)} of round {proof.place.round}: {why}.",
        evidence=(proof.evidence,),
        remedy=f"find out which is true: the server sent it, or the transcript of {proof.by} is forged",
    )


def _rounds_otherwise(
    place: kernel.Place,
    why: str,
    proofs: Sequence[_Proof],
) -> finding.Finding:
    return finding.warning(
        AUDIT,
        f"The {_what(place)} of round {place.round} has different last bits here: {why}.",
        evidence=tuple(proof.evidence for proof in proofs),
        remedy="verify with the server's versions of Python and numpy, which its log names",
    )


def _differs(
    place: kernel.Place,
    why: str,
    proofs: Sequence[_Proof],
) -> finding.Finding:
    names = report.list_of(sorted(proof.by for proof in proofs))
    return finding.breach(
        AUDIT,
        f"The {_what(place)} of round {place.round} is wrong, by the proofs sent to {names}: {why}.",
        evidence=tuple(proof.evidence for proof in proofs),
        remedy="do not use the model of this round or a later one",
    )
