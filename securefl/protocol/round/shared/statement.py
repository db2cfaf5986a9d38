"""Statements that bind masks, endorsements and releases, as digests that every party computes."""

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
    """Return models as sent: little-endian float32."""
    return params.astype("<f4", copy=False).tobytes()


def read_model(plan: RunPlan, sent: bytes) -> F32:
    """Return received models, f32 ``(k d,)``; raise PeerError if they have another length."""
    if len(sent) != 4 * plan.total_parameters:
        raise PeerError(SERVER, f"sends a model of {len(sent)} bytes, expected {4 * plan.total_parameters}")
    return np.frombuffer(sent, dtype="<f4").astype(np.float32)


def start_bytes(params: F32, values: StartValues = NO_VALUES) -> bytes:
    """Return the start of a round: models, and announced values."""
    return sent_model(params) + value_bytes(values)


def model_digest(params: F32, values: StartValues = NO_VALUES) -> bytes:
    """Return the digest (32 bytes) of the start of a round."""
    return start_digest(start_bytes(params, values))


def start_digest(start: bytes) -> bytes:
    """Return the digest of :func:`start_bytes`."""
    return crypto.digest("model", start)


def announced_digest(hellos: Mapping[PartyId, messages.Hello]) -> bytes:
    """Return the digest of all hellos."""
    fields: list[str | bytes] = []
    for party in sorted(hellos):
        fields += [party, wire.encode(hellos[party])]
    return crypto.digest("announced hellos", *fields)


def mask_binding(assignment: clustering.Assignment, announced: bytes, model: bytes, config: bytes) -> bytes:
    """Return the digest that binds every mask key of a round.

    If a server shows one party another model, assignment, configuration or set of hellos, masks do not
    cancel: the sum is noise (Pasquini et al., arXiv 2111.07380). Hellos are included because a colluder could
    declare a huge count to all parties but one, whose update would be the sum: the others' would be rounded
    to zero.
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
    """Return the statement that a party endorses, once per round (protocol.md, step 7)."""
    return crypto.digest(
        "round statement", run, round_, model, config, announced, assignment.digest(), *sorted(survivors)
    )


def bound_statement(statement: bytes, commitments: Iterable[bytes]) -> bytes:
    """Return the endorsed statement of verified rounds, with all commitments."""
    return crypto.digest("bound statement", statement, *commitments)


def lists_statement(own: Iterable[tuple[int, int, bytes]]) -> bytes:
    """Return the digest of a party's lists: (reclustering, cluster, digest) each."""
    fields: list[int | bytes] = []
    for entry in sorted(own):
        fields += entry
    return crypto.digest("own lists", *fields)


def slots_statement(statement: bytes, seats: Iterable[int]) -> bytes:
    """Return the statement of a second release, with the received seats."""
    return crypto.digest("slots", statement, *seats)


def release_context(statement: bytes, party: PartyId) -> bytes:
    """Return the context of a sealed release."""
    return crypto.digest("release", statement, party)


def proof_context(root: bytes, place: kernel.Place, party: PartyId) -> bytes:
    """Return the context of a proof sealed to a verifier."""
    return crypto.digest("proof", root, *place, party)
