"""Messages of one instance of the pairwise-mask secure sum (protocol.md, steps 3 to 5).

``Place`` carries the instance: round, reclustering, cluster, attempt. Members are numbered by their index in
the sorted member list of the attempt.
"""

from typing import Annotated

from msgspec import Meta

from securefl import scenario
from securefl.protocol.messages import base

_Path = Annotated[tuple[base.Digest, ...], Meta(max_length=16)]
_Digests = Annotated[tuple[base.Digest, ...], Meta(min_length=2, max_length=2 + scenario.MAX_COMPONENTS)]


class KeyAdvert(base.Message, frozen=True, kw_only=True):
    """Member to server: fresh public keys of this attempt, and hashes that pin every secret behind them."""

    mask_key: base.Key
    """X25519; agrees on pairwise masks. Its private half is shared and opened if the member drops out."""
    box_key: base.Key
    """X25519; seals share boxes only, and is never opened."""
    seed_digest: base.Digest
    """Hash of the self-mask seed b."""
    shares_root: base.Digest
    """Root of the hash tree over the digests of all shares of b, mask key and noise, one leaf per member."""
    noise_digests: Annotated[tuple[base.Digest, ...], Meta(max_length=scenario.MAX_COMPONENTS)] = ()
    """Hashes of the secrets of removable noise, where there is such."""


class KeyList(base.Message, frozen=True, kw_only=True):
    """Server to members: the adverts of this attempt, as signed."""

    adverts: Annotated[tuple[base.SignedFrame, ...], Meta(max_length=base.MAX_CLUSTER)]


class ShareBoxes(base.Message, frozen=True, kw_only=True):
    """Member to server: for each other listed member (by index) a box with its shares."""

    boxes: Annotated[tuple[tuple[int, base.Box], ...], Meta(max_length=base.MAX_CLUSTER)]
    share_digests: Annotated[tuple[_Digests, ...], Meta(min_length=1, max_length=base.MAX_CLUSTER)]
    """Per member: digests of its shares of b, the mask key and each noise secret. The leaves of the root."""


class BoxList(base.Message, frozen=True, kw_only=True):
    """Server to one member: the boxes sealed to it, with the index of each sealer. No box: not counted."""

    boxes: Annotated[tuple[tuple[int, base.Box], ...], Meta(max_length=base.MAX_CLUSTER)]


class SharePair(base.Message, frozen=True, kw_only=True):
    """The plaintext of a box."""

    seed_share: base.Share
    key_share: base.Share
    path: _Path
    """From the recipient's leaf to the advertised root."""
    noise_shares: Annotated[tuple[base.Share, ...], Meta(max_length=scenario.MAX_COMPONENTS)] = ()


class Complaint(base.Message, frozen=True, kw_only=True):
    """Member to server: this member's box does not hold what it advertised.

    Deliberately without proof: a proof would disclose the complainer's box key, and a server that corrupts
    boxes in transit could collect enough of them to open a member (docs/protocol.md).
    """

    accused: base.Name


class Retry(base.Message, frozen=True, kw_only=True):
    """Server to members: start over with these members (a subset), fresh keys and the next attempt number."""

    members: Annotated[tuple[base.Name, ...], Meta(min_length=1, max_length=base.MAX_CLUSTER)]


class MaskedInput(base.Message, frozen=True, kw_only=True):
    """Member to server: the encoded update plus all masks, ring words in little endian."""

    vector: Annotated[bytes, Meta(max_length=base.MAX_VECTOR)]


class Receipt(base.Message, frozen=True, kw_only=True):
    """Member to server, with the masked input: which lists it was masked under. Relayed at the freeze."""

    lists_digest: base.Digest
    """Hash of the key list and of the set of members that the masks are shared with."""


class VectorReceipt(Receipt, frozen=True, kw_only=True):
    """A receipt where sums are verified: it also states which vector its sender has sent."""

    input_digest: base.Digest
    """Hash of the masked input (:func:`securefl.protocol.secure_sum.evidence.input_digest`)."""
