"""The secure sum itself, in CrypTen: everybody's words as arithmetic shares, added up without any message.

Each member's words become a tensor of shares (its own share of zero plus the words, everybody else's share of
zero), CrypTen adds the tensors, and what a member exports is its ``.share`` of the sum. The server adds what
is exported; it is no rank of the computation. CrypTen's ring is that of 64-bit words. A ring of 32 bits is
its quotient, so that shares are exported modulo 2^32 there and nothing is lost.

In the data flow: step 7.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, Literal

import numpy as np

from securefl.base.arrays import U64, Ring
from securefl.base.errors import UsageError
from securefl.base.ids import PartyId
from securefl.protocol.secure_sum.crypten.library import Library, device_of
from securefl.protocol.secure_sum.crypten.progress import Done
from securefl.protocol.secure_sum.crypten.session import Session
from securefl.protocol.secure_sum.crypten.world import World
from securefl.protocol.secure_sum.crypten.zeros import ZeroShares


class CryptenEngine:
    """Computes shares (:class:`~securefl.protocol.secure_sum.crypten.ports.Engine`) on one device."""

    def __init__(self, device: Literal["auto", "cpu", "cuda"] = "cpu") -> None:
        """Import CrypTen and find the device.

        Raises:
            ConfigError: CrypTen is missing, or the GPU that was asked for.
        """
        self.device = device_of(device)

    def share_of_sum(self, members: Sequence[PartyId], rank: int, zeros: ZeroShares, encoded: Ring) -> Ring:
        """See :class:`securefl.protocol.secure_sum.crypten.ports.Engine`."""
        world = World(members, rank, zeros, device=self.device)
        progress = Session(world, partial(share_of_sum, len(members), rank, encoded, self.device)).resume()
        if not isinstance(progress, Done):
            raise UsageError("the sum of shares waits for messages")
        return progress.result.copy()


def share_of_sum(size: int, rank: int, encoded: Ring, device: str, library: Library) -> Ring:
    """Run a member's part: share every member's words, add, export.

    Args:
        size: how many members.
        rank: of this one.
        encoded: its words, shape (d,).
        device: where shares are.
        library: CrypTen, with this member's globals in place.
    """
    own = library.torch.from_numpy(encoded.astype(np.uint64).view(np.int64)).to(device)
    total: Any = None
    for owner in range(size):
        zero = library.arithmetic.PRZS((encoded.size,), device=device)
        share = zero.share + own if owner == rank else zero.share
        shared = library.arithmetic.from_shares(share, precision=0)
        total = shared if total is None else total + shared
    exported: U64 = total.share.cpu().numpy().view(np.uint64)
    return exported.astype(np.uint32) if encoded.dtype == np.uint32 else exported
