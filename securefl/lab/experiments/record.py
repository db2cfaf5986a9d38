"""Record of an experiment's run: a JSON file, the source of lists, pages and pictures."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import stdev
from typing import Final

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from securefl.base import crypto, files, sums
from securefl.base.errors import ConfigError, RunAbortedError
from securefl.lab.experiments import claims, experiment, task_groups
from securefl.lab.experiments.freshness import fingerprint
from securefl.lab.experiments.provenance import refuse_mixed
from securefl.scenario import Scenario, chosen_fields, own_sources

FORMAT = 1
"""Format of simulations, raised if equal scenarios would give other numbers."""
LEAKAGE_REPORTED: Final = "LEAKAGE ONLY REPORTED: sums cross the published limits"
_OF_SPLITS: Final = {
    "labels": "distance of a worker's classes from those of all (total variation), mean over the workers",
    "sizes": "share of all samples that the two largest parties hold",
    "caps": "share of all samples that truncation leaves",
}


class SeedRecord(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """One simulation, or one draw of a problem, of clusters or of a split."""

    seed: int
    accuracies: claims.Accuracies
    """Test accuracies by round; an untested round has the last tested one. For a drawn problem, the number
    that claims are about, if any.
    """
    ended: str = ""
    """Reason of an early end: destroyed, aborted."""
    seconds: float = 0.0
    """CPU time. Elapsed time on a GPU, and in results without a commit or of commits before dcdf77ec."""
    device: str = ""
    dataset: str = ""
    values: dict[str, float] = {}
    epsilon: float | None = None
    """Epsilon of a party in all rounds, had its noise been secret; None without protecting noise."""
    guarantee: str = ""
    """Epsilon with unit, neighbouring relation, sampler, denominator and delta, or the reason why there is
    none.
    """
    tested_every: int = 1
    """Rounds between tests, before the last ``last`` ones."""
    groups: task_groups.GroupsRecord | None = None
    """None with unknown members."""
    commit: str = ""
    """Commit that computed it; empty if unknown."""
    draws: str = ""
    """Digest under which clusters were drawn; empty if not recorded."""

    @property
    def numbers(self) -> tuple[float, ...]:
        """All measurements except times."""
        return tuple(self.values.values()) or self.accuracies


class AxisRecord(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Varied setting, and its values in this run."""

    name: str
    choices: tuple[str, ...]


class CellRecord(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """Cell. Without ``final`` there is no result, and ``refused`` is the reason."""

    label: str
    place: experiment.Place
    """Choice of each axis; empty for a cell apart."""
    baseline: bool = False
    scenario: str = ""
    rounds: int = 0
    parties: int = 0
    asked: str = ""
    """Requested privacy: ``epsilon = 2 per record, local noise``, or ``none``; empty without training."""
    final: float | None = None
    """Mean accuracy over last rounds and seeds."""
    refused: str = ""
    published: float | None = None
    spread: float | None = None
    """Number behind the paper's plus-minus sign."""
    text: str = ""
    marked: bool = False
    seeds: tuple[SeedRecord, ...] = ()
    shares: tuple[tuple[float, ...], ...] = ()
    """Split with the first seed. ``labels``: class shares by party, last of all together. ``sizes``: samples
    by party. ``caps``: rows of alphas and caps.
    """
    values: dict[str, float] = {}

    def finals(self, last: int) -> tuple[float, ...]:
        """Return the mean of the ``last`` rounds of each seed with numbers."""
        known = (seed.accuracies for seed in self.seeds if seed.accuracies)
        return tuple(claims.measure_curve(one, "final", last, self.rounds) for one in known)

    def deviation(self, last: int) -> float | None:
        """Return the sample standard deviation over seeds; None with fewer than two."""
        finals = self.finals(last)
        return stdev(finals) if len(finals) > 1 else None

    @property
    def groups(self) -> tuple[task_groups.GroupsRecord, ...]:
        """Outcomes of task groups by seed."""
        return tuple(seed.groups for seed in self.seeds if seed.groups is not None)

    @property
    def difference(self) -> float | None:
        """Our number minus the paper's."""
        if self.final is None or self.published is None:
            return None
        return self.final - self.published

    def agrees(self, tolerance: float) -> bool | None:
        """Return True if the difference is within ``tolerance`` or the paper's spread; None if unknown."""
        if self.difference is None:
            return None
        # The paper prints two digits: exactly the tolerance must not fail by rounding.
        return abs(self.difference) <= max(tolerance, self.spread or 0.0) + 1e-9


class Record(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Table or figure on one data set at one scale."""

    format: int
    paper: str
    """Empty for a comparison."""
    kind: experiment.Kind
    number: str
    dataset: str
    """Empty if the scenario names the data."""
    scale: experiment.ScaleName
    stem: str
    title: str
    settings: str
    """Digest of cells, claims and published numbers, without seeds."""
    note: str
    """Omissions and replacements at the scale."""
    shows: experiment.Shows
    axes: tuple[AxisRecord, ...]
    last: int
    tolerance: float
    leakage_reported: bool
    cells: tuple[CellRecord, ...]
    seconds: float
    jobs: int
    versions: dict[str, str]
    """Versions of the program that judged and drew, and the processor; kept results may be older."""
    commit: str = ""
    """Commit of that program; empty if unknown."""
    metric: str = ""
    """Empty for accuracies."""
    lower_is_better: bool = False
    """True if the lowest number is best."""
    drawn: str = ""
    """Meaning of a drawn problem's numbers; empty for accuracies and splits."""

    @property
    def fingerprint(self) -> str:
        """Digest of all its numbers."""
        return fingerprint({cell.label: [seed.numbers for seed in cell.seeds] for cell in self.cells})

    @property
    def seeds(self) -> int:
        """Simulations per cell."""
        return max((len(cell.seeds) for cell in self.cells), default=0)

    @property
    def rounds(self) -> int:
        """Rounds of the longest cell."""
        return max((cell.rounds for cell in self.cells), default=0)

    @property
    def devices(self) -> tuple[str, ...]:
        """Kinds of devices that computed it."""
        return tuple(sorted({seed.device for cell in self.cells for seed in cell.seeds if seed.device}))

    @property
    def refusals(self) -> tuple[str, ...]:
        """A line per reason of refusal."""
        reasons = dict.fromkeys(cell.refused for cell in self.cells if cell.refused)
        labels = {why: [cell.label for cell in self.cells if cell.refused == why] for why in reasons}
        return tuple(f"{'; '.join(labels[why])}: refused, {why}" for why in reasons)

    @property
    def ends(self) -> tuple[str, ...]:
        """A line per simulation that ended early."""
        return tuple(
            f"{cell.label}, seed {seed.seed}: ended in round {len(seed.accuracies)}, {seed.ended}"
            for cell in self.cells
            for seed in cell.seeds
            if seed.ended
        )

    @property
    def losses(self) -> tuple[str, ...]:
        """A line per cell with lost or idle task groups."""
        losses = ((cell.label, task_groups.losses_of(cell.groups)) for cell in self.cells)
        return tuple(f"groups lost or idle, {label}: {why}" for label, why in losses if why)

    @property
    def measure(self) -> str:
        """Measured quantity."""
        if self.drawn:
            return self.drawn
        if self.shows in _OF_SPLITS:
            return _OF_SPLITS[self.shows]
        rounds = sorted({cell.rounds for cell in self.cells if cell.seeds})
        span = "-".join(f"{one:,}" for one in dict.fromkeys((rounds[0], rounds[-1]))) if rounds else "no"
        what = f"{self.metric} at the sites" if self.metric else "accuracy on the test set"
        return f"{what}, mean of the last {self.last} of {span} rounds"

    @property
    def spreads(self) -> str:
        """Number of draws, and meaning of plus-minus signs."""
        kind = "draws" if self.drawn else "seeds"
        return f"{self.seeds} {kind}, ± their standard deviation" if self.seeds > 1 else f"one {kind[:-1]}"

    @property
    def titles(self) -> tuple[str, ...]:
        """Titles of the data."""
        return tuple(sorted({seed.dataset for cell in self.cells for seed in cell.seeds if seed.dataset}))

    @property
    def within(self) -> tuple[int, int]:
        """Cells that agree with the paper, and cells with a published number."""
        known = [agrees for cell in self.cells if (agrees := cell.agrees(self.tolerance)) is not None]
        return sum(known), len(known)

    def agreement(self) -> str:
        """Return :attr:`within` in words."""
        within, known = self.within
        if not known:
            return "no published numbers"
        return f"{within} of {known} cells within {self.tolerance:g} of the paper's number"

    def value(self, cell: CellRecord) -> str:
        """Format a cell's final number: ``0.912 ± 0.004`` (standard deviation).

        Task groups add the numbers of groups found and updates counted.
        """
        if cell.text:
            return cell.text
        if cell.final is None:
            return "refused" if cell.refused else "-"
        deviation = cell.deviation(self.last)
        span = "" if deviation is None else f" ± {deviation:.3f}"
        groups = (
            f"; {task_groups.found_of(cell.groups)}, {task_groups.heard_of(cell.groups)}"
            if cell.groups
            else ""
        )
        return f"{cell.final:.3f}{span}{groups}"


@dataclass(frozen=True, slots=True)
class Grid:
    """Cells by row: the last axis gives columns, the others rows."""

    row_name: str
    column_name: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, tuple[CellRecord | None, ...]], ...]
    """Named rows; a single unnamed row for one axis. None for a missing cell."""


def grid(record: Record) -> Grid:
    """Return the record as a table, without cells apart from the axes."""
    *others, across = record.axes
    rows: dict[str, dict[str, CellRecord]] = {}
    for cell in record.cells:
        if cell.place:
            rows.setdefault(experiment.JOINT.join(cell.place[:-1]), {})[cell.place[-1]] = cell
    return Grid(
        experiment.JOINT.join(axis.name for axis in others),
        across.name,
        across.choices,
        tuple((name, tuple(map(row.get, across.choices))) for name, row in rows.items()),
    )


def nameless(scenario: Scenario) -> Scenario:
    """Return the scenario without fields that do not affect its course: equal curves have equal keys."""
    return replace(scenario, description="", expect=(), observer=False)


def scenario_key(scenario: Scenario, site: str = "") -> str:
    """Return a digest (32 hex digits) of all that determines a scenario's rounds, without the seed.

    Fields at their default do not count, so that new fields leave old results valid. Files of users' parts
    and of the module of ``site`` (``module:name``) count, their imports do not.
    """
    chosen = chosen_fields(nameless(scenario))
    fields, own = msgspec.json.encode(chosen, order="sorted"), own_sources([chosen, site])
    sources = [part for name in sorted(own) for part in (name, own[name])]
    sources += [site] if site else []
    return crypto.digest("figure scenario", FORMAT, fields, *sources).hex()[:32]


def final_of(label: str, seeds: Sequence[SeedRecord], last: int, rounds: int) -> float:
    """Return the mean final accuracy over seeds.

    Raises:
        ConfigError: clusters were drawn differently.
    """
    refuse_mixed(label, {seed.seed: seed.draws for seed in seeds})
    return sums.ordered_sum(
        claims.measure_curve(seed.accuracies, "final", last, rounds) for seed in seeds
    ) / len(seeds)


def encode(record: Struct) -> bytes:
    """Return indented JSON with a line per list of numbers."""
    text = msgspec.json.format(msgspec.json.encode(record), indent=1)
    return _fold_lists(text.decode()).encode() + b"\n"


def read_record(path: Path) -> Record:
    """Read a record.

    Raises:
        ConfigError: unreadable, or not a record.
    """
    try:
        return msgspec.json.decode(path.read_bytes(), type=Record)
    except OSError as error:
        raise ConfigError(
            str(path), f"cannot be read: {error.strerror}", "name a file that you may read"
        ) from error
    except msgspec.DecodeError as error:
        raise ConfigError(
            str(path), f"is not a result file: {error}", "remove it and run it again"
        ) from error


def read_records(folder: Path) -> tuple[Record, ...]:
    """Read all records in a folder.

    Raises:
        ConfigError: a file is not a record.
    """
    return tuple(read_record(path) for path in sorted(folder.glob("*.json")))


def write_result(path: Path, content: bytes) -> None:
    """Write a file atomically; create its folder if missing.

    Raises:
        RunAbortedError: the write failed.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        files.write_whole(path, content)
    except OSError as error:
        raise RunAbortedError(f"{path}: cannot be written: {error.strerror}") from error


def _fold_lists(text: str) -> str:
    out: list[str] = []
    numbers: list[str] | None = None
    for line in text.splitlines():
        bare = line.strip().rstrip(",")
        if numbers is not None and bare[:1] in {"]", "}"}:
            out[-1] += ", ".join(numbers) + line.strip()
            numbers = None
        elif numbers is not None:
            numbers.append(bare)
        else:
            out.append(line)
            numbers = [] if bare.endswith(('"accuracies": [', '"values": {')) else None
    return "\n".join(out)
