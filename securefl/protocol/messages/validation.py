"""Messages of validated sums beyond those of CrypTen (ADR 0024): triples, receipts, nonces and verdicts.

Shares of updates and the words of checks travel as :class:`securefl.protocol.messages.crypten.PeerBox`.
``KeyAdvert.shares_root`` holds the commitment to the sketch nonce.
"""

from typing import Annotated

from msgspec import Meta

from securefl import scenario
from securefl.protocol.messages import base

MemberNumber = Annotated[int, Meta(ge=0, lt=base.MAX_CLUSTER)]
Frames = Annotated[tuple[base.SignedFrame, ...], Meta(max_length=base.MAX_CLUSTER)]


class DealRequest(base.Message, frozen=True, kw_only=True):
    """Server to dealer: these members of an attempt are about to check each other."""

    members: Annotated[tuple[base.Name, ...], Meta(max_length=base.MAX_CLUSTER)]
    """All members of the attempt; their places are their numbers."""
    adverts: Frames
    """The key list, as signed."""


class Dealt(base.Message, frozen=True, kw_only=True):
    """Dealer to server: one member's triples for all checks that it evaluates."""

    member: MemberNumber
    key: base.Key
    """The dealer's fresh X25519 key for this box."""
    box: Annotated[bytes, Meta(min_length=28, max_length=scenario.DEAL_BYTES)]


class DealtTo(base.Message, frozen=True, kw_only=True):
    """Server to one member: what the dealer dealt it, as signed."""

    frame: base.SignedFrame


class OwnerDeal(base.Message, frozen=True, kw_only=True):
    """Inside ``Dealt.box``: the triples of one check."""

    owner: MemberNumber
    seed: base.Key
    correction: Annotated[bytes, Meta(max_length=scenario.DEAL_BYTES)]


class Deals(base.Message, frozen=True, kw_only=True):
    """The plaintext of ``Dealt.box``."""

    checks: Annotated[tuple[OwnerDeal, ...], Meta(max_length=base.MAX_CLUSTER)]


class UpdateShareBox(base.Message, frozen=True, kw_only=True):
    """The plaintext of the ``PeerBox`` that brings a share of an update: a seed, or its words."""

    seed: Annotated[bytes, Meta(max_length=32)] = b""
    words: Annotated[bytes, Meta(max_length=base.MAX_VECTOR)] = b""


class CheckWords(base.Message, frozen=True, kw_only=True):
    """The plaintext of a ``PeerBox`` of a check: what one step of it says to one evaluator.

    ``PeerBox.number`` is that of the first one; the others follow.
    """

    payloads: Annotated[
        tuple[Annotated[bytes, Meta(max_length=scenario.DEAL_BYTES)], ...], Meta(max_length=16)
    ]


class Held(base.Message, frozen=True, kw_only=True):
    """Member to server, for all: I hold a share of every other member's update, and my triples."""

    lists: base.Digest
    """What the attempt's keys are bound to, as the sender sees it."""
    shares: base.Digest
    """Over the digests of all shares held, by owner."""


class HeldList(base.Message, frozen=True, kw_only=True):
    """Server to members: everybody's ``Held``, as signed. None may be missing."""

    receipts: Frames


class SketchNonce(base.Message, frozen=True, kw_only=True):
    """Member to server, for all: the nonce that the advert committed to."""

    nonce: base.Key


class SketchNonces(base.Message, frozen=True, kw_only=True):
    """Server to members: everybody's nonce, as signed. None may be missing."""

    nonces: Frames


class Verdict(base.Message, frozen=True, kw_only=True):
    """Member to server, for all: whose updates passed the checks that the sender took part in."""

    accepted: Annotated[tuple[MemberNumber, ...], Meta(max_length=base.MAX_CLUSTER)]


class Verdicts(base.Message, frozen=True, kw_only=True):
    """Server to members: everybody's verdict, as signed. None may be missing."""

    verdicts: Frames
