"""Charges: stored evidence of a fault, for ``securefl verify`` (ADR 0044, Evidence).

They hold signed values and preimages of signed digests, so that any reader can judge. The machine that
rejects a message makes the charge without judging it, and never sends it.
"""

from typing import TypeAlias

import msgspec
from msgspec import Struct

from securefl.protocol import kernel, messages, secure_sum


class ChargePart(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, array_like=True, tag=True):
    """Base of the parts of charges, with closed fields and a ``repr`` of sizes."""

    __repr__ = messages.Message.__repr__


class SignedClaim(ChargePart, frozen=True, kw_only=True):
    """A claim as signed in a proof or announcement."""

    claim: messages.RoundClaim
    place: tuple[int, int, int, int]
    """Place of the proven sum or step, or of the announced draw. Only in proofs is its round the claim's."""
    contents: bytes
    """Digest of the proof, or of announced model and attestations."""
    signature: bytes


class RoundPreimage(ChargePart, frozen=True, kw_only=True):
    """Preimage of a round's certified statement."""

    draw: int
    model: bytes
    hellos: tuple[tuple[messages.Name, messages.Hello | messages.StatingHello], ...]
    nonces: tuple[tuple[messages.Name, bytes], ...]
    survivors: tuple[messages.Name, ...]
    commitments: tuple[bytes, ...]


class Announced(ChargePart, frozen=True, kw_only=True):
    """Contents of a rejected announcement."""

    model: bytes
    attests: tuple[bytes, ...]


class ShownOpening(ChargePart, frozen=True, kw_only=True):
    """Contents of a rejected opening."""

    attempt: int
    members: tuple[messages.Name, ...]
    sharers: tuple[int, ...]
    added: tuple[int, ...]
    adverts: tuple[bytes, ...]
    receipts: tuple[bytes, ...]
    opened: bytes
    """Decrypted secrets."""
    vectors: bytes


class ShownStep(ChargePart, frozen=True, kw_only=True):
    """Contents of a rejected step."""

    previous: messages.RoundClaim
    params: bytes
    """Start of the round, as its digest covers it."""
    step: bytes
    """Decrypted sums and moments."""


Contents: TypeAlias = Announced | ShownOpening | ShownStep


class FalseClaim(ChargePart, frozen=True, kw_only=True):
    """A rejected claim, and signed values that it may contradict."""

    signed: SignedClaim
    earlier: tuple[SignedClaim, ...]
    """Accepted before."""
    endorsements: tuple[bytes, ...]
    """Certificate of the last round that the party can verify."""
    record: RoundPreimage | None
    contents: Contents


class Equivocation(ChargePart, frozen=True, kw_only=True, tag="TwoWords"):
    """Two conflicting frames signed by one party. Its tag in files is a former name."""

    first: bytes
    second: bytes


Charge: TypeAlias = FalseClaim | Equivocation | secure_sum.DealtSecrets


_encoder = msgspec.msgpack.Encoder()
_decoder: msgspec.msgpack.Decoder[Charge] = msgspec.msgpack.Decoder(Charge)


def encode_evidence(charge: Charge) -> bytes:
    """Return a charge as stored in a file."""
    return _encoder.encode(charge)


def parse_evidence(raw: bytes) -> Charge:
    """Return the charge in a file; raise ValueError without one in canonical encoding."""
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
    """Return how two messages signed by one party conflict; empty if both may be honest."""
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
