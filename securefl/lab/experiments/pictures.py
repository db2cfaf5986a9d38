"""Pictures of a table or figure, and its tables as CSV and LaTeX."""

import csv
import io
from pathlib import Path

from securefl.lab.experiments.record import LEAKAGE_REPORTED, CellRecord, Record, encode, grid, write_result
from securefl.lab.experiments.task_groups import found_of
from securefl.lab.plots import (
    Format,
    HeatMap,
    Histograms,
    Line,
    Plot,
    Series,
    SweepPlot,
    draw,
    draw_caps,
    draw_heat_map,
    draw_histograms,
    draw_sizes,
    draw_sweep,
)

_CEILING = 0.6
"""Largest plotted matched distance: an untrained model has about 0.7, clustered least squares far more."""
_TEX = str.maketrans(
    {c: f"\\{c}" for c in "&%$#_{}"} | {"\\": r"\textbackslash{}", "±": r"$\pm$", "\n": "; "}
)


def keep(record: Record, out: Path, also: Format | None = None) -> bytes:
    """Write the record with picture and tables; return the JSON file's content.

    ``also`` is a second format of the picture, beside PNG.

    Raises:
        ConfigError: matplotlib is missing.
        RunAbortedError: the disk is full or gone.
    """
    content = encode(record)
    for kind in dict.fromkeys(("png", also or "png")):
        write_result(out / f"{record.stem}.{kind}", picture(record, kind))
    write_result(out / f"{record.stem}.csv", as_csv(record).encode())
    write_result(out / f"{record.stem}.tex", as_latex(record).encode())
    write_result(out / f"{record.stem}.json", content)
    return content


def as_csv(record: Record) -> str:
    """Return a row per cell: choices, mean, standard deviation over seeds, the paper's number."""
    file = io.StringIO()
    rows = csv.writer(file, lineterminator="\n")
    axes = [axis.name for axis in record.axes]
    rows.writerow((*axes, "label", "mean", "standard deviation", "seeds", "published", "refused"))
    for cell in record.cells:
        place = cell.place or [""] * len(axes)
        numbers = (cell.final, cell.deviation(record.last), len(cell.seeds), cell.published)
        rows.writerow((*place, cell.label, *numbers, cell.refused))
    return file.getvalue()


def as_latex(record: Record) -> str:
    r"""Return a booktabs ``tabular`` with an explaining comment."""
    table = grid(record) if record.axes else None
    apart = [cell for cell in record.cells if not cell.place or len(record.axes) == 1]
    lines = [f"% {record.title.translate(_TEX)}", f"% {record.measure}; {record.spreads}"]
    if table is not None and len(record.axes) > 1:
        head = (f"{table.row_name} / {table.column_name}", *table.columns)
        body = [(name, *(_tex_entry(record, cell) for cell in cells)) for name, cells in table.rows]
        lines += _tabular(head, body)
    if apart:
        name = table.column_name if table and len(record.axes) == 1 else "curve"
        lines += _tabular((name, "mean"), [(cell.label, _tex_entry(record, cell)) for cell in apart])
    return "\n".join(lines) + "\n"


def _tabular(head: tuple[str, ...], rows: list[tuple[str, ...]]) -> list[str]:
    def line(cells: tuple[str, ...]) -> str:
        return " & ".join(cell.translate(_TEX) for cell in cells) + r" \\"

    columns = "l" + "r" * (len(head) - 1)
    return [
        rf"\begin{{tabular}}{{{columns}}}",
        r"\toprule",
        line(head),
        r"\midrule",
        *map(line, rows),
        r"\bottomrule",
        r"\end{tabular}",
    ]


def _tex_entry(record: Record, cell: CellRecord | None) -> str:
    return "" if cell is None else record.value(cell)


def picture(record: Record, kind: Format = "png") -> bytes:
    """Return a heat map, numbers over the last axis or by round, or a split.

    Raises:
        ConfigError: matplotlib is missing.
    """
    match record.shows:
        case "table":
            return draw_heat_map(_heat_map(record), kind)
        case "lines":
            return draw_sweep(_sweep(record), kind)
        case "curves":
            return draw(_plot(record), kind)
        case "labels":
            return draw_histograms(_histograms(record), kind)
        case "sizes":
            return _sizes(record, kind)
        case "caps":
            return _caps(record, kind)


def _heat_map(record: Record) -> HeatMap:
    table = grid(record)
    paper = any(cell.published is not None for cell in record.cells)
    apart = ", ".join(f"{cell.label}: {record.value(cell)}" for cell in record.cells if not cell.place)
    extra = ("in brackets: the paper's number" if paper else "", apart)
    return HeatMap(
        title=_title(record),
        notes=(*_notes(record), *(note for note in extra if note)),
        warning=_warning(record),
        row_name=table.row_name,
        column_name=table.column_name,
        rows=tuple(name or record.dataset for name, _ in table.rows),
        columns=table.columns,
        values=tuple(
            tuple(None if cell is None else cell.final for cell in cells) for _, cells in table.rows
        ),
        texts=tuple(tuple(_text(record, cell) for cell in cells) for _, cells in table.rows),
    )


def _text(record: Record, cell: CellRecord | None) -> str:
    if cell is None or cell.final is None:
        return "refused" if cell and cell.refused else "-"
    paper = "" if cell.published is None else f" ({cell.published:.2f})"
    deviation = cell.deviation(record.last)
    span = "" if deviation is None else f"\n± {deviation:.3f}"
    found = f"\n{found_of(cell.groups)}" if cell.groups else ""
    return f"{cell.final:.3f}{paper}{span}{found}"


def _sweep(record: Record) -> SweepPlot:
    table = grid(record)
    spends = any("epsilon" in cell.values for cell in record.cells)
    names = [name.split(", ") for name, _ in table.rows]
    common = [part for part in names[0] if len(names) > 1 and all(part in other for other in names)]

    def cell_values(cell: CellRecord | None) -> tuple[float, ...]:
        if cell is None or cell.final is None:
            return ()
        if spends:
            return (cell.final,)
        finals = cell.finals(record.last)
        return tuple(min(one, _CEILING) for one in finals) if "matched" in cell.seeds[0].values else finals

    ceiling = any("matched" in seed.values for cell in record.cells for seed in cell.seeds)
    notes = (f"larger ones are drawn at {_CEILING:g}",) if ceiling else ()
    return SweepPlot(
        title=_title(record) + "".join(f", {part}" for part in common),
        notes=(*_notes(record), *notes),
        warning=_warning(record),
        column_name=table.column_name,
        columns=table.columns,
        lines=tuple(
            Series(
                label=", ".join(part for part in parts if part not in common) or record.dataset,
                values=tuple(map(cell_values, cells)),
                baseline=all(cell is None or cell.baseline for cell in cells),
            )
            for parts, (_, cells) in zip(names, table.rows, strict=True)
        ),
        value_name=record.drawn or record.metric or "test accuracy",
        logarithmic=spends,
    )


def _plot(record: Record) -> Plot:
    return Plot(
        title=_title(record),
        notes=_notes(record),
        warning=_warning(record),
        rounds=max(1, record.rounds),
        value_name=record.metric or "test accuracy",
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


def _histograms(record: Record) -> Histograms:
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


def _sizes(record: Record, kind: Format) -> bytes:
    cell = next(cell for cell in record.cells if cell.shares)
    (counts,) = cell.shares
    notes = _split_notes(record, f"{len(counts)} parties by their samples, {int(sum(counts)):,} in all")
    return draw_sizes(_title(record), notes, [int(count) for count in counts], kind=kind)


def _caps(record: Record, kind: Format) -> bytes:
    (bound,) = record.axes
    curves = {
        f"{bound.name} = {cell.label}": tuple(zip(*cell.shares, strict=True))
        for cell in record.cells
        if cell.shares
    }
    plotted = f"the largest U with which alpha of the parties have {bound.name} of the weight at most"
    return draw_caps(_title(record), _split_notes(record, plotted), curves, kind=kind)


def _title(record: Record) -> str:
    if not record.paper or "exposed" in record.drawn or "epsilon" in record.drawn:
        return record.title
    data = f", {record.dataset}" if record.dataset else ""
    return f"{record.paper.upper()} {record.kind} {record.number}{data}: {record.title}"


def _warning(record: Record) -> str:
    return LEAKAGE_REPORTED if record.leakage_reported else ""


def _notes(record: Record) -> tuple[str, ...]:
    data = f"; data: {', '.join(record.titles)}" if record.titles else ""
    caption = f"{record.measure}; {record.spreads}{data}"
    return (caption,) if record.drawn else (_scale(record), caption)


def _split_notes(record: Record, plotted: str) -> tuple[str, ...]:
    """Return notes on a picture of a split; ``plotted`` describes it."""
    which = f"first of {record.seeds} seeds" if record.seeds > 1 else "one seed"
    return _scale(record), f"{plotted}; {which}; data: {', '.join(record.titles)}"


def _scale(record: Record) -> str:
    if not record.paper:
        return record.note
    return f"{record.scale} scale: {record.note}" if record.note else f"{record.scale} scale"
