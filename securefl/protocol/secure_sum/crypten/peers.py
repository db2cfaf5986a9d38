"""Sealed messages between members of a computation, and the CrypTen sum itself (data flow, step 7).

In the sum, each member's words become arithmetic shares: its own share of zero plus the words, and the
others' shares of zero. CrypTen adds these without any message; the server, no rank of the computation, adds
the exported ``.share`` of each member. A ring of 32 bits is a quotient of CrypTen's ring of 64, so shares are
exported modulo 2^32 without loss.
"""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Literal

import numpy as np

from securefl.base import crypto
from securefl.base.arrays import U64, Ring
from securefl.base.entropy import Entropy
from securefl.base.errors import PeerError, UsageError
from securefl.base.ids import PartyId
from securefl.protocol.secure_sum.crypten.library import Library, device_of
from securefl.protocol.secure_sum.crypten.progress import Done
from securefl.protocol.secure_sum.crypten.session import Session
from securefl.protocol.secure_sum.crypten.world import World
from securefl.protocol.secure_sum.crypten.zeros import ZeroShares


class Peers:
    """Sealed channels of one member to all others in one attempt.

    Each pair derives one key per direction (X25519). A box is bound to the attempt, sender, receiver and
    number.
    """

    def __init__(
        self, me: int, box: crypto.KeyPair, others: Mapping[int, tuple[PartyId, bytes]], context: bytes
    ) -> None:
        """Agree on two keys with each of ``others``: name and public box key, by member number.

        Both ends must agree on ``context``: attempt, key list, model and configuration.

        Raises:
            PeerError: a public key of low order.
        """
        self._me = me
        self._context = context
        self._names = {other: name for other, (name, _) in others.items()}
        self._keys: dict[int, tuple[bytes, bytes]] = {}
        for other, (name, public) in others.items():
            try:
                sealer, opener = box.agree(public, context, f"peer {me} to {other}", f"peer {other} to {me}")
            except crypto.BadKeyError as error:
                raise PeerError(name, f"advertised a bad box key ({error})") from error
            self._keys[other] = sealer, opener

    def __repr__(self) -> str:
        return f"Peers(member {self._me} of {len(self._keys) + 1})"

    def seal(self, to: int, number: int, payload: bytes, entropy: Entropy) -> bytes:
        """Return message ``number`` sealed to member ``to``, 28 bytes longer."""
        return crypto.seal_box(self._keys[to][0], payload, self._place(self._me, to, number), entropy)

    def open(self, sender: int, number: int, box: bytes) -> bytes:
        """Return the plaintext of a box sealed by ``sender``; PeerError if it does not open."""
        if sender not in self._keys:
            raise PeerError(f"member {sender}", "is not another member of this computation")
        try:
            return crypto.open_box(self._keys[sender][1], box, self._place(sender, self._me, number))
        except crypto.BoxError as error:
            raise PeerError(self._names[sender], f"its message {number} cannot be decrypted") from error

    def _place(self, sender: int, receiver: int, number: int) -> bytes:
        return crypto.encode("peer message", self._context, sender, receiver, number)


class CryptenEngine:
    """:class:`~securefl.protocol.secure_sum.crypten.ports.Engine` on one device."""

    def __init__(self, device: Literal["auto", "cpu", "cuda"] = "cpu") -> None:
        """Import CrypTen and find the device.

        Raises:
            ConfigError: CrypTen or the requested GPU is missing.
        """
        self.device = device_of(device)

    def share_of_sum(self, members: Sequence[PartyId], rank: int, zeros: ZeroShares, encoded: Ring) -> Ring:
        """See :class:`securefl.protocol.secure_sum.crypten.ports.Engine`."""
        world = World(members, rank, zeros, device=self.device)
        progress = Session(world, partial(share_of_sum, len(members), rank, encoded, self.device)).resume()
        if not isinstance(progress, Done):
            raise UsageError(
                "the sum of shares must end without waiting for messages: it waits, a bug in securefl"
            )
        return progress.result.copy()


def share_of_sum(size: int, rank: int, encoded: Ring, device: str, library: Library) -> Ring:
    """Share every member's words, add them, and export this member's share, shape (d,)."""
    own = library.torch.from_numpy(encoded.astype(np.uint64).view(np.int64)).to(device)
    total: Any = None
    for owner in range(size):
        zero = library.arithmetic.PRZS((encoded.size,), device=device)
        share = zero.share + own if owner == rank else zero.share
        shared = library.arithmetic.from_shares(share, precision=0)
        total = shared if total is None else total + shared
    exported: U64 = total.share.cpu().numpy().view(np.uint64)
    return exported.astype(np.uint32) if encoded.dtype == np.uint32 else exported
