"""Options of a simulation. Imports no torch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from securefl.runtime import process


@dataclass(frozen=True, kw_only=True)
class SimulationOptions(process.Options):
    """Options of a simulation, besides its scenario."""

    data_dir: Path | None = None
    exact: bool = False
    """Train party by party, to the bits of a run."""
    resume: bool = False
    like: Path | None = None
    """The folder of a recorded run whose absences, dropouts and void rounds it is to repeat."""
    maker: Callable[[str], Any] | None = None
    """Maker of each party's site; the one that ``site`` names if None."""
    again: tuple[str, ...] = ()
    """The command line without --out and --resume, to say how to go on after an interruption."""
