"""``securefl reproduce``: the figures of a paper, from their files to curves and verdicts."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, cast, get_args

import typer
from rich.table import Table
from rich.text import Text

import scenarios
from parties.arguments import DeviceOption, device_name
from parties.console import one_line_errors, say
from securefl.cli.run import DataDirOption
from securefl.errors import ConfigError
from securefl.report.console import Terminal
from securefl.report.figures import need_matplotlib
from securefl.reproduce.figure import ScaleName
from securefl.reproduce.page import entries, page
from securefl.reproduce.record import read_records, write_whole
from securefl.reproduce.shelf import Preset, choose, papers

RESULTS = Path("docs/results")
_PRESETS = Path(scenarios.__path__[0]) / "papers"


def reproduce(
    paper: Annotated[str, typer.Argument(help="Which paper.")] = "share",
    *,
    figure: Annotated[
        list[str] | None,
        typer.Option(help="Panel (5f), figure (5: all its panels) or all. Repeat it, or separate by commas."),
    ] = None,
    listing: Annotated[
        bool, typer.Option("--list", help="Show every panel: claim, last verdict, scale, time.")
    ] = False,
    write_page: Annotated[
        bool, typer.Option("--page", help="Write the page on all panels, from what was drawn before.")
    ] = False,
    scale: Annotated[str, typer.Option(help="desk: minutes; paper: the paper's own sizes, hours.")] = "desk",
    seeds: Annotated[
        int,
        typer.Option(
            min=1,
            max=100,
            help="Simulations per curve, of seeds 0, 1, ... (a seed is a split and an initial model).",
        ),
    ] = 2,
    device: DeviceOption = None,
    data_dir: DataDirOption = None,
    out: Annotated[
        Path | None, typer.Option(help="Where JSON and PNG files go; docs/results/<paper> when left out.")
    ] = None,
    jobs: Annotated[int, typer.Option(min=1, max=64, help="Simulations at the same time.")] = 2,
    fresh: Annotated[
        bool,
        typer.Option(
            "--fresh", help="Simulate again what is finished: after a change of code or of data files."
        ),
    ] = False,
) -> None:
    """Draw figures of a paper again, and say whether its claims hold.

    What was interrupted goes on where it was when the same call is repeated; what is finished is not run
    again, unless with --fresh.

    Exit codes: 0 done, whatever the verdicts; 2 refused; 3 aborted.
    """
    with one_line_errors():
        shelf = papers(_PRESETS)
        if paper not in shelf:
            raise ConfigError("PAPER", f"there are no figures of {paper!r}", f"one of {', '.join(shelf)}")
        folder = out or RESULTS / paper
        wanted = tuple(name for given in figure or () for name in given.split(",") if name)
        chosen = choose(shelf[paper], wanted) if wanted else ()
        if scale not in get_args(ScaleName):
            raise ConfigError("--scale", f"{scale!r} is no scale", f"{' or '.join(get_args(ScaleName))}")
        if not (chosen or listing or write_page):
            raise ConfigError("--figure", "nothing to do", "--figure 5f, --figure all, --list or --page")
        if chosen:
            need_matplotlib()
            # Only this way needs torch; the list and the page are there without it.
            from securefl.cli.figures import (  # noqa: PLC0415 - imports torch, which --list need not wait for
                draw_figures,
            )

            draw_figures(
                chosen,
                cast("ScaleName", scale),
                seeds=seeds,
                out=folder,
                data_dir=data_dir,
                device=device_name(device),
                jobs=jobs,
                fresh=fresh,
            )
        if write_page:
            records = read_records(folder)
            if not records:
                raise ConfigError("--page", f"there is no figure in {folder}", "draw one first: --figure 5f")
            target = folder.parent / f"{folder.name}.md"
            text = page(paper, shelf[paper], records, folder.name)
            write_whole(target, text.encode())
            say(f"wrote {target}")
        if listing:
            _show(shelf[paper], folder)


def _show(presets: tuple[Preset, ...], folder: Path) -> None:
    table = Table(box=None, pad_edge=False, show_edge=False)
    for column in ("figure", "claim", "scale", "last verdict", "time"):
        table.add_column(column, no_wrap=column in {"figure", "scale", "time"})
    for entry in entries(presets, read_records(folder)):
        cells = (
            entry.preset.figure.panel,
            entry.preset.figure.claim,
            entry.scale,
            entry.verdict(),
            entry.time(),
        )
        table.add_row(*(Text(cell) for cell in cells))
    Terminal().print(table)
