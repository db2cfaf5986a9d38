"""Messages of CrypTen sums; others are those of :mod:`securefl.protocol.messages.masking`.

``KeyAdvert.shares_root`` is a constant if no secrets are shared.
"""

from typing import Annotated

from msgspec import Meta

from securefl.protocol.messages import base


class PeerBox(base.Message, frozen=True, kw_only=True):
    """Message between two members, sealed with their key; the server relays it in its own name."""

    peer: Annotated[int, Meta(ge=0, lt=base.MAX_CLUSTER)]
    """Receiver's member number on the way to the server, then the sender's."""
    number: Annotated[int, Meta(ge=0, lt=2**31)]
    """From 0 for each ordered pair of members."""
    box: Annotated[bytes, Meta(min_length=28, max_length=base.MAX_VECTOR)]


class InstanceSeed(base.Message, frozen=True, kw_only=True):
    """Seed of the sender's own blind in one instance, inside ``Release``."""

    reclustering: Annotated[int, Meta(ge=0)]
    cluster: Annotated[int, Meta(ge=0)]
    attempt: Annotated[int, Meta(ge=0, le=8)]
    seed: base.Digest
