"""Meter of one process in a secure sum: CPU seconds by stage, frames, bytes."""

import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from securefl.protocol import wire


@dataclass(slots=True)
class Meter:
    """Totals of a member or the server. Seconds are CPU time of the thread."""

    seconds: dict[str, float] = field(default_factory=dict)
    """By stage, in order of the first call."""
    sent: int = 0
    """Bytes of frames, signatures included."""
    received: int = 0
    signatures: int = 0
    verifications: int = 0
    hashed: int = 0

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Add the CPU time of the block to a stage."""
        start = time.thread_time()
        try:
            yield
        finally:
            self.seconds[name] = self.seconds.get(name, 0.0) + time.thread_time() - start

    def count_signed(self, frames: Iterable[bytes]) -> None:
        """Count frames that were signed and sent."""
        for frame in frames:
            self.sent += len(frame)
            self.signatures += 1
            self.hashed += len(frame) - wire.SIGNATURE

    def count_verified(self, frame: bytes) -> None:
        """Count a received and verified frame."""
        self.received += len(frame)
        self.count_relayed(frame)

    def count_relayed(self, frame: bytes) -> None:
        """Count a frame verified inside another one."""
        self.verifications += 1
        self.hashed += len(frame) - wire.SIGNATURE
