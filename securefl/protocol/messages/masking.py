"""Messages of one instance of the pairwise-mask secure sum (protocol.md, steps 3 to 5).

``Place`` carries the instance: round, reclustering, cluster, attempt. Members are numbered by their index in
the sorted member list of the attempt.
"""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from securefl.protocol.messages.base import (
    MAX_CLUSTER,
    MAX_VECTOR,
    Box,
    Digest,
    Key,
    Message,
    Name,
    Share,
    SignedFrame,
)
from securefl.scenario import MAX_COMPONENTS

_Path = Annotated[tuple[Digest, ...], Meta(max_length=16)]
_Digests = Annotated[tuple[Digest, ...], Meta(min_length=2, max_length=2 + MAX_COMPONENTS)]


class KeyAdvert(Message, frozen=True, kw_only=True):
    """Member to server: fresh public keys of this attempt, and hashes that pin every secret behind them."""

    mask_key: Key
    """X25519; agrees on pairwise masks. Its private half is shared and opened if the member drops out."""
    box_key: Key
    """X25519; seals share boxes only, and is never opened."""
    seed_digest: Digest
    """Hash of the self-mask seed b."""
    shares_root: Digest
    """Root of the hash tree over the digests of all shares of b, mask key and noise, one leaf per member."""
    noise_digests: Annotated[tuple[Digest, ...], Meta(max_length=MAX_COMPONENTS)] = ()
    """Hashes of the secrets of removable noise, where there is such."""


class KeyList(Message, frozen=True, kw_only=True):
    """Server to members: the adverts of this attempt, as signed."""

    adverts: Annotated[tuple[SignedFrame, ...], Meta(max_length=MAX_CLUSTER)]


class ShareBoxes(Message, frozen=True, kw_only=True):
    """Member to server: for each other listed member (by index) a box with its shares."""

    boxes: Annotated[tuple[tuple[int, Box], ...], Meta(max_length=MAX_CLUSTER)]
    share_digests: Annotated[tuple[_Digests, ...], Meta(min_length=1, max_length=MAX_CLUSTER)]
    """Per member: digests of its shares of b, the mask key and each noise secret. The leaves of the root."""


class BoxList(Message, frozen=True, kw_only=True):
    """Server to one member: the boxes sealed to it, with the index of each sealer. No box: not counted."""

    boxes: Annotated[tuple[tuple[int, Box], ...], Meta(max_length=MAX_CLUSTER)]


class SharePair(Message, frozen=True, kw_only=True):
    """The plaintext of a box."""

    seed_share: Share
    key_share: Share
    path: _Path
    """From the recipient's leaf to the advertised root."""
    noise_shares: Annotated[tuple[Share, ...], Meta(max_length=MAX_COMPONENTS)] = ()


class Complaint(Message, frozen=True, kw_only=True):
    """Member to server: this member's box does not hold what it advertised.

    Deliberately without proof: a proof would disclose the complainer's box key, and a server that corrupts
    boxes in transit could collect enough of them to open a member (docs/protocol.md).
    """

    accused: Name


class Retry(Message, frozen=True, kw_only=True):
    """Server to members: start over with these members (a subset), fresh keys and the next attempt number."""

    members: Annotated[tuple[Name, ...], Meta(min_length=1, max_length=MAX_CLUSTER)]


class MaskedInput(Message, frozen=True, kw_only=True):
    """Member to server: the encoded update plus all masks, ring words in little endian."""

    vector: Annotated[bytes, Meta(max_length=MAX_VECTOR)]


class Receipt(Message, frozen=True, kw_only=True):
    """Member to server, with the masked input: which lists it was masked under. Relayed at the freeze."""

    lists_digest: Digest
    """Hash of the key list and of the set of members that the masks are shared with."""


class VectorReceipt(Receipt, frozen=True, kw_only=True):
    """A receipt where sums are verified: it also states which vector its sender has sent."""

    input_digest: Digest
    """Hash of the masked input (:func:`securefl.protocol.secure_sum.evidence.input_digest`)."""
