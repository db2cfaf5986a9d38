"""Record of an experiment's run: one JSON file, the source of list, page and pictures."""

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
"""Format of simulations, increased when the same scenario would give other numbers."""
LEAKAGE_REPORTED: Final = "LEAKAGE ONLY REPORTED: sums cross the published limits"
"""Warning on the results of such scenarios, in pictures and on terminals."""
_OF_SPLITS: Final = {
    "labels": "distance of a worker's classes from everybody's (total variation), mean over the workers",
    "sizes": "share of all samples that the two largest parties hold",
    "caps": "share of all samples that truncation leaves",
}


class SeedRecord(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """One simulation, or one draw of a problem, of clusters or of a split."""

    seed: int
    accuracies: claims.Accuracies
    """Accuracies by round on the test set; an untested round has that of the last tested one. For a drawn
    problem, the number that claims are about; empty if there is none.
    """
    ended: str = ""
    """Reason of an early end: destroyed, aborted."""
    seconds: float = 0.0
    device: str = ""
    dataset: str = ""
    """Title of the data set, from its loader."""
    values: dict[str, float] = {}
    """Measurements of a drawn problem, by name."""
    epsilon: float | None = None
    """Epsilon of a party in every round, had its noise been secret; None: no noise, or noise that protects
    nothing.
    """
    guarantee: str = ""
    """Epsilon with unit, neighbouring relation, sampler, denominator and delta, or why there is none."""
    tested_every: int = 1
    """Rounds between tests, before the last ``last`` ones, which are all tested."""
    groups: task_groups.GroupsRecord | None = None
    """Outcome of task groups; None if there are none, or their members are unknown."""
    commit: str = ""
    """Commit that computed it (:func:`securefl.lab.experiments.provenance.commit`); empty: unknown."""
    draws: str = ""
    """Digest that its clusters were drawn under; empty: an older program did not record it."""

    @property
    def numbers(self) -> tuple[float, ...]:
        """All measurements except times."""
        return tuple(self.values.values()) or self.accuracies


class AxisRecord(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Varied setting, and its values in this run."""

    name: str
    choices: tuple[str, ...]


class CellRecord(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """One cell. Without ``final`` there is no result, and ``refused`` gives the reason."""

    label: str
    place: experiment.Place
    """Choice of each axis; empty for a cell apart from the axes."""
    baseline: bool = False
    scenario: str = ""
    """Digest of its scenario."""
    rounds: int = 0
    parties: int = 0
    asked: str = ""
    """Privacy that the scenario requests: ``epsilon = 2 per record, local noise``, or ``none``; empty if
    nothing is trained.
    """
    final: float | None = None
    """Mean accuracy over the last rounds and the seeds."""
    refused: str = ""
    published: float | None = None
    spread: float | None = None
    """Number behind the paper's plus-minus sign."""
    text: str = ""
    """Table text of a drawn problem, in lines."""
    marked: bool = False
    """True if a table shows it in bold."""
    seeds: tuple[SeedRecord, ...] = ()
    shares: tuple[tuple[float, ...], ...] = ()
    """Split with the first seed. ``labels``: share of each class by party, and last of all parties together.
    ``sizes``: one row, samples of each party. ``caps``: a row of alphas and one of caps.
    """
    values: dict[str, float] = {}
    """Values derived from all draws together, by name."""

    def finals(self, last: int) -> tuple[float, ...]:
        """Return the mean of the ``last`` rounds by seed; only of seeds with a number."""
        known = (seed.accuracies for seed in self.seeds if seed.accuracies)
        return tuple(claims.measure_curve(one, "final", last, self.rounds) for one in known)

    def deviation(self, last: int) -> float | None:
        """Return the sample standard deviation over the seeds; None with fewer than two."""
        finals = self.finals(last)
        return stdev(finals) if len(finals) > 1 else None

    @property
    def groups(self) -> tuple[task_groups.GroupsRecord, ...]:
        """Outcomes of task groups by seed; empty if there are none."""
        return tuple(seed.groups for seed in self.seeds if seed.groups is not None)

    @property
    def difference(self) -> float | None:
        """Difference from the paper's number (ours minus the paper's)."""
        if self.final is None or self.published is None:
            return None
        return self.final - self.published

    def agrees(self, tolerance: float) -> bool | None:
        """Return True if the difference is within ``tolerance`` or the paper's spread; None: no numbers."""
        if self.difference is None:
            return None
        # The paper prints two digits: a difference of exactly the tolerance must not fail by rounding.
        return abs(self.difference) <= max(tolerance, self.spread or 0.0) + 1e-9


class Record(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One table or figure on one data set at one scale."""

    format: int
    paper: str
    """Name of the paper; empty for a comparison."""
    kind: experiment.Kind
    number: str
    dataset: str
    """Name of the data set; empty if the scenario names the data."""
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
    """Total computing time of all simulations."""
    jobs: int
    versions: dict[str, str]
    """Versions of the program that judged and drew; kept results may be older."""
    commit: str = ""
    """Commit of that program; empty: unknown."""
    metric: str = ""
    """Metric of ``[evaluation]`` if sites train; empty: accuracies."""
    lower_is_better: bool = False
    """True if the lowest number is best, as for a loss at the sites."""
    drawn: str = ""
    """Meaning of a drawn problem's numbers; empty: accuracies, or given by ``shows``."""

    @property
    def fingerprint(self) -> str:
        """Fingerprint of all its numbers."""
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
        """Distinct kinds of devices that computed it."""
        return tuple(sorted({seed.device for cell in self.cells for seed in cell.seeds if seed.device}))

    @property
    def refusals(self) -> tuple[str, ...]:
        """A line per reason of refusal, with its cells."""
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
        """A line per cell with lost or idle task groups, with the reason."""
        said = ((cell.label, task_groups.losses_of(cell.groups)) for cell in self.cells)
        return tuple(f"groups lost or idle, {label}: {why}" for label, why in said if why)

    @property
    def measure(self) -> str:
        """Quantity that the numbers measure."""
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
        """Number of draws, and the meaning of plus-minus signs."""
        kind = "draws" if self.drawn else "seeds"
        return f"{self.seeds} {kind}, ± their standard deviation" if self.seeds > 1 else f"one {kind[:-1]}"

    @property
    def titles(self) -> tuple[str, ...]:
        """Distinct titles of the data, from their loader."""
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
        """Format the final number of a cell: ``0.912``, or ``0.912 ± 0.004`` (standard deviation).

        For task groups, add the number of groups found and of updates counted.
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
    """Cells by row: the last axis gives the columns, all others the rows."""

    row_name: str
    column_name: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, tuple[CellRecord | None, ...]], ...]
    """Rows with their names; a single row without a name for one axis. None: there is no such cell."""


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
    """Return the scenario without fields that do not change its course: equal curves have equal keys."""
    return replace(scenario, description="", expect=(), observer=False)


def scenario_key(scenario: Scenario, site: str = "") -> str:
    """Return a digest (32 hex digits) of all that determines the rounds of a scenario, without the seed.

    Args:
        scenario: of the cell.
        site: ``module:name`` of the parties' sites; their module's file counts, its imports do not.

    Fields at their default do not count: a new field of the schema leaves old results valid. Files of custom
    parts do count.
    """
    chosen = chosen_fields(nameless(scenario))
    fields, own = msgspec.json.encode(chosen, order="sorted"), own_sources([chosen, site])
    sources = [part for name in sorted(own) for part in (name, own[name])]
    sources += [site] if site else []
    return crypto.digest("figure scenario", FORMAT, fields, *sources).hex()[:32]


def final_of(label: str, seeds: Sequence[SeedRecord], last: int, rounds: int) -> float:
    """Return the mean final accuracy over the seeds.

    Raises:
        ConfigError: their clusters were drawn differently.
    """
    refuse_mixed(label, {seed.seed: seed.draws for seed in seeds})
    return sums.ordered_sum(
        claims.measure_curve(seed.accuracies, "final", last, rounds) for seed in seeds
    ) / len(seeds)


def encode(record: Struct) -> bytes:
    """Return the record as readable JSON: indented, a line per list of numbers, a newline at the end."""
    text = msgspec.json.format(msgspec.json.encode(record), indent=1)
    return _fold_lists(text.decode()).encode() + b"\n"


def read_record(path: Path) -> Record:
    """Read the record of a table or figure.

    Raises:
        ConfigError: the file cannot be read or holds no such record.
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
    """Read all tables and figures in a folder.

    Raises:
        ConfigError: one of the files is no such record.
    """
    return tuple(read_record(path) for path in sorted(folder.glob("*.json")))


def write_result(path: Path, content: bytes) -> None:
    """Write a file atomically; create its folder if missing.

    Raises:
        RunAbortedError: the disk is full or gone, or the folder cannot be made.
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
