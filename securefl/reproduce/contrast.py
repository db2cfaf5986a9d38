"""What came of a comparison: its record, and the pictures of it. One JSON file and one PNG file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import Struct

from securefl.report.figures import HeatMap, Line, Plot, draw, draw_heat_map
from securefl.reproduce.comparison import JOINT, Comparison, Plan
from securefl.reproduce.drawing import Batch
from securefl.reproduce.judging import Verdict, judge, measured
from securefl.reproduce.provenance import versions
from securefl.reproduce.record import (
    FORMAT,
    LEAKAGE_REPORTED,
    SeedRecord,
    encode,
    final_of,
    scenario_key,
    write_whole,
)
from securefl.reproduce.shelf import labels_of


class AxisRecord(Struct, frozen=True, kw_only=True):
    """What was varied."""

    name: str
    choices: tuple[str, ...]


class Cell(Struct, frozen=True, kw_only=True):
    """One curve. Without ``final`` there is none, and ``refused`` says why."""

    label: str
    place: tuple[str, ...]
    """Its choice of each axis; empty for a curve apart from the axes."""
    baseline: bool
    scenario: str = ""
    """Digest of its scenario."""
    final: float | None = None
    """Mean accuracy over the last rounds and the seeds."""
    spread: float = 0.0
    """Half of the distance from the lowest to the highest seed."""
    refused: str = ""
    seeds: tuple[SeedRecord, ...] = ()


class ComparisonRecord(Struct, frozen=True, kw_only=True):
    """A comparison that was run."""

    format: int
    title: str
    note: str
    """What the scenarios say of themselves."""
    axes: tuple[AxisRecord, ...]
    rounds: int
    last: int
    leakage_reported: bool
    curves: tuple[Cell, ...]
    verdicts: tuple[Verdict, ...]
    unjudged: tuple[str, ...]
    """Claims about curves that there are not, each with the reason."""
    seconds: float
    """Computing time of all simulations together."""
    jobs: int
    versions: dict[str, str]

    @property
    def datasets(self) -> tuple[str, ...]:
        """Titles of the data sets, each once."""
        return tuple(sorted({seed.dataset for curve in self.curves for seed in curve.seeds}))


class Matrix(Struct, frozen=True):
    """The curves of two or more axes as a table: the last axis gives the columns, all others the rows."""

    row_name: str
    column_name: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, tuple[Cell, ...]], ...]


def contrast(
    comparison: Comparison,
    planned: Plan,
    batch: Batch,
    results: Mapping[str, SeedRecord],
    refused: Mapping[str, str],
) -> ComparisonRecord:
    """Judge a comparison whose simulations are done.

    Args:
        comparison: the file.
        planned: the scenarios that it makes.
        batch: the simulations of all feasible ones.
        results: by the stem of the job.
        refused: by the stem of the job, why it has no result.
    """
    why = dict(planned.refused)
    seeds: dict[str, list[SeedRecord]] = {label: [] for label in batch.scenarios}
    for label, job in batch.simulations():
        if job.stem in refused:
            why.setdefault(label, refused[job.stem])
        elif not results[job.stem].accuracies:
            why.setdefault(label, results[job.stem].ended)
        else:
            seeds[label].append(results[job.stem])
    rounds = {scenario.stop.rounds for scenario in batch.scenarios.values()}
    last, longest = min(comparison.last, *rounds), max(rounds)

    def cell(label: str, place: tuple[str, ...], *, baseline: bool) -> Cell:
        if label in why:
            return Cell(label=label, place=place, baseline=baseline, refused=why[label])
        finals = [measured(seed.accuracies, "final", last, longest) for seed in seeds[label]]
        return Cell(
            label=label,
            place=place,
            baseline=baseline,
            scenario=scenario_key(batch.scenarios[label]),
            final=round(final_of(label, seeds[label], last, longest), 6),
            spread=round((max(finals) - min(finals)) / 2, 6),
            seeds=tuple(seeds[label]),
        )

    cells = tuple(cell(c.label, place, baseline=c.baseline) for place, c in comparison.all_curves())
    accuracies = {c.label: [seed.accuracies for seed in c.seeds] for c in cells if c.seeds}
    lacking = [sorted(labels_of(claim) & why.keys()) for claim in comparison.claims]
    claims = list(zip(comparison.claims, lacking, strict=True))
    return ComparisonRecord(
        format=FORMAT,
        title=comparison.title,
        note="; ".join(dict.fromkeys(s.description for s in batch.scenarios.values() if s.description)),
        axes=tuple(
            AxisRecord(name=axis.name, choices=tuple(choice.label for choice in axis.choices))
            for axis in comparison.axes
        ),
        rounds=longest,
        last=last,
        leakage_reported=any(s.leakage.mode == "report" for s in batch.scenarios.values()),
        curves=cells,
        verdicts=tuple(judge(claim, accuracies, last, longest) for claim, without in claims if not without),
        unjudged=tuple(f"{claim.says} ({without[0]!r} is refused)" for claim, without in claims if without),
        seconds=round(sum(seed.seconds for c in cells for seed in c.seeds), 1),
        jobs=batch.jobs,
        versions=versions(),
    )


def keep(record: ComparisonRecord, batch: Batch, stem: str) -> bytes:
    """Write the picture and the JSON file, and return what is in the latter.

    Raises:
        ConfigError: matplotlib is missing.
        RunAbortedError: the disk is full or gone.
    """
    write_whole(batch.out / f"{stem}.png", picture(record))
    content = encode(record)
    write_whole(batch.out / f"{stem}.json", content)
    return content


def matrix(record: ComparisonRecord) -> Matrix | None:
    """The record as a table; None if there are not two axes."""
    if len(record.axes) < 2:
        return None
    *others, across = record.axes
    rows: dict[tuple[str, ...], list[Cell]] = {}
    for cell in record.curves:
        if cell.place:
            rows.setdefault(cell.place[:-1], []).append(cell)
    return Matrix(
        JOINT.join(axis.name for axis in others),
        across.name,
        across.choices,
        tuple((JOINT.join(place), tuple(cells)) for place, cells in rows.items()),
    )


def picture(record: ComparisonRecord) -> bytes:
    """A PNG file: two or more axes as a heat map, else accuracy by round.

    Raises:
        ConfigError: matplotlib is missing.
    """
    notes = _notes(record)
    warning = LEAKAGE_REPORTED if record.leakage_reported else ""
    table = matrix(record)
    if table is None:
        lines = tuple(
            Line(f"{c.label}  {value(c)}", tuple(seed.accuracies for seed in c.seeds), c.baseline)
            for c in record.curves
            if c.seeds
        )
        return draw(Plot(title=record.title, notes=notes, warning=warning, rounds=record.rounds, lines=lines))
    return draw_heat_map(
        HeatMap(
            title=record.title,
            notes=notes,
            warning=warning,
            row_name=table.row_name,
            column_name=table.column_name,
            rows=tuple(name for name, _ in table.rows),
            columns=table.columns,
            values=tuple(tuple(cell.final for cell in cells) for _, cells in table.rows),
            texts=tuple(tuple(map(value, cells)) for _, cells in table.rows),
        )
    )


def value(cell: Cell) -> str:
    """The final accuracy for people: ``0.912``, or ``0.912 ± 0.004`` of several seeds."""
    if cell.final is None:
        return "refused"
    return f"{cell.final:.3f}" + (f" ± {cell.spread:.3f}" if len(cell.seeds) > 1 else "")


def _notes(record: ComparisonRecord) -> tuple[str, ...]:
    seeds = max(len(cell.seeds) for cell in record.curves)
    how = f"{seeds} seeds, ± half of their range" if seeds > 1 else "one seed"
    first = (
        f"accuracy on the test set, mean of the last {record.last} of {record.rounds} rounds; {how};"
        f" data: {', '.join(record.datasets)}"
    )
    apart: Sequence[Cell] = [cell for cell in record.curves if not cell.place] if record.axes else ()
    told = (record.note, first) if record.note else (first,)
    return (*told, *((", ".join(f"{cell.label}: {value(cell)}" for cell in apart),) if apart else ()))
