"""What the picture of a table or figure shows."""

from __future__ import annotations

from securefl.report.count_figures import draw_caps, draw_sizes
from securefl.report.figures import (
    HeatMap,
    Histograms,
    Line,
    Plot,
    Series,
    Sweep,
    draw,
    draw_heat_map,
    draw_histograms,
    draw_sweep,
)
from securefl.reproduce.judging import measured
from securefl.reproduce.record import LEAKAGE_REPORTED
from securefl.reproduce.sheets.record import CellRecord, SheetRecord, grid
from securefl.reproduce.task_groups import found_of


def picture(record: SheetRecord) -> bytes:
    """A PNG file: a heat map, accuracy over the last axis or by round, or a split, as the sheet says.

    Raises:
        ConfigError: matplotlib is missing.
    """
    match record.shows:
        case "table":
            return draw_heat_map(_heat_map(record))
        case "lines":
            return draw_sweep(_sweep(record))
        case "curves":
            return draw(_plot(record))
        case "labels":
            return draw_histograms(_histograms(record))
        case "sizes":
            return _sizes(record)
        case "caps":
            return _caps(record)


def _heat_map(record: SheetRecord) -> HeatMap:
    table = grid(record)
    paper = any(cell.published is not None for cell in record.cells)
    notes = (*_notes(record), *(("in brackets: the paper's number",) if paper else ()))
    return HeatMap(
        title=_title(record),
        notes=notes,
        warning=_warning(record),
        row_name=table.row_name,
        column_name=table.column_name,
        rows=tuple(name or record.dataset for name, _ in table.rows),
        columns=table.columns,
        values=tuple(tuple(cell.final for cell in cells) for _, cells in table.rows),
        texts=tuple(tuple(map(_text, cells)) for _, cells in table.rows),
    )


def _text(cell: CellRecord) -> str:
    shown = "refused" if cell.refused else "-" if cell.final is None else f"{cell.final:.3f}"
    paper = "" if cell.published is None else f" ({cell.published:.2f})"
    span = f"\n{cell.low:.3f} to {cell.high:.3f}" if len(cell.seeds) > 1 else ""
    found = f"\n{found_of(cell.groups)}" if cell.groups else ""
    return shown + paper + span + found


def _sweep(record: SheetRecord) -> Sweep:
    table = grid(record)
    return Sweep(
        title=_title(record),
        notes=_notes(record),
        warning=_warning(record),
        column_name=table.column_name,
        columns=table.columns,
        lines=tuple(
            Series(
                label=name or record.dataset,
                values=tuple(_finals(cell, record.last) for cell in cells),
                baseline=all(cell.baseline for cell in cells),
            )
            for name, cells in table.rows
        ),
    )


def _finals(cell: CellRecord, last: int) -> tuple[float, ...]:
    return tuple(measured(seed.accuracies, "final", last, cell.rounds) for seed in cell.seeds)


def _plot(record: SheetRecord) -> Plot:
    return Plot(
        title=_title(record),
        notes=_notes(record),
        warning=_warning(record),
        rounds=max((cell.rounds for cell in record.cells), default=1),
        lines=tuple(
            Line(
                f"{cell.label}  {cell.final:.3f}",
                tuple(seed.accuracies for seed in cell.seeds),
                cell.baseline,
            )
            for cell in record.cells
            if cell.final is not None
        ),
    )


def _histograms(record: SheetRecord) -> Histograms:
    last = [cell for cell in record.cells if cell.shares][-1]
    *own, overall = last.shares
    return Histograms(
        title=_title(record),
        notes=_split_notes(record, f"{last.label}: share of each class, in orange that of all together"),
        warning="",
        names=tuple(f"worker {index}" for index in range(len(own))),
        shares=tuple(own),
        overall=overall,
    )


def _sizes(record: SheetRecord) -> bytes:
    cell = next(cell for cell in record.cells if cell.shares)
    (counts,) = cell.shares
    notes = _split_notes(record, f"{len(counts)} parties by their samples, {int(sum(counts)):,} in all")
    return draw_sizes(_title(record), notes, [int(count) for count in counts])


def _caps(record: SheetRecord) -> bytes:
    (bound,) = record.axes
    curves = {
        f"{bound.name} = {cell.label}": tuple(zip(*cell.shares, strict=True))
        for cell in record.cells
        if cell.shares
    }
    plotted = f"the largest U with which alpha of the parties have {bound.name} of the weight at most"
    return draw_caps(_title(record), _split_notes(record, plotted), curves)


def _title(record: SheetRecord) -> str:
    return f"{record.paper.upper()} {record.kind} {record.number}, {record.dataset}: {record.title}"


def _warning(record: SheetRecord) -> str:
    return LEAKAGE_REPORTED if record.leakage_reported else ""


def _notes(record: SheetRecord) -> tuple[str, ...]:
    how = f"{record.seeds} seeds, lowest and highest shown" if record.seeds > 1 else "one seed"
    return _scale(record), f"{record.measure}; {how}; data: {', '.join(record.titles)}"


def _split_notes(record: SheetRecord, plotted: str) -> tuple[str, ...]:
    """Of a picture that shows a split itself, ``plotted``, and not what is measured of it."""
    which = f"first of {record.seeds} seeds" if record.seeds > 1 else "one seed"
    return _scale(record), f"{plotted}; {which}; data: {', '.join(record.titles)}"


def _scale(record: SheetRecord) -> str:
    return f"{record.scale} scale: {record.note}" if record.note else f"{record.scale} scale"
