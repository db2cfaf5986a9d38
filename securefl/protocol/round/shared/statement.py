"""Statements that masks, endorsements and releases are bound to, as digests that every party computes."""

from collections.abc import Iterable, Mapping

import numpy as np

from securefl.base import crypto
from securefl.base.arrays import F32
from securefl.base.errors import PeerError
from securefl.base.ids import SERVER, PartyId, RunId
from securefl.methods import clustering
from securefl.protocol import kernel, messages, wire
from securefl.protocol.round.shared.additions.addition import NO_VALUES, StartValues
from securefl.protocol.round.shared.additions.catalogue import value_bytes
from securefl.protocol.round.shared.plan import RunPlan


def sent_model(params: F32) -> bytes:
    """Return models as they are sent: little-endian float32."""
    return params.astype("<f4", copy=False).tobytes()


def read_model(plan: RunPlan, sent: bytes) -> F32:
    """Return models, f32 ``(k d,)``, as they are sent.

    Raises:
        PeerError: they are of another length.
    """
    if len(sent) != 4 * plan.broadcast:
        raise PeerError(SERVER, f"sends a model of {len(sent)} bytes, expected {4 * plan.broadcast}")
    return np.frombuffer(sent, dtype="<f4").astype(np.float32)


def start_bytes(params: F32, values: StartValues = NO_VALUES) -> bytes:
    """Return the start of a round: models, and the values that features announce."""
    return sent_model(params) + value_bytes(values)


def model_digest(params: F32, values: StartValues = NO_VALUES) -> bytes:
    """Return the digest (32 bytes) of the start of a round."""
    return start_digest(start_bytes(params, values))


def start_digest(start: bytes) -> bytes:
    """Return the digest of :func:`start_bytes`."""
    return crypto.digest("model", start)


def announced_digest(hellos: Mapping[PartyId, messages.Hello]) -> bytes:
    """Return the hash of everybody's hello: commitments, sample counts and limits."""
    fields: list[str | bytes] = []
    for party in sorted(hellos):
        fields += [party, wire.encode(hellos[party])]
    return crypto.digest("announced hellos", *fields)


def mask_binding(assignment: clustering.Assignment, announced: bytes, model: bytes, config: bytes) -> bytes:
    """Return what every mask key of a round is bound to.

    A server that shows one party another model, assignment, configuration or set of hellos gets masks that do
    not cancel: noise instead of that party's update (Pasquini et al., arXiv 2111.07380). The hellos belong to
    it because weights follow from the counts in them: a colluder that declares a huge count to all but one
    party would have the others' updates rounded to nothing, and the sum would be that one party's update.
    """
    return crypto.digest("mask binding", assignment.digest(), announced, model, config)


def round_statement(
    run: RunId,
    round_: int,
    model: bytes,
    config: bytes,
    announced: bytes,
    assignment: clustering.Assignment,
    survivors: Iterable[PartyId],
) -> bytes:
    """Return what a party endorses once per round (protocol.md, step 7)."""
    return crypto.digest(
        "round statement", run, round_, model, config, announced, assignment.digest(), *sorted(survivors)
    )


def bound_statement(statement: bytes, commitments: Iterable[bytes]) -> bytes:
    """Return what a party endorses where sums are verified: the statement, and what fixes every sum."""
    return crypto.digest("bound statement", statement, *commitments)


def lists_statement(own: Iterable[tuple[int, int, bytes]]) -> bytes:
    """Return the hash of a party's own key and share lists: (reclustering, cluster, lists digest) each."""
    fields: list[int | bytes] = []
    for entry in sorted(own):
        fields += entry
    return crypto.digest("own lists", *fields)


def slots_statement(statement: bytes, seats: Iterable[int]) -> bytes:
    """Return what a second release is bound to: the round's statement, and the seats that it answers."""
    return crypto.digest("slots", statement, *seats)


def release_context(statement: bytes, party: PartyId) -> bytes:
    """Return what a sealed release is bound to."""
    return crypto.digest("release", statement, party)


def proof_context(root: bytes, place: kernel.Place, party: PartyId) -> bytes:
    """Return what a proof that is sealed to a verifier is bound to."""
    return crypto.digest("proof", root, *place, party)
