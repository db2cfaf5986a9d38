"""Running a comparison and showing what came of it. Imports torch."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import typer
from rich.table import Table
from rich.text import Text

from parties.console import say
from securefl.cli.batch import begin, simulate
from securefl.errors import ConfigError
from securefl.report.console import Terminal
from securefl.report.text import seconds as spoken
from securefl.reproduce.comparison import Comparison, Plan, nothing_left
from securefl.reproduce.contrast import Cell, ComparisonRecord, contrast, keep, matrix, value
from securefl.reproduce.drawing import Batch
from securefl.reproduce.measure import Job
from securefl.reproduce.record import LEAKAGE_REPORTED


def run_comparison(
    path: Path, comparison: Comparison, planned: Plan, batch: Batch, *, fresh: bool, as_json: bool
) -> None:
    """Simulate, judge, draw and show.

    Args:
        path: of the comparison file; its stem names what is written.
        comparison: what it says.
        planned: the scenarios that it makes.
        batch: their simulations.
        fresh: without what was simulated before.
        as_json: print the record and nothing else.

    Raises:
        ConfigError: the device is not there, or every curve is refused.
        RunAbortedError: the disk is full or gone, or a process died.
    """
    begin([batch], fresh=fresh)
    if not as_json:
        say(comparison.title)
    refused: dict[str, str] = {}

    def on_refused(job: Job, error: ConfigError) -> None:
        refused[job.stem] = str(error)

    results = simulate(batch, on_refused, quiet=as_json)
    record = contrast(comparison, planned, batch, results, refused)
    if all(cell.refused for cell in record.curves):
        raise nothing_left(path, {cell.label: cell.refused for cell in record.curves})
    written = keep(record, batch, path.stem)
    if as_json:
        typer.echo(written, nl=False)
        return
    _show(record)
    say(f"{batch.out / path.stem}.png and .json, {spoken(record.seconds)} of computing")


def _show(record: ComparisonRecord) -> None:
    """Table, reasons of refusals, verdicts."""
    if record.note:
        say(record.note)
    if record.leakage_reported:
        say(LEAKAGE_REPORTED)
    reasons = list(dict.fromkeys(cell.refused for cell in record.curves if cell.refused))
    console = Terminal()
    table = matrix(record)
    apart = record.curves
    if table is not None:
        cells = [[name, *(_cell(cell, reasons) for cell in row)] for name, row in table.rows]
        console.print(_table([f"{table.row_name} \\ {table.column_name}", *table.columns], cells))
        apart = tuple(cell for cell in apart if not cell.place)
    if apart:
        ranked = sorted(apart, key=lambda cell: 2.0 if cell.final is None else -cell.final)
        console.print(_table(["curve", "accuracy"], [[c.label, _cell(c, reasons)] for c in ranked]))
    say(f"accuracy on the test set, mean of the last {record.last} of {record.rounds} rounds")
    for number, reason in enumerate(reasons, 1):
        say(f"refused ({number}): {reason}")
    for cell in record.curves:
        for ended in sorted({seed.ended for seed in cell.seeds if seed.ended}):
            say(f"{cell.label}: {ended}")
    for verdict in record.verdicts:
        say(str(verdict))
    for line in record.unjudged:
        say(f"not judged: {line}")


def _cell(cell: Cell, reasons: Sequence[str]) -> str:
    """Its accuracy, or the number of the line that says why there is none."""
    return value(cell) + (f" ({reasons.index(cell.refused) + 1})" if cell.refused else "")


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> Table:
    table = Table(box=None, pad_edge=False, show_edge=False)
    for index, name in enumerate(head):
        table.add_column(Text(name), justify="right" if index else "left")
    for row in rows:
        table.add_row(*map(Text, row))
    return table
