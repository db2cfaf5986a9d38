"""Records of soaks: what was sampled of each process while its rounds went by, and how they ended."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct

SERVER: Final = "server"


class Soak(Struct, frozen=True, forbid_unknown_fields=True):
    """What a soak is of."""

    rounds: int
    kill_every: int = 0
    """Rounds between two kills of the server; 0 for none."""
    parties: int = 6
    size: int = 3
    """Of clusters. In pairs 6 parties may refuse the rounds after a void one, which repeat its model."""
    megabytes: int = 1
    """What the transcripts of a process may take (``--transcript-megabytes``)."""

    @property
    def name(self) -> str:
        """Of its folder."""
        killed = f"-killed-every-{self.kill_every}" if self.kill_every else ""
        return f"{self.parties}-parties-{self.rounds}-rounds{killed}"


class Sample(Struct, frozen=True):
    """One process at one moment."""

    name: str
    start: int
    """How many of this name were started before."""
    round: int
    """Rounds that had ended."""
    since: int
    """Rounds that have ended since it was started."""
    rss: int
    """Bytes of resident memory."""
    own: int
    """Bytes of memory that no other process shares, swapped out or not."""
    cpu: float
    """Seconds of computation since it was started."""
    handles: int
    threads: int
    files: dict[str, int]
    """Bytes on disk by kind of file."""


class Soaked(Struct, frozen=True):
    """A soak that has ended."""

    soak: Soak
    samples: tuple[Sample, ...]
    seconds: tuple[float, ...]
    """Of each round, as its server told it."""
    rounds: tuple[int, ...]
    """Their numbers."""
    void: tuple[int, ...]
    """Those that made no model."""
    killed: tuple[int, ...]
    """Rounds that had ended each time when the server was killed."""
    exits: dict[str, tuple[int, ...]]
    """Exit codes of all starts by name; a signal's is negative."""
    hours: float
    loads: tuple[float, ...]
    """Load averages of the machine, each time when samples were taken."""
    machine: str


def read_soaked(path: Path) -> Soaked | None:
    """A soak that has been written out; None where there is none."""
    return msgspec.json.decode(path.read_bytes(), type=Soaked) if path.exists() else None


def write_soaked(path: Path, soaked: Soaked) -> None:
    """Write a soak out."""
    partial = path.with_suffix(".part")
    partial.write_bytes(msgspec.json.encode(soaked))
    partial.replace(path)
