"""What a terminal shows of a table or figure that was run on a data set."""

from __future__ import annotations

from collections.abc import Iterator

from rich.table import Table
from rich.text import Text

from parties.console import say
from securefl.report.console import Terminal
from securefl.report.text import counted
from securefl.reproduce.record import LEAKAGE_REPORTED
from securefl.reproduce.sheets.record import CellRecord, SheetRecord, grid, value
from securefl.reproduce.sheets.report import privacy_of
from securefl.reproduce.sheets.study import SPLITS


def tell_record(record: SheetRecord) -> None:
    """Table, reasons of refusals, verdicts."""
    if record.note:
        say(f"  {record.note}")
    if record.leakage_reported:
        say(f"  {LEAKAGE_REPORTED}")
    Terminal().print(_table(record))
    paper = "; in brackets the paper's" if any(cell.published is not None for cell in record.cells) else ""
    many = counted(record.seeds, "seed")
    say(f"  {record.measure}; {many}{paper}; {record.agreement()}")
    for line in (*privacy_of(record), *_ends(record), *record.losses, *map(str, record.verdicts)):
        say(f"  {line}")
    for unjudged in record.unjudged:
        say(f"  not judged: {unjudged}")


def _ends(record: SheetRecord) -> Iterator[str]:
    """Why cells have no result, or ended early."""
    yield from record.refusals
    for cell in record.cells:
        for ended in sorted({seed.ended for seed in cell.seeds if seed.ended}):
            yield f"{cell.label}: {ended}"


def _table(record: SheetRecord) -> Table:
    table = grid(record)
    shown = Table(box=None, pad_edge=False, show_edge=False)
    if len(record.axes) == 1:
        head = [table.column_name, "measure" if record.shows in SPLITS else "accuracy"]
        rows = [[cell.label, _entry(cell)] for cell in record.cells]
    else:
        head = [f"{table.row_name} \\ {table.column_name}", *table.columns]
        rows = [[row, *map(_entry, cells)] for row, cells in table.rows]
    for index, name in enumerate(head):
        shown.add_column(Text(name), justify="right" if index else "left")
    for entries in rows:
        shown.add_row(*map(Text, entries))
    return shown


def _entry(cell: CellRecord) -> str:
    return value(cell) + ("" if cell.published is None else f" ({cell.published:.2f})")
