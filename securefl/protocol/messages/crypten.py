"""Messages of CrypTen sums beyond those of masking (:mod:`securefl.protocol.messages.masking`).

Keys, key lists, retries, inputs and receipts are those of masking. ``KeyAdvert.shares_root`` is a constant
where no secrets are shared.
"""

from typing import Annotated

from msgspec import Meta

from securefl.protocol.messages import base


class PeerBox(base.Message, frozen=True, kw_only=True):
    """Member to server to member: one message of a computation, sealed for the other member.

    The server passes it on in its own name and cannot read it; what it holds is authentic because only the
    two members know the key.
    """

    peer: Annotated[int, Meta(ge=0, lt=base.MAX_CLUSTER)]
    """Member number of the receiver on the way to the server, of the sender on the way from it."""
    number: Annotated[int, Meta(ge=0, lt=2**31)]
    """From 0, for each ordered pair of members."""
    box: Annotated[bytes, Meta(min_length=28, max_length=base.MAX_VECTOR)]


class InstanceSeed(base.Message, frozen=True, kw_only=True):
    """Inside ``Release``: the seed of the sender's own blind in one instance."""

    reclustering: Annotated[int, Meta(ge=0)]
    cluster: Annotated[int, Meta(ge=0)]
    attempt: Annotated[int, Meta(ge=0, le=8)]
    seed: base.Digest
