"""Charges: what convinces somebody who was not there that a machine broke the protocol (ADR 0044, Evidence).

A charge holds what was signed, and preimages of digests that were. It is no message; whoever finds a culprit
keeps it.
"""

from __future__ import annotations

from msgspec import Struct

from securefl.protocol.messages import Message, RoundClaim


class ChargePart(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, array_like=True, tag=True):
    """Base of what charges consist of: a closed set of fields, and a ``repr`` of sizes only."""

    __repr__ = Message.__repr__


class SignedClaim(ChargePart, frozen=True, kw_only=True):
    """A claim as the server signed it in a proof, or in an announcement."""

    claim: RoundClaim
    place: tuple[int, int, int, int]
    """Round, reclustering, cluster, attempt: of the sum or the step that is proven; of the draw whose
    announcement it is. The round is the claim's exactly in proofs."""
    contents: bytes
    """Digest of what is proven, or of the model and the attests that are announced."""
    signature: bytes
