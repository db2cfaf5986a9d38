"""Messages of validated sums beyond those of CrypTen (ADR 0024): triples, receipts, nonces and verdicts.

Shares of updates and the words of checks travel as :class:`securefl.protocol.messages.crypten.PeerBox`.
``KeyAdvert.shares_root`` holds the commitment to the sketch nonce.
"""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from securefl.protocol.messages.base import MAX_CLUSTER, MAX_VECTOR, Digest, Key, Message, Name, SignedFrame
from securefl.scenario import DEAL_BYTES

MemberNumber = Annotated[int, Meta(ge=0, lt=MAX_CLUSTER)]
Frames = Annotated[tuple[SignedFrame, ...], Meta(max_length=MAX_CLUSTER)]


class DealRequest(Message, frozen=True, kw_only=True):
    """Server to dealer: these members of an attempt are about to check each other."""

    members: Annotated[tuple[Name, ...], Meta(max_length=MAX_CLUSTER)]
    """All members of the attempt; their places are their numbers."""
    adverts: Frames
    """The key list, as signed."""


class Dealt(Message, frozen=True, kw_only=True):
    """Dealer to server: one member's triples for all checks that it evaluates."""

    member: MemberNumber
    key: Key
    """The dealer's fresh X25519 key for this box."""
    box: Annotated[bytes, Meta(min_length=28, max_length=DEAL_BYTES)]


class DealtTo(Message, frozen=True, kw_only=True):
    """Server to one member: what the dealer dealt it, as signed."""

    frame: SignedFrame


class OwnerDeal(Message, frozen=True, kw_only=True):
    """Inside ``Dealt.box``: the triples of one check."""

    owner: MemberNumber
    seed: Key
    correction: Annotated[bytes, Meta(max_length=DEAL_BYTES)]


class Deals(Message, frozen=True, kw_only=True):
    """The plaintext of ``Dealt.box``."""

    checks: Annotated[tuple[OwnerDeal, ...], Meta(max_length=MAX_CLUSTER)]


class UpdateShareBox(Message, frozen=True, kw_only=True):
    """The plaintext of the ``PeerBox`` that brings a share of an update: a seed, or its words."""

    seed: Annotated[bytes, Meta(max_length=32)] = b""
    words: Annotated[bytes, Meta(max_length=MAX_VECTOR)] = b""


class CheckWords(Message, frozen=True, kw_only=True):
    """The plaintext of a ``PeerBox`` of a check: what one step of it says to one evaluator.

    ``PeerBox.number`` is that of the first one; the others follow.
    """

    payloads: Annotated[tuple[Annotated[bytes, Meta(max_length=DEAL_BYTES)], ...], Meta(max_length=16)]


class Held(Message, frozen=True, kw_only=True):
    """Member to server, for all: I hold a share of every other member's update, and my triples."""

    lists: Digest
    """What the attempt's keys are bound to, as the sender sees it."""
    shares: Digest
    """Over the digests of all shares held, by owner."""


class HeldList(Message, frozen=True, kw_only=True):
    """Server to members: everybody's ``Held``, as signed. None may be missing."""

    receipts: Frames


class SketchNonce(Message, frozen=True, kw_only=True):
    """Member to server, for all: the nonce that the advert committed to."""

    nonce: Key


class SketchNonces(Message, frozen=True, kw_only=True):
    """Server to members: everybody's nonce, as signed. None may be missing."""

    nonces: Frames


class Verdict(Message, frozen=True, kw_only=True):
    """Member to server, for all: whose updates passed the checks that the sender took part in."""

    accepted: Annotated[tuple[MemberNumber, ...], Meta(max_length=MAX_CLUSTER)]


class Verdicts(Message, frozen=True, kw_only=True):
    """Server to members: everybody's verdict, as signed. None may be missing."""

    verdicts: Frames
