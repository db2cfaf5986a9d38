"""What is kept of trials: one JSON file by figure and scale, and every finished trial beside it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

import msgspec
from msgspec import Struct

from securefl.crypto.labels import digest
from securefl.errors import ConfigError
from securefl.report.figures import Series, Sweep
from securefl.reproduce.figure import ScaleName
from securefl.reproduce.freshness import fingerprint
from securefl.reproduce.groups.sheet import Method, Sheet, Trials, cell_label
from securefl.reproduce.groups.trial import Outcome, Trial
from securefl.reproduce.judging import Verdict, judge
from securefl.reproduce.provenance import commit
from securefl.reproduce.shelf import labels_of

FORMAT = 1
"""Counted up when the same trial would give other numbers."""


class Cell(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One method at one point."""

    method: str
    at: str
    trials: tuple[Outcome, ...]

    def mean(self, field: str) -> float:
        """Over the trials."""
        values = [float(getattr(one, field)) for one in self.trials]
        return sum(values) / len(values)

    @property
    def matched(self) -> tuple[float, ...]:
        """Matched distances."""
        return tuple(one.matched for one in self.trials)


class TrialsRecord(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One figure at one scale."""

    format: int
    paper: str
    panel: str
    scale: ScaleName
    title: str
    settings: str
    """Digest of what is run and claimed."""
    cells: tuple[Cell, ...]
    verdicts: tuple[Verdict, ...]
    seconds: float
    """Computing time of all trials together."""
    commit: str = ""
    """That judged; trials that were kept may be older. Empty: not known."""

    @property
    def stem(self) -> str:
        """Of the names of its files."""
        return f"{self.panel}-{self.scale}"

    @property
    def fingerprint(self) -> str:
        """Of all its outcomes."""
        return fingerprint(
            {cell_label(c.method, c.at): [one.numbers for one in c.trials] for c in self.cells}
        )


def trial_key(trial: Trial, method: Method) -> str:
    """Digest (32 hex digits) of everything that an outcome follows from; labels and looks do not count."""
    common = msgspec.structs.replace(trial.common, title="-", chosen=())
    plain = msgspec.structs.replace(method, label="-", baseline=False)
    setup = msgspec.json.encode(trial.setup, order="sorted")
    rest = (msgspec.json.encode(one, order="sorted") for one in (common, plain))
    return digest("trial", FORMAT, setup, *rest, trial.number).hex()[:32]


def settings_key(trials: Trials, scale: ScaleName) -> str:
    """Digest (32 hex digits) of what a figure's verdicts follow from."""
    parts = (trials.common, trials.sheet.methods, trials.sheet.claims, trials.size(scale))
    kind = trials.sheet.kind
    return digest("trials", FORMAT, kind, *(msgspec.json.encode(p, order="sorted") for p in parts)).hex()[:32]


def conclude(trials: Trials, scale: ScaleName, cells: Iterable[Cell], seconds: float) -> TrialsRecord:
    """Judge the claims about what was run; those about other points are left out."""
    cells = tuple(cells)
    values: Mapping[str, list[tuple[float, ...]]] = {
        cell_label(cell.method, cell.at): [(value,) for value in cell.matched] for cell in cells
    }
    verdicts = []
    for claim in trials.sheet.claims:
        involved = labels_of(claim)
        if involved <= values.keys():
            verdicts.append(judge(claim, {label: values[label] for label in sorted(involved)}, 1, 1))
    return TrialsRecord(
        format=FORMAT,
        paper=trials.paper,
        panel=trials.sheet.panel,
        scale=scale,
        title=trials.sheet.title,
        settings=settings_key(trials, scale),
        cells=cells,
        verdicts=tuple(verdicts),
        seconds=round(seconds, 1),
        commit=commit(),
    )


def read_trial_records(folder: Path) -> dict[tuple[str, ScaleName], TrialsRecord]:
    """All figures in a folder, by panel and scale.

    Raises:
        ConfigError: a file cannot be read or is no such record.
    """
    found: dict[tuple[str, ScaleName], TrialsRecord] = {}
    for path in sorted(folder.glob("*.json")):
        try:
            record = msgspec.json.decode(path.read_bytes(), type=TrialsRecord)
        except OSError as error:
            raise ConfigError(str(path), f"cannot be read: {error.strerror}") from error
        except msgspec.DecodeError as error:
            raise ConfigError(
                str(path), f"holds no trials: {error}", "remove it and run them again"
            ) from error
        found[record.panel, record.scale] = record
    return found


def claimed(sheet: Sheet) -> str:
    """What a figure is about, and whose words these are: its verdicts may say otherwise."""
    return f"{'Not in the paper.' if sheet.ours else 'The paper:'} {' '.join(sheet.claim.split())}"


def plot_of(trials: Trials, record: TrialsRecord) -> Sweep:
    """Matched distances over the axis, a line by method."""
    columns = list(dict.fromkeys(cell.at for cell in record.cells))
    by = {(cell.method, cell.at): cell.matched for cell in record.cells}
    lines = tuple(
        Series(
            method.label,
            tuple(tuple(min(value, CEILING) for value in by.get((method.label, at), ())) for at in columns),
            method.baseline,
        )
        for method in trials.sheet.methods
    )
    number = max(len(cell.trials) for cell in record.cells)
    return Sweep(
        title=record.title,
        notes=(
            claimed(trials.sheet),
            f"{number} trials; bars from lowest to highest; distances above {CEILING:g} are drawn there",
        ),
        column_name="dimension d" if trials.sheet.axis == "dimension" else "groups k",
        columns=tuple(columns),
        lines=lines,
        value_name="matched distance to the true parameters",
    )


CEILING = 0.6
"""Of plots: a model that knows nothing is about 0.7 away, and clustered least squares go far beyond."""
