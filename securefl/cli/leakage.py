"""``securefl leakage``: what reclusterings reveal, drawn over a range of settings; nothing is trained."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table
from rich.text import Text

import scenarios
from parties.console import one_line_errors, say
from securefl.errors import ConfigError
from securefl.privacy.accountant import need_dp_accounting
from securefl.report.canvas import need_matplotlib
from securefl.report.console import Terminal
from securefl.report.figures import draw_sweep
from securefl.reproduce.leakage.page import leakage_page
from securefl.reproduce.leakage.record import (
    CellRecord,
    RowRecord,
    SweepRecord,
    plot_of,
    read_sweep_records,
    run_sweep,
)
from securefl.reproduce.leakage.sweep import Sweep, read_sweep
from securefl.reproduce.record import encode, write_whole

RESULTS = Path("docs/results/leakage")
_BUNDLED = Path(scenarios.__path__[0]) / "leakage"


def leakage(
    sweeps: Annotated[
        list[str] | None,
        typer.Argument(metavar="SWEEP", help="Names of bundled sweeps (all: every one), or TOML files."),
    ] = None,
    *,
    out: Annotated[Path, typer.Option(help="Where NAME.json and NAME.png go.")] = RESULTS,
    write_page: Annotated[
        bool, typer.Option("--page", help="Write the page on all sweeps in --out, beside it.")
    ] = False,
) -> None:
    """Draw random reclusterings over a range of settings, and count whose updates the server then knows.

    What sums determine follows from who is in them: no data are needed, and nothing is trained.

    Exit codes: 0 done; 2 refused; 3 aborted.
    """
    with one_line_errors():
        if not sweeps and not write_page:
            raise ConfigError(
                "SWEEP", "nothing to do", f"one of {', '.join(_names())}, all, a file, or --page"
            )
        need_matplotlib()
        for sweep in [read_sweep(path) for name in sweeps or () for path in _paths(name)]:
            _run(sweep, out)
        if write_page:
            records = read_sweep_records(out)
            if not records:
                raise ConfigError(
                    "--page", f"there is no sweep in {out}", "run one first: securefl leakage all"
                )
            target = out.parent / f"{out.name}.md"
            write_whole(target, leakage_page(records, out.name).encode())
            say(f"wrote {target}")


def _run(sweep: Sweep, out: Path) -> None:
    say(f"{sweep.name}: {sweep.title}")
    if sweep.accounting is not None:
        need_dp_accounting()
    rows = sum(1 for _ in sweep.settings())

    def on_row(number: int, row: RowRecord) -> None:
        whole = next((cell.reclusterings for cell in row.cells if cell.seen and min(cell.seen) == 1), None)
        found = f"everybody is exposed from R = {whole} on" if whole else "not everybody is exposed"
        say(f"  {number + 1} of {rows}: {row.label}: {found}; R* = {row.threshold}")

    record = run_sweep(sweep, on_row)
    picture = draw_sweep(plot_of(record))
    write_whole(out / f"{record.name}.json", encode(record))
    write_whole(out / f"{record.name}.png", picture)
    Terminal().print(_table(record))
    entries = "share of exposed parties, mean" if sweep.accounting is None else "epsilon of the run, worst"
    say(f"  {out / record.name}.json and .png; {entries} of {record.draws} draws")


def _table(record: SweepRecord) -> Table:
    table = Table(box=None, pad_edge=False, show_edge=False)
    columns = sorted({cell.reclusterings for row in record.rows for cell in row.cells})
    table.add_column("")
    for column in columns:
        table.add_column(f"R={column}", justify="right", no_wrap=True)
    for row in record.rows:
        shown = {cell.reclusterings: _shown(cell) for cell in row.cells}
        table.add_row(*map(Text, (row.label, *(shown.get(column, "") for column in columns))))
    return table


def _shown(cell: CellRecord) -> str:
    if cell.epsilon is not None:
        return f"{cell.epsilon:.3g}"
    return "-" if cell.mean is None else f"{cell.mean:.0%}"


def _names() -> list[str]:
    return sorted(path.stem for path in _BUNDLED.glob("*.toml"))


def _paths(name: str) -> list[Path]:
    if name == "all":
        return [_BUNDLED / f"{one}.toml" for one in _names()]
    if name in _names():
        return [_BUNDLED / f"{name}.toml"]
    path = Path(name)
    if not path.exists():
        raise ConfigError(
            "SWEEP", f"there is no sweep {name!r}", f"one of {', '.join(_names())}, all, or a file"
        )
    return [path]
