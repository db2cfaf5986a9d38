"""Messages of validated sums besides those of CrypTen (ADR 0024): triples, receipts, nonces and verdicts.

``KeyAdvert.shares_root`` commits to the sketch nonce.
"""

from typing import Annotated

from msgspec import Meta

from securefl import scenario
from securefl.protocol.messages import base

MemberNumber = Annotated[int, Meta(ge=0, lt=base.MAX_CLUSTER)]
Frames = Annotated[tuple[base.SignedFrame, ...], Meta(max_length=base.MAX_CLUSTER)]


class DealRequest(base.Message, frozen=True, kw_only=True):
    """Request for the triples of an attempt."""

    members: Annotated[tuple[base.Name, ...], Meta(max_length=base.MAX_CLUSTER)]
    adverts: Frames
    """Key list, as signed."""


class Dealt(base.Message, frozen=True, kw_only=True):
    """Triples of one member for all checks that it evaluates."""

    member: MemberNumber
    key: base.Key
    """Fresh X25519 key of the dealer for this box."""
    box: Annotated[bytes, Meta(min_length=28, max_length=scenario.DEAL_BYTES)]


class DealtTo(base.Message, frozen=True, kw_only=True):
    """Dealer's signed :class:`Dealt` for one member."""

    frame: base.SignedFrame


class OwnerDeal(base.Message, frozen=True, kw_only=True):
    """Triples of one check, inside ``Dealt.box``."""

    owner: MemberNumber
    seed: base.Key
    correction: Annotated[bytes, Meta(max_length=scenario.DEAL_BYTES)]


class Deals(base.Message, frozen=True, kw_only=True):
    """Plaintext of ``Dealt.box``."""

    checks: Annotated[tuple[OwnerDeal, ...], Meta(max_length=base.MAX_CLUSTER)]


class UpdateShareBox(base.Message, frozen=True, kw_only=True):
    """Plaintext of a ``PeerBox`` with a share of an update: a seed, or the words."""

    seed: Annotated[bytes, Meta(max_length=32)] = b""
    words: Annotated[bytes, Meta(max_length=base.MAX_VECTOR)] = b""


class CheckWords(base.Message, frozen=True, kw_only=True):
    """Plaintext of a ``PeerBox`` of a check: payloads of one step, numbered from ``PeerBox.number``."""

    payloads: Annotated[
        tuple[Annotated[bytes, Meta(max_length=scenario.DEAL_BYTES)], ...], Meta(max_length=16)
    ]


class Held(base.Message, frozen=True, kw_only=True):
    """Receipt for a share of every other member's update and for triples."""

    lists: base.Digest
    shares: base.Digest
    """Digest over the digests of all held shares, by owner."""


class HeldList(base.Message, frozen=True, kw_only=True):
    """Signed ``Held`` of all members; none may be missing."""

    receipts: Frames


class SketchNonce(base.Message, frozen=True, kw_only=True):
    """Nonce that the advert committed to."""

    nonce: base.Key


class SketchNonces(base.Message, frozen=True, kw_only=True):
    """Signed nonces of all members; none may be missing."""

    nonces: Frames


class Verdict(base.Message, frozen=True, kw_only=True):
    """Members whose updates passed the sender's checks."""

    accepted: Annotated[tuple[MemberNumber, ...], Meta(max_length=base.MAX_CLUSTER)]


class Verdicts(base.Message, frozen=True, kw_only=True):
    """Signed verdicts of all members; none may be missing."""

    verdicts: Frames
