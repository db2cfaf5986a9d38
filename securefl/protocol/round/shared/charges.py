"""Charges: what convinces somebody who was not there that a machine broke the protocol (ADR 0044, Evidence).

A charge holds what was signed, and preimages of digests that were. It is no message; whoever finds a culprit
keeps it.
"""

from __future__ import annotations

from typing import TypeAlias

import msgspec
from msgspec import Struct

from securefl.base import crypto
from securefl.protocol import messages


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


class TwoClaims(ChargePart, frozen=True, kw_only=True):
    """Two claims of the server that cannot both be honest."""

    first: SignedClaim
    second: SignedClaim


class OtherStatement(ChargePart, frozen=True, kw_only=True):
    """A claim about another statement than a quorum of parties has endorsed for its round."""

    signed: SignedClaim
    endorsements: tuple[bytes, ...]
    """Frames."""


class OtherParts(ChargePart, frozen=True, kw_only=True):
    """A claim about other sums than all that were certified."""

    signed: SignedClaim
    record: RoundPreimage


class BadAnnouncement(ChargePart, frozen=True, kw_only=True):
    """An announcement of a model that nobody may train on."""

    signed: SignedClaim
    model: bytes
    """Digest of the model that was sent."""
    attests: tuple[bytes, ...]
    """Frames."""
    record: RoundPreimage | None
    """Of the round whose claim is announced; None where it takes none to convict."""


class BadOpening(ChargePart, frozen=True, kw_only=True):
    """A proof of a sum that the claimed sum does not follow from."""

    signed: SignedClaim
    record: RoundPreimage
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


class BadStep(ChargePart, frozen=True, kw_only=True):
    """A proof of a step that the claimed model or state does not follow from."""

    signed: SignedClaim
    record: RoundPreimage
    previous: messages.RoundClaim
    params: bytes
    """Models and clip of the round, as their digest covers them."""
    step: bytes
    """Sums and moments, as they were before they were sealed."""


class TwoWords(ChargePart, frozen=True, kw_only=True):
    """Two frames of one party that no honest one signs both of."""

    first: bytes
    second: bytes


class BadDeal(ChargePart, frozen=True, kw_only=True):
    """Shares that their owner has pinned, and that do not make the secret which it has advertised."""

    advert: bytes
    """Frame."""
    members: tuple[messages.Name, ...]
    kind: int
    """Of the secret: 0 for the seed, 1 for the mask key, then noise."""
    digests: tuple[tuple[bytes, ...], ...]
    """Of all shares, by holder and kind."""
    shares: tuple[tuple[int, bytes], ...]
    """By holder's number, as many as open the secret."""


Charge: TypeAlias = (
    TwoClaims | OtherStatement | OtherParts | BadAnnouncement | BadOpening | BadStep | TwoWords | BadDeal
)
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


def charge_digest(charge: Charge) -> bytes:
    """Return the digest (32 bytes) that a transcript names a charge by."""
    return crypto.digest("charge", charge_bytes(charge))
