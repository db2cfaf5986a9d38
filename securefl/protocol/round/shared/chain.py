"""Chain of models: a root per round over the results of its sums, step and model (ADR 0044).

The server claims a link. It is confirmed once enough members of each cluster attest their sum, and enough of
a committee the step.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from securefl.base import crypto
from securefl.base.arrays import F32, F64, Ring
from securefl.base.errors import PeerError
from securefl.base.ids import SERVER, PartyId, RunId
from securefl.methods import clustering, encoding, server_optimisers
from securefl.protocol import kernel, messages, wire
from securefl.protocol.round.shared.additions.addition import NO_VALUES, StartValues
from securefl.protocol.round.shared.additions.catalogue import named_values, value_bytes
from securefl.protocol.round.shared.draw import Draw
from securefl.protocol.round.shared.plan import RunPlan
from securefl.protocol.round.shared.reports import ClusterKey
from securefl.protocol.round.shared.statement import model_digest

LOST = bytes(32)
"""Digest of a sum that did not open."""
NO_LINK = bytes(32)
"""Root before the first."""


@dataclass(frozen=True, slots=True)
class CertifiedRound:
    """A round with certified survivors and sums."""

    round: int
    statement: bytes
    drawn: Draw
    survivors: frozenset[PartyId]
    commitments: Mapping[ClusterKey, bytes]

    def alive(self, key: ClusterKey) -> tuple[PartyId, ...]:
        """Return the survivors of one cluster."""
        members = self.drawn.assignment.clusters[key[0]][key[1]]
        return tuple(party for party in members if party in self.survivors)


@dataclass(frozen=True, slots=True)
class ChainLink:
    """A claim with its root."""

    claim: messages.RoundClaim
    root: bytes


@dataclass(frozen=True, slots=True)
class Attested:
    """A confirmed link, and the frames that confirm it."""

    link: ChainLink
    frames: tuple[bytes, ...] = field(default=(), repr=False)
    """Signed ``Attest`` frames; empty for the first model."""


def link_of(run: RunId, claim: messages.RoundClaim) -> ChainLink:
    """Return the claim with its root."""
    return ChainLink(claim, crypto.digest("claim", run, wire.encode(claim)))


def first_link(plan: RunPlan, params: F32) -> ChainLink | None:
    """Return the link of the first model, f32 ``(k d,)``; None if not verified."""
    if not plan.scenario.secure_sum.verified:
        return None
    moments = server_optimisers.first_moments(plan.optimiser, plan.total_parameters)
    claim = messages.RoundClaim(
        round=-1,
        previous=NO_LINK,
        statement=crypto.digest("first link", plan.run, plan.config_digest()),
        sums=(),
        state=state_digest(moments, plan.first_values),
        model=model_digest(params, plan.first_values),
    )
    return link_of(plan.run, claim)


def sent_state(moments: F64, values: StartValues) -> bytes:
    """Return the input of a step besides the model: moments f64 ``(s, k d)`` and values."""
    return moments.astype("<f8", copy=False).tobytes() + value_bytes(values)


def read_state(plan: RunPlan, sent: bytes) -> tuple[F64, StartValues]:
    """Return moments and values from :func:`sent_state`; raise PeerError for another length."""
    kept, size = plan.optimiser.moments, plan.optimiser.moments * plan.total_parameters
    if len(sent) != 8 * (size + len(plan.first_values)):
        raise PeerError(SERVER, "sends a proof that starts from a state of another size")
    numbers = np.frombuffer(sent, dtype="<f8").astype(np.float64)
    return numbers[:size].reshape(kept, plan.total_parameters), named_values(plan.scenario, numbers[size:])


def state_digest(moments: F64, values: StartValues = NO_VALUES) -> bytes:
    """Return the digest of :func:`sent_state`."""
    return crypto.digest("state", sent_state(moments, values))


def sum_digest(run: RunId, round_: int, key: ClusterKey, ring: Ring) -> bytes:
    """Return the digest of an opened sum, ring words of shape (d,)."""
    return crypto.digest("opened sum", run, round_, *key, encoding.to_wire(ring))


def opening_attests(plan: RunPlan, alive: int) -> int:
    """Return the attestations that a cluster's sum needs: colluders plus one."""
    return min(plan.scenario.secure_sum.colluders_per_cluster + 1, alive)


def committee(plan: RunPlan, certified: CertifiedRound) -> tuple[PartyId, ...]:
    """Return the parties that repeat the round's step."""
    drawn = certified.drawn
    return clustering.committee_of(plan.scenario, drawn.seed, drawn.assignment.participants)


def missing_attests(
    plan: RunPlan,
    certified: CertifiedRound,
    claim: messages.RoundClaim,
    by: Mapping[kernel.Place, Collection[PartyId]],
) -> str | None:
    """Return what a claim lacks to be confirmed, or None.

    ``by`` has attesting parties by place of the sum, or of the round for its step.
    """
    for key, stated in zip(certified.commitments, claim.sums, strict=True):
        found = len(by.get(kernel.Place(claim.round, *key), ()))
        needed = opening_attests(plan, len(certified.alive(key)))
        if stated != LOST and found < needed:
            return f"{found} members confirm the sum of cluster {key[0]}.{key[1]}, {needed} are needed"
    members = committee(plan, certified)
    found, needed = (
        len(by.get(kernel.Place(claim.round), ())),
        clustering.attests_needed(plan.scenario, len(members)),
    )
    return f"{found} of its committee confirm the step, {needed} are needed" if found < needed else None


def may_attest(plan: RunPlan, certified: CertifiedRound, place: kernel.Place, party: PartyId) -> bool:
    """Return True if a party's attestation of a sum, or of the step, counts."""
    if place == kernel.Place(certified.round):
        return party in committee(plan, certified)
    key = (place.reclustering, place.cluster)
    return (
        place == kernel.Place(certified.round, *key)
        and key in certified.commitments
        and party in certified.alive(key)
    )


def check_attests(plan: RunPlan, certified: CertifiedRound, link: ChainLink, frames: Sequence[bytes]) -> None:
    """Check that enough parties attest a claim.

    Raises:
        PeerError: too few frames, or one that is not a verifier's first attestation of this root.
    """
    by: dict[kernel.Place, set[PartyId]] = {}
    for frame in frames:
        delivery = wire.open_relayed(frame, plan.roster, plan.run, SERVER, SERVER)
        message = delivery.message
        if not isinstance(message, messages.Attest) or message.root != link.root:
            raise PeerError(SERVER, "sends something else than confirmations of its result")
        attesting = by.setdefault(delivery.place, set())
        if delivery.sender in attesting or not may_attest(plan, certified, delivery.place, delivery.sender):
            raise PeerError(SERVER, f"sends a confirmation of {delivery.sender}, which is not a verifier")
        attesting.add(delivery.sender)
    missing = missing_attests(plan, certified, link.claim, by)
    if missing is not None:
        raise PeerError(SERVER, f"claims a result without enough confirmations: {missing}")
