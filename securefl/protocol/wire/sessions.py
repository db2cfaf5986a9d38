"""Sessions of processes: random, and those of a server say which epoch of the run it leads (ADR 0054).

A session is 8 bytes in every header. A party's are random. A server's are the number of its epoch (4 bytes,
big-endian) and 4 random ones, so that two servers of one epoch tell themselves apart.
"""

from __future__ import annotations

from typing import Final

from securefl.base.entropy import Entropy
from securefl.base.errors import UsageError

SESSION: Final = 8
"""Bytes of a session."""
NOBODY: Final = b""
"""In place of the session of a server that leads: none is followed."""
ASKING: Final = 0
"""The epoch of a server that asks who is there: it leads nothing."""
MAX_EPOCH: Final = 2**32 - 1


def session_of_server(epoch: int, entropy: Entropy) -> bytes:
    """Return a fresh session of a server in an epoch.

    Raises:
        UsageError: the epoch is outside of 0 to ``MAX_EPOCH``.
    """
    if not ASKING <= epoch <= MAX_EPOCH:
        raise UsageError(f"epoch {epoch} outside [0, {MAX_EPOCH}]")
    return epoch.to_bytes(4, "big") + entropy.draw(4)


def epoch_of(session: bytes) -> int:
    """Return the epoch of a server's session; ``ASKING`` for :data:`NOBODY`."""
    return int.from_bytes(session[:4], "big")
