"""Repetition of sums and steps from the server's proofs (ADR 0044)."""

from collections.abc import Sequence

import numpy as np

from securefl.base.arrays import F32
from securefl.base.errors import PeerError
from securefl.base.ids import SERVER
from securefl.methods import encoding
from securefl.protocol import messages, secure_sum, wire
from securefl.protocol.round import walk
from securefl.protocol.round.server.opened import OpenedRound
from securefl.protocol.round.server.phases import ServerState
from securefl.protocol.round.server.stacking import ClusterSum
from securefl.protocol.round.shared import chain
from securefl.protocol.round.shared.additions.addition import NO_VALUES, StartValues
from securefl.protocol.round.shared.plan import RunPlan
from securefl.protocol.round.shared.reports import ClusterKey
from securefl.protocol.round.shared.statement import model_digest

LAST_BITS = 16
"""Most units in the last place of a parameter between two roundings."""


def check_all_sums(certified: chain.CertifiedRound, claim: messages.RoundClaim) -> None:
    """Raise PeerError unless a claim covers all certified sums, and states none as lost."""
    if len(claim.sums) != len(certified.commitments):
        raise PeerError(SERVER, f"claims {len(claim.sums)} sums, {len(certified.commitments)} were certified")
    if chain.LOST in claim.sums:
        raise PeerError(SERVER, "claims a model that uses only some of the certified sums")


def check_claim(certified: chain.CertifiedRound, last: chain.ChainLink, claim: messages.RoundClaim) -> None:
    """Raise PeerError unless a claim covers the certified round, and follows the last link."""
    if (claim.round, claim.statement) != (certified.round, certified.statement):
        raise PeerError(SERVER, f"claims a result of another round than the certified {certified.round}")
    if claim.previous != last.root:
        raise PeerError(SERVER, f"claims that round {claim.round} began with another model")
    check_all_sums(certified, claim)


def repeat_sum(
    plan: RunPlan,
    certified: chain.CertifiedRound,
    known: secure_sum.Repeatable,
    message: messages.OpeningProof,
    plain: bytes,
    vectors: secure_sum.ProvenVectors,
) -> None:
    """Repeat one opening, whose decrypted contents are ``plain``.

    Raises:
        PeerError: no sum follows, or another one than claimed.
    """
    key: ClusterKey = (known.setup.instance.reclustering, known.setup.instance.cluster)
    opened = wire.decode_struct(messages.Opened, plain, SERVER)
    commitment = certified.commitments[key]
    ring = secure_sum.repeat_opening(plan.sums, known, commitment, message, opened, vectors, plan.roster)
    stated = dict(zip(certified.commitments, message.claim.sums, strict=True))[key]
    if chain.sum_digest(plan.run, certified.round, key, ring) != stated:
        raise PeerError(SERVER, f"claims another sum of {known.setup.describe()} than its inputs give")


class RoundingError(PeerError):
    """A step that differs in the last bits only: the round is void, without a culprit."""


def repeat_step(
    plan: RunPlan,
    certified: chain.CertifiedRound,
    claim: messages.RoundClaim,
    state: bytes,
    params: F32,
    plain: bytes,
) -> None:
    """Repeat the step of a round from its models ``params``, f32 ``(k d,)``, and the decrypted proof.

    ``state`` is the digest of the other input.

    Raises:
        PeerError: the step has another start, other sums or another result than claimed.
        RoundingError: the result differs in the last bits only.
    """
    step = wire.decode_struct(messages.Step, plain, SERVER)
    moments, values = chain.read_state(plan, step.moments)
    if chain.state_digest(moments, values) != state:
        raise PeerError(SERVER, "proves a step from another state than the chain has")
    sums = _read_sums(plan, certified, claim, step.sums)
    round_ = certified.round
    opened = OpenedRound(certified.drawn, certified.survivors, tuple(sums))
    before, opened, _ = walk.screen(plan, ServerState(round_, params, moments, values=values), opened)
    after, _ = walk.update(plan, before, opened)
    model = model_digest(after.params, after.values)
    if (model, chain.state_digest(after.moments, after.values)) == (claim.model, claim.state):
        return
    if is_rounding(step.model, claim, params, after.params, after.values):
        raise RoundingError(
            SERVER,
            f"claims a model that differs in the last bits from what the sums of round {round_} make here:"
            " with other versions of Python or numpy, or on another processor, steps may round otherwise",
        )
    raise PeerError(SERVER, f"claims another model than the sums of round {round_} give")


def is_rounding(
    model: bytes,
    claim: messages.RoundClaim,
    before: F32,
    after: F32,
    values: StartValues = NO_VALUES,
) -> bool:
    """Return True if a claimed result may be ``after`` with other rounding.

    Its proven ``model`` (little-endian float32) differs in the last bits only. If it is equal, the moments
    differ, where double precision shows a rounding. Moments are not proven: a lie about them alone makes the
    round void, and convicts no party. Models are f32 ``(k d,)``, ``before`` that of the round's start.
    """
    if len(model) != 4 * len(after):
        return False
    claimed = np.frombuffer(model, dtype="<f4").astype(np.float32)
    if model_digest(claimed, values) != claim.model:
        return False
    scale = np.spacing(np.maximum(np.abs(before), np.abs(after)), dtype=np.float32)
    near = np.abs(claimed.astype(np.float64) - after) <= LAST_BITS * scale.astype(np.float64)
    return bool(near.all())


def _read_sums(
    plan: RunPlan, certified: chain.CertifiedRound, claim: messages.RoundClaim, raw: bytes
) -> Sequence[ClusterSum]:
    sums, start = list[ClusterSum](), 0
    bits = plan.limits.ring_bits
    for key, stated in zip(certified.commitments, claim.sums, strict=True):
        if stated == chain.LOST:
            continue
        words = plan.sum_length(key[0])
        end = start + words * bits // 8
        ring = encoding.from_wire(memoryview(raw)[start:end], words, bits, SERVER)
        if chain.sum_digest(plan.run, certified.round, key, ring) != stated:
            raise PeerError(SERVER, f"proves a step with another sum of cluster {key} than it claims")
        members = certified.drawn.assignment.clusters[key[0]][key[1]]
        sums.append(ClusterSum(*key, members=members, survivors=certified.alive(key), ring=ring))
        start = end
    if start != len(raw):
        raise PeerError(SERVER, "proves a step with more sums than were certified")
    return sums
