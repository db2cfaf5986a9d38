"""What is kept of a table or figure that was run: its cells beside the paper's numbers, as JSON."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import msgspec
from msgspec import Struct

from securefl.errors import ConfigError
from securefl.reproduce.comparison import JOINT
from securefl.reproduce.figure import ScaleName
from securefl.reproduce.freshness import fingerprint
from securefl.reproduce.judging import Verdict
from securefl.reproduce.record import SeedRecord
from securefl.reproduce.sheets.study import Kind, Place, Shows
from securefl.reproduce.task_groups import GroupsRecord, found_of, heard_of, losses_of

_OF_SPLITS = {
    "labels": "distance of a worker's classes from everybody's (total variation), mean over the workers",
    "sizes": "share of all samples that the two largest parties hold",
    "caps": "share of all samples that truncation leaves",
}


class AxisRecord(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What was varied, and to what in this run."""

    name: str
    choices: tuple[str, ...]


class CellRecord(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One cell. Without ``final`` there is no result, and ``refused`` says why."""

    label: str
    place: Place
    baseline: bool
    scenario: str = ""
    """Digest of its scenario."""
    rounds: int = 0
    parties: int = 0
    asked: str = ""
    """Of privacy, what the scenario asks for: ``epsilon = 2 per record, local noise``, or ``none``; nothing
    where nothing is trained."""
    final: float | None = None
    """Mean accuracy over the last rounds and the seeds."""
    low: float | None = None
    """Of the worst seed."""
    high: float | None = None
    refused: str = ""
    published: float | None = None
    spread: float | None = None
    """What the paper prints behind its plus-minus sign."""
    seeds: tuple[SeedRecord, ...] = ()
    shares: tuple[tuple[float, ...], ...] = ()
    """Of a split, with the first seed. ``labels``: by party, and last of all together, the share of each
    class. ``sizes``: one row, everybody's samples. ``caps``: a row of alphas and one of caps."""

    @property
    def groups(self) -> tuple[GroupsRecord, ...]:
        """What became of task groups, by seed; empty where there are none."""
        return tuple(seed.groups for seed in self.seeds if seed.groups is not None)

    @property
    def difference(self) -> float | None:
        """Ours minus the paper's."""
        if self.final is None or self.published is None:
            return None
        return self.final - self.published

    def agrees(self, tolerance: float) -> bool | None:
        """Whether it is as published, within the larger of ``tolerance`` and the spread; None: no numbers."""
        if self.difference is None:
            return None
        # The paper prints two digits, so that a difference of exactly the tolerance is none of rounding's.
        return abs(self.difference) <= max(tolerance, self.spread or 0.0) + 1e-9


class SheetRecord(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One table or figure on one data set at one scale."""

    format: int
    paper: str
    kind: Kind
    number: str
    dataset: str
    scale: ScaleName
    title: str
    settings: str
    """Digest of cells, claims and published numbers, seeds apart."""
    note: str
    """What the scale leaves out or replaces."""
    shows: Shows
    axes: tuple[AxisRecord, ...]
    last: int
    tolerance: float
    leakage_reported: bool
    cells: tuple[CellRecord, ...]
    verdicts: tuple[Verdict, ...]
    unjudged: tuple[str, ...]
    """Claims about cells that were not run, each with the reason."""
    seconds: float
    """Computing time of all simulations together."""
    jobs: int
    versions: dict[str, str]

    @property
    def stem(self) -> str:
        """Of the names of its files."""
        return f"{self.kind}-{self.number}-{self.dataset}-{self.scale}"

    @property
    def fingerprint(self) -> str:
        """Of all its accuracies."""
        return fingerprint({cell.label: [seed.accuracies for seed in cell.seeds] for cell in self.cells})

    @property
    def seeds(self) -> int:
        """Simulations per cell."""
        return max((len(cell.seeds) for cell in self.cells), default=0)

    @property
    def refusals(self) -> tuple[str, ...]:
        """A line per reason: the cells that were refused for it."""
        reasons = dict.fromkeys(cell.refused for cell in self.cells if cell.refused)
        labels = {why: [cell.label for cell in self.cells if cell.refused == why] for why in reasons}
        return tuple(f"{'; '.join(labels[why])}: refused, {why}" for why in reasons)

    @property
    def losses(self) -> tuple[str, ...]:
        """A line per cell in which task groups were lost or idle: why."""
        said = ((cell.label, losses_of(cell.groups)) for cell in self.cells)
        return tuple(f"groups lost or idle, {label}: {why}" for label, why in said if why)

    @property
    def measure(self) -> str:
        """What the numbers are."""
        if self.shows in _OF_SPLITS:
            return _OF_SPLITS[self.shows]
        rounds = sorted({cell.rounds for cell in self.cells if cell.seeds})
        span = "-".join(f"{one:,}" for one in dict.fromkeys((rounds[0], rounds[-1]))) if rounds else "no"
        return f"accuracy on the test set, mean of the last {self.last} of {span} rounds"

    @property
    def titles(self) -> tuple[str, ...]:
        """Of the data, as their loader gives them, each once."""
        return tuple(sorted({seed.dataset for cell in self.cells for seed in cell.seeds}))

    @property
    def within(self) -> tuple[int, int]:
        """Cells that are as published, and cells of which the paper has a number."""
        known = [agrees for cell in self.cells if (agrees := cell.agrees(self.tolerance)) is not None]
        return sum(known), len(known)

    def agreement(self) -> str:
        """:attr:`within` in words."""
        within, known = self.within
        if not known:
            return "no published numbers"
        return f"{within} of {known} cells within {self.tolerance:g} of the paper's number"


@dataclass(frozen=True, slots=True)
class Grid:
    """The cells row by row: the last axis gives the columns, all others the rows."""

    row_name: str
    column_name: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, tuple[CellRecord, ...]], ...]
    """With one axis there is a single row without a name."""


def grid(record: SheetRecord) -> Grid:
    """The record as a table."""
    *others, across = record.axes
    rows: dict[str, list[CellRecord]] = {}
    for cell in record.cells:
        rows.setdefault(JOINT.join(cell.place[:-1]), []).append(cell)
    return Grid(
        JOINT.join(axis.name for axis in others),
        across.name,
        across.choices,
        tuple((name, tuple(cells)) for name, cells in rows.items()),
    )


def value(cell: CellRecord) -> str:
    """The final accuracy for people: ``0.912``, or ``0.912 [0.908, 0.915]`` of several seeds.

    Of task groups also how many were found, and how many updates were heard.
    """
    if cell.final is None:
        return "refused" if cell.refused else "-"
    span = f" [{cell.low:.3f}, {cell.high:.3f}]" if len(cell.seeds) > 1 else ""
    groups = f"; {found_of(cell.groups)}, {heard_of(cell.groups)}" if cell.groups else ""
    return f"{cell.final:.3f}{span}{groups}"


def read_sheet_record(path: Path) -> SheetRecord:
    """A table or figure that was run before.

    Raises:
        ConfigError: the file cannot be read or holds no such record.
    """
    try:
        return msgspec.json.decode(path.read_bytes(), type=SheetRecord)
    except OSError as error:
        raise ConfigError(str(path), f"cannot be read: {error.strerror}") from error
    except msgspec.DecodeError as error:
        raise ConfigError(str(path), f"holds no table: {error}", "remove it and run it again") from error


def read_sheet_records(folder: Path) -> tuple[SheetRecord, ...]:
    """All tables and figures in a folder.

    Raises:
        ConfigError: one of the files is no such record.
    """
    return tuple(read_sheet_record(path) for path in sorted(folder.glob("*.json")))
