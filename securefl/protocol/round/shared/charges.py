"""Charges: evidence that a process keeps of what it refused, for ``securefl verify`` (ADR 0044, Evidence).

A charge holds signed values and preimages of signed digests, so that any reader can judge it. The machine
that refuses makes it and does not judge it. It is not a message.
"""

from typing import TypeAlias

import msgspec
from msgspec import Struct

from securefl.protocol import kernel, messages, secure_sum


class ChargePart(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, array_like=True, tag=True):
    """Base of what charges consist of: a closed set of fields, and a ``repr`` of sizes only."""

    __repr__ = messages.Message.__repr__


class SignedClaim(ChargePart, frozen=True, kw_only=True):
    """A claim as the server signed it in a proof, or in an announcement."""

    claim: messages.RoundClaim
    place: tuple[int, int, int, int]
    """Round, reclustering, cluster, attempt: of the sum or the step that is proven; of the draw whose
    announcement it is. The round is the claim's exactly in proofs."""
    contents: bytes
    """Digest of what is proven, or of the model and the attests that are announced."""
    signature: bytes


class RoundPreimage(ChargePart, frozen=True, kw_only=True):
    """What the certified statement of a round is the digest of: the claim that names it pins all of this."""

    draw: int
    model: bytes
    """Digest of the round's models."""
    hellos: tuple[tuple[messages.Name, messages.Hello | messages.StatingHello], ...]
    """Of everybody who was announced."""
    nonces: tuple[tuple[messages.Name, bytes], ...]
    """As committed to in the hellos."""
    survivors: tuple[messages.Name, ...]
    commitments: tuple[bytes, ...]


class Announced(ChargePart, frozen=True, kw_only=True):
    """Contents of an announcement that a party refused."""

    model: bytes
    """Digest of the models that were sent."""
    attests: tuple[bytes, ...]
    """Frames."""


class ShownOpening(ChargePart, frozen=True, kw_only=True):
    """Contents of an opening that a party refused."""

    attempt: int
    members: tuple[messages.Name, ...]
    sharers: tuple[int, ...]
    added: tuple[int, ...]
    """Members whose vectors follow."""
    adverts: tuple[bytes, ...]
    receipts: tuple[bytes, ...]
    opened: bytes
    """The secrets, as they were before they were sealed."""
    vectors: bytes


class ShownStep(ChargePart, frozen=True, kw_only=True):
    """Contents of a step that a party refused."""

    previous: messages.RoundClaim
    params: bytes
    """Start of the round, as its digest covers it."""
    step: bytes
    """Sums and moments, as they were before they were sealed."""


Contents: TypeAlias = Announced | ShownOpening | ShownStep


class FalseClaim(ChargePart, frozen=True, kw_only=True):
    """A signed claim of the server that a party refused, and the signed values that it may contradict."""

    signed: SignedClaim
    earlier: tuple[SignedClaim, ...]
    """Claims that the party took before."""
    endorsements: tuple[bytes, ...]
    """Certificate of the last round that the party can verify: frames."""
    record: RoundPreimage | None
    """Preimage of the statement of that round; None if there is none."""
    contents: Contents
    """Contents that the server signed with the claim."""


class TwoWords(ChargePart, frozen=True, kw_only=True):
    """Two frames of one party that no honest one signs both of."""

    first: bytes
    second: bytes


Charge: TypeAlias = FalseClaim | TwoWords | secure_sum.DealtSecrets
"""The closed set."""


_encoder = msgspec.msgpack.Encoder()
_decoder: msgspec.msgpack.Decoder[Charge] = msgspec.msgpack.Decoder(Charge)


def charge_bytes(charge: Charge) -> bytes:
    """Return a charge as it is kept in a file."""
    return _encoder.encode(charge)


def charge_from(raw: bytes) -> Charge:
    """Return the charge that a file holds.

    Raises:
        ValueError: it holds none, or not in the one encoding of it.
    """
    try:
        charge = _decoder.decode(raw)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error
    if _encoder.encode(charge) != raw:
        raise ValueError("not in its canonical encoding")
    return charge


def contradiction(
    at: kernel.Place, first: messages.AnyMessage, place: kernel.Place, second: messages.AnyMessage
) -> str:
    """Return how two messages that one party signed contradict each other; nothing if both may be honest.

    Args:
        at: place of the first one.
        first: a message.
        place: of the second one.
        second: another message.
    """
    differ = at == place and first != second
    match first, second:
        case messages.Attest(), messages.Attest() if at.round == place.round and first != second:
            return f"attests two outcomes of round {at.round}"
        case messages.Endorse(), messages.Endorse() if differ:
            return f"endorses two statements of round {at.round}"
        case messages.Receipt(), messages.Receipt() if differ:
            where = f"reclustering {at.reclustering} cluster {at.cluster} attempt {at.attempt}"
            return f"signs two receipts in round {at.round} {where}"
    return ""
