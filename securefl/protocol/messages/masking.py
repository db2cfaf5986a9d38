"""Messages of one instance of the pairwise-mask secure sum (protocol.md, steps 3 to 5)."""

from typing import Annotated

from msgspec import Meta

from securefl import scenario
from securefl.protocol.messages import base

_Path = Annotated[tuple[base.Digest, ...], Meta(max_length=16)]
_Digests = Annotated[tuple[base.Digest, ...], Meta(min_length=2, max_length=2 + scenario.MAX_COMPONENTS)]


class KeyAdvert(base.Message, frozen=True, kw_only=True):
    """Fresh public keys of a member, with hashes that commit to its secrets."""

    mask_key: base.Key
    """X25519 key for pairwise masks. Its private half is shared, and opened if the member drops out."""
    box_key: base.Key
    """X25519 key that seals share boxes; its private half is never opened."""
    seed_digest: base.Digest
    """Hash of the self-mask seed b."""
    shares_root: base.Digest
    """Root of a hash tree with one leaf per member: digests of its shares of b, mask key and noise."""
    noise_digests: Annotated[tuple[base.Digest, ...], Meta(max_length=scenario.MAX_COMPONENTS)] = ()
    """Hashes of the secrets of removable noise."""


class KeyList(base.Message, frozen=True, kw_only=True):
    """Signed adverts of this attempt."""

    adverts: Annotated[tuple[base.SignedFrame, ...], Meta(max_length=base.MAX_CLUSTER)]


class ShareBoxes(base.Message, frozen=True, kw_only=True):
    """Sealed shares of a member for each other member (by index)."""

    boxes: Annotated[tuple[tuple[int, base.Box], ...], Meta(max_length=base.MAX_CLUSTER)]
    share_digests: Annotated[tuple[_Digests, ...], Meta(min_length=1, max_length=base.MAX_CLUSTER)]
    """Leaves of the root, per member."""


class BoxList(base.Message, frozen=True, kw_only=True):
    """Boxes sealed to one member, by sealer. A member without a box is not counted."""

    boxes: Annotated[tuple[tuple[int, base.Box], ...], Meta(max_length=base.MAX_CLUSTER)]


class SharePair(base.Message, frozen=True, kw_only=True):
    """Plaintext of a box."""

    seed_share: base.Share
    key_share: base.Share
    path: _Path
    """Path from the recipient's leaf to the advertised root."""
    noise_shares: Annotated[tuple[base.Share, ...], Meta(max_length=scenario.MAX_COMPONENTS)] = ()


class Complaint(base.Message, frozen=True, kw_only=True):
    """Complaint to the server that the accused member's box does not match its advert.

    It has no proof, which would disclose the complainer's box key: a server that corrupts boxes in transit
    could collect enough keys to open a member (docs/protocol.md).
    """

    accused: base.Name


class Retry(base.Message, frozen=True, kw_only=True):
    """Restart with this subset of members, fresh keys and the next attempt number."""

    members: Annotated[tuple[base.Name, ...], Meta(min_length=1, max_length=base.MAX_CLUSTER)]


class MaskedInput(base.Message, frozen=True, kw_only=True):
    """Encoded update plus all masks, ring words in little endian."""

    vector: Annotated[bytes, Meta(max_length=base.MAX_VECTOR)]


class Receipt(base.Message, frozen=True, kw_only=True):
    """Receipt for the lists under which a masked input was made; relayed at the freeze."""

    lists_digest: base.Digest
    """Hash of the key list and of the members that share the masks."""


class VectorReceipt(Receipt, frozen=True, kw_only=True):
    """Receipt of a verified sum, with a hash of the masked input."""

    input_digest: base.Digest
