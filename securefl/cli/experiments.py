"""Experiments on a terminal. Modules that simulate are imported for runs only: lists need no torch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING

from rich.table import Table
from rich.text import Text

from securefl.base.errors import ConfigError
from securefl.cli.console import say
from securefl.cli.experiment_options import Effort
from securefl.lab.experiments import (
    LEAKAGE_REPORTED,
    SPLITS,
    CellPlan,
    CellRecord,
    Exhibit,
    ExhibitResults,
    Record,
    Rulings,
    ScaleName,
    Shown,
    Source,
    Sweep,
    grid,
    keep,
    privacy_of,
    read_records,
    ruling_lines,
    rulings_of,
    tabulate,
    time_of,
)
from securefl.runtime import report

if TYPE_CHECKING:
    from securefl.cli.batch import Batch

_GAP = 2
_LEAST = 12
_SOME = 32
"""Characters of a verdict that precede a title's."""


def run_experiments(
    wanted: Sequence[tuple[Exhibit, Sequence[Source]]],
    scale: ScaleName,
    out: Path,
    effort: Effort,
    *,
    quiet: bool = False,
    family: Sequence[Exhibit] | None = None,
) -> list[tuple[Record, bytes]]:
    """Run tables and figures in turn, each on its data sets; keep and return their records.

    Args:
        wanted: exhibits with their data.
        scale: of all exhibits.
        out: folder for results; simulations are in its ``.work``.
        effort: options of the simulations and pictures.
        quiet: print nothing.
        family: exhibits whose claims are judged together; each alone if None.

    Raises:
        ConfigError: a file, data or the device is refused, possibly after earlier exhibits.
        RunAbortedError: the disk is full or gone, or a process died.
    """
    from securefl.cli.batch import Batch, begin  # noqa: PLC0415 - imports torch

    planned = [
        (one, source, one.plan(scale, source if one.named else None))
        for one, sources in wanted
        for source in sources
    ]
    batches = [Batch.of(one, scale, plan, out, effort) for one, _, plan in planned]
    begin(batches, fresh=effort.fresh)
    done = []
    for (exhibit, source, plan), batch in zip(planned, batches, strict=True):
        if not quiet:
            for line in _headline(exhibit, source, scale):
                say(line)
        record = _run(exhibit, source, scale, plan, batch, quiet=quiet)
        done.append((record, keep(record, out, effort.picture)))
        if not quiet:
            indent = "  " if exhibit.paper else ""
            known = [exhibit] if family is None else family
            tell_record(record, rulings_of(known, read_records(out))[record.stem], indent)
            files = f"{out / record.stem}.png, .csv, .tex and .json"
            say(f"{indent}{files}, {report.seconds(record.seconds)} of computing")
    return done


def _headline(exhibit: Exhibit, source: Source, scale: ScaleName) -> Iterator[str]:
    item, data = exhibit.item, f" on {source.dataset.name}" if source.dataset.name else ""
    if not exhibit.paper:
        yield exhibit.title
        return
    name = (
        item.number
        if isinstance(exhibit.drawn, Sweep)
        else f"{item.kind} {item.number}{data} ({scale} scale)"
    )
    yield f"{name}: {exhibit.title}"
    yield f"  claim: {exhibit.claim}"


def _run(
    exhibit: Exhibit, source: Source, scale: ScaleName, plan: CellPlan, batch: Batch, *, quiet: bool
) -> Record:
    from securefl.lab.experiments import versions  # noqa: PLC0415 - asks torch for its version

    done = ExhibitResults(
        exhibit=exhibit,
        dataset=source.dataset,
        scale=scale,
        plan=plan,
        refused=dict(plan.refused),
        # Draws and splits are made here, one after another.
        jobs=1 if isinstance(exhibit.drawn, Sweep) or exhibit.sheet.shows in SPLITS else batch.processes,
        auxiliary=source.instead,
        versions=versions(),
    )
    if isinstance(exhibit.drawn, Sweep):
        _draw(done, exhibit.drawn, quiet=quiet)
    elif exhibit.sheet.shows in SPLITS:
        _split(done, batch)
    else:
        _simulate(done, batch, quiet=quiet)
    return tabulate(done)


def _draw(done: ExhibitResults, sweep: Sweep, *, quiet: bool) -> None:
    from securefl.lab.experiments import draw_cell  # noqa: PLC0415 - not before it is wanted

    rows = groupby(done.exhibit.cells_at(done.scale), key=lambda cell: cell.place[0])
    for number, (row, cells) in enumerate(rows, 1):
        whole = ""
        for cell in cells:
            draws, done.values[cell.label] = draw_cell(sweep, cell.place)
            done.results[cell.label] = list(draws)
            if not whole and min((share for seed in draws for share in seed.accuracies), default=0) == 1:
                whole = cell.place[1]
        if not quiet:
            found = f"all parties are exposed from {whole} on" if whole else "some parties are not exposed"
            threshold = sweep.at((row, "R = 1"))[0].threshold
            of = len(done.exhibit.sheet.axes[0].choices)
            say(f"  {number} of {of}: {row}: {found}; R* = {threshold}")


def _split(done: ExhibitResults, batch: Batch) -> None:
    from securefl.cli.splits import split_of  # noqa: PLC0415 - imports torch
    from securefl.lab.experiments import SimulationJob  # noqa: PLC0415 - imports torch

    for label, job in batch.simulations:
        if not isinstance(job, SimulationJob):
            raise TypeError(job)
        split, shown = split_of(job, done.exhibit.sheet.shows)
        done.results.setdefault(label, []).append(split)
        done.shares.setdefault(label, shown)


def _simulate(done: ExhibitResults, batch: Batch, *, quiet: bool) -> None:
    from securefl.cli.batch import simulate  # noqa: PLC0415 - imports torch

    found, why = simulate(batch, quiet=quiet)
    for label, job in batch.simulations:
        if job.stem in why:
            done.refused.setdefault(label, str(why[job.stem]))
        elif not found[job.stem].accuracies:
            done.refused.setdefault(label, found[job.stem].ended)
        else:
            done.results.setdefault(label, []).append(found[job.stem])
    for label in done.refused:
        done.results.pop(label, None)
    if not done.results:
        exhibit = done.exhibit
        reasons = {cell.label: done.refused[cell.label] for cell in exhibit.cells_at(done.scale)}
        if not exhibit.paper:
            raise exhibit.all_refused(reasons)
        # One error in all of them is a fault of data or machine, not part of the answer.
        raise next(iter(why.values()), ConfigError(exhibit.path.name, next(iter(reasons.values()))))


def tell_record(record: Record, rulings: Rulings, indent: str = "  ") -> None:
    """Print notes, tables, measure, refusals, losses and rulings.

    ``indent`` precedes each line outside the tables.
    """
    lines = [record.note] if record.note else []
    lines += [LEAKAGE_REPORTED] if record.leakage_reported else []
    for line in lines:
        say(f"{indent}{line}")
    for table in _tables(record):
        report.Terminal().print(table)
    paper = "; in brackets the paper's" if any(cell.published is not None for cell in record.cells) else ""
    agreed = f"; {record.agreement()}" if record.dataset else ""
    rows = (
        f"{record.measure}; {record.spreads}{paper}{agreed}",
        *privacy_of(record),
        *record.refusals,
        *(f"{cell.label}: {end}" for cell in record.cells for end in _ends(cell)),
        *record.losses,
        *ruling_lines(rulings),
    )
    for line in rows:
        say(f"{indent}{line}")


def _ends(cell: CellRecord) -> list[str]:
    return sorted({seed.ended for seed in cell.seeds if seed.ended})


def _tables(record: Record) -> Iterator[Table]:
    """Yield the grid of two or more axes, and a list of other cells, best first in a comparison."""
    apart = list(record.cells)
    if len(record.axes) > 1:
        table = grid(record)
        rows = [[name, *(_entry(record, cell) for cell in cells)] for name, cells in table.rows]
        yield _table([f"{table.row_name} \\ {table.column_name}", *table.columns], rows)
        apart = [cell for cell in apart if not cell.place]
    if apart:
        if not record.paper:
            worse = 1.0 if record.lower_is_better else -1.0
            apart.sort(key=lambda cell: (cell.final is None, worse * (cell.final or 0.0)))
        accuracy = "accuracy" if record.measure.startswith("accuracy") else "measure"
        head = ["curve", record.metric or accuracy]
        yield _table(head, [[cell.label, _entry(record, cell)] for cell in apart])


def _entry(record: Record, cell: CellRecord | None) -> str:
    if cell is None:
        return ""
    mark = "*" if cell.marked else ""
    return mark + record.value(cell) + ("" if cell.published is None else f" ({cell.published:.2f})")


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> Table:
    table = Table(box=None, pad_edge=False, show_edge=False)
    for index, name in enumerate(head):
        table.add_column(Text(name), justify="right" if index else "left")
    for row in rows:
        table.add_row(*map(Text, row))
    return table


def print_list(known: Sequence[Shown]) -> None:
    """Print a line for each record of each table and figure.

    Long titles are cut.
    """
    figures = all(one.exhibit.item.kind == "figure" and not one.exhibit.named for one in known)
    heads = (
        "figure" if figures else "",
        "what",
        "scale" if figures else "data, scale",
        "last verdict",
        "time",
    )
    groups: dict[str, list[tuple[str, ...]]] = {}
    for _, family in groupby(known, key=lambda one: one.exhibit.path):
        for one in family:
            item = one.exhibit.item
            name = item.number if figures else f"  {item.kind} {item.number}"
            of_it = groups.setdefault("" if figures else one.exhibit.sheet.title, [])
            for record in one.records:
                where = ", ".join(filter(None, (record.dataset, record.scale)))
                verdict = one.verdict(record)
                of_it.append((name, " ".join(item.title.split()), where, verdict, time_of(record)))
            if not one.records:
                of_it.append((name, " ".join(item.title.split()), "", "not run", ""))
    rows = [row for some in groups.values() for row in some]
    widths = [max(map(len, column)) for column in zip(heads, *rows, strict=True)]
    terminal = report.Terminal()
    over = sum(widths) + _GAP * (len(heads) - 1) - terminal.width
    for column, least in ((3, _SOME), (1, _LEAST), (3, _LEAST)):
        cut = max(0, min(over, widths[column] - least))
        widths[column], over = widths[column] - cut, over - cut
    if figures:
        terminal.print(_line(heads, widths))
    for title, some in groups.items():
        if title:
            terminal.print(Text(title, style="bold"))
        for row in some:
            terminal.print(_line(row, widths))


def _line(cells: Sequence[str], widths: Sequence[int]) -> Table:
    table = Table(box=None, pad_edge=False, show_edge=False, show_header=False)
    for index, width in enumerate(widths):
        # A verdict is wrapped, a title is cut.
        table.add_column(no_wrap=index != 3, overflow="ellipsis" if index != 3 else "fold", width=width)
    table.add_row(*map(Text, cells))
    return table


def print_details(known: Sequence[Shown]) -> None:
    """Print title, claim, and all runs with numbers and verdicts."""
    for one in known:
        item = one.exhibit.item
        say(f"{item.kind} {item.number}: {one.exhibit.title}")
        say(f"  claim of {item.kind} {item.number}: {one.exhibit.claim}")
        for record in one.records:
            where = f"{record.dataset}, {record.scale}" if record.dataset else record.scale
            say(f"  {where} scale: {one.verdict(record)}, {time_of(record)}")
            tell_record(record, one.rulings[record.stem], "    ")
        for dataset in one.missing():
            reason = f" ({dataset.unavailable})" if dataset.unavailable else ""
            say(f"  {dataset.name}: not run{reason}" if dataset.name else "  not run")
