"""``securefl reproduce``: the tables and figures of a paper, from their files to numbers and verdicts."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, cast, get_args

import typer

import scenarios
from parties.arguments import DeviceOption, device_name
from parties.console import one_line_errors, say
from securefl.cli.listing import Listed, print_details, print_list
from securefl.cli.run import DataDirOption
from securefl.cli.study import Asked, reproduce_study
from securefl.cli.trials import reproduce_trials
from securefl.errors import ConfigError
from securefl.report.canvas import need_matplotlib
from securefl.reproduce.figure import ScaleName
from securefl.reproduce.freshness import CheckRecord, read_check
from securefl.reproduce.groups.sheet import trial_papers
from securefl.reproduce.page import entries, page
from securefl.reproduce.record import read_records, write_whole
from securefl.reproduce.sheets.exhibits import studies
from securefl.reproduce.sheets.study import Kind
from securefl.reproduce.shelf import Preset, choose, papers

RESULTS = Path("docs/results")
SEEDS = 2
"""Simulations per curve of a panel where nothing is said."""
_PRESETS = Path(scenarios.__path__[0]) / "papers"


def reproduce(
    context: typer.Context,
    paper: Annotated[
        str,
        typer.Argument(
            metavar="PAPER",
            help="Which paper: share, dp, weighting or br-ifca; or hidden-groups, tables of no paper.",
        ),
    ] = "share",
    *,
    figure: Annotated[
        list[str] | None,
        typer.Option(help="Panel (5f), figure (5: all its panels) or all. Repeat it, or separate by commas."),
    ] = None,
    table: Annotated[
        list[str] | None, typer.Option(help="Table (15) or all, of papers with tables. Likewise.")
    ] = None,
    dataset: Annotated[
        list[str] | None,
        typer.Option(
            help="Of papers with several: a name, npz:FILE or folder:DIR. Repeat it. When left out, all that"
            " are there."
        ),
    ] = None,
    aux: Annotated[
        str,
        typer.Option(
            help="Where a table takes the server's samples from another data set: a name, npz:FILE or"
            " folder:DIR, instead of the paper's."
        ),
    ] = "",
    listing: Annotated[
        bool,
        typer.Option(
            "--list",
            help="Run nothing; a line on each of them: title, scale, last verdict, time. With --figure or"
            " --table: those alone, with claims and numbers. At every scale that was run.",
        ),
    ] = False,
    write_page: Annotated[
        bool, typer.Option("--page", help="Write the page on all of them, from what was run before.")
    ] = False,
    check: Annotated[
        bool,
        typer.Option(
            "--check",
            help="Compute one cell of each result again, in part, and say which are not what the program"
            " computes today. With --figure or --table: those alone.",
        ),
    ] = False,
    scale: Annotated[str, typer.Option(help="desk: minutes; paper: the paper's own sizes, hours.")] = "desk",
    seeds: Annotated[
        int | None,
        typer.Option(
            min=1,
            max=100,
            help="Simulations per curve, of seeds 0, 1, ... (a seed is a split and an initial model). When"
            " left out: 2; of papers with tables, 1 at desk scale and 3 at the paper's; of br-ifca, the"
            " trials that the figure's own file says.",
        ),
    ] = None,
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
    """Run tables and figures of a paper again, and say whether its numbers and claims hold.

    What was interrupted goes on where it was when the same call is repeated; what is finished is not run
    again, unless with --fresh.

    Exit codes: 0 done, whatever the verdicts; 1 --check found a result that is stale; 2 refused; 3 aborted.
    """
    with one_line_errors():
        if listing or check:
            _refuse_what_runs(context, checks=check and not listing)
        if scale not in get_args(ScaleName):
            raise ConfigError("--scale", f"{scale!r} is no scale", f"{' or '.join(get_args(ScaleName))}")
        kinds: tuple[tuple[Kind, list[str] | None], ...] = (("table", table), ("figure", figure))
        asked = Asked(
            paper=paper,
            presets=_PRESETS,
            out=out or RESULTS / paper,
            items=tuple((kind, name) for kind, given in kinds for name in _names(given)),
            datasets=tuple(dataset or ()),
            auxiliary=aux,
            scale=cast("ScaleName", scale),
            seeds=seeds,
            data_dir=data_dir,
            device=device_name(device),
            jobs=jobs,
            fresh=fresh,
            page=write_page,
            listing=listing,
            check=check,
        )
        if not _reproduce(asked):
            raise typer.Exit(1)


def _reproduce(asked: Asked) -> bool:
    """Do what is asked, whatever the kind of paper; return whether all that was checked is as committed."""
    tabled, tried, shelf = studies(_PRESETS), trial_papers(_PRESETS), papers(_PRESETS)
    if asked.paper in tabled:
        return reproduce_study(asked)
    if asked.paper in tried:
        return reproduce_trials(asked)
    if asked.paper not in shelf:
        there = ", ".join(sorted((*shelf, *tabled, *tried)))
        raise ConfigError("PAPER", f"there are no figures of {asked.paper!r}", f"one of {there}")
    tables = any(kind == "table" for kind, _ in asked.items)
    for option, given in (("--table", tables), ("--dataset", asked.datasets), ("--aux", asked.auxiliary)):
        if given:
            raise ConfigError(
                option, f"{asked.paper} has figures only", "--figure, and another PAPER for tables"
            )
    return _figures(asked, shelf[asked.paper], tuple(name for _, name in asked.items))


def _refuse_what_runs(context: typer.Context, *, checks: bool) -> None:
    """A list runs nothing, and a check keeps nothing: what says how to run is a mistake beside them."""
    options = ("seeds", "jobs", "fresh") if checks else ("scale", "seeds", "jobs", "fresh")
    sources = {name: context.get_parameter_source(name) for name in options}
    given = [f"--{name}" for name, source in sources.items() if source and source.name == "COMMANDLINE"]
    if given:
        reason = (
            "--check computes a part of what was run, and keeps nothing of it"
            if checks
            else "--list runs nothing, and shows every scale that was run"
        )
        raise ConfigError(", ".join(given), reason, "leave out one or the other")


def _figures(asked: Asked, presets: tuple[Preset, ...], wanted: tuple[str, ...]) -> bool:
    """The same for a paper of panels: draw, check, write the page, list."""
    chosen = choose(presets, wanted) if wanted else ()
    if not (chosen or asked.listing or asked.page or asked.check):
        raise ConfigError("--figure", "nothing to do", "--figure 5f, --figure all, --list, --check or --page")
    if chosen and asked.runs:
        need_matplotlib()
        # Only this way needs torch; the list and the page are there without it.
        from securefl.cli.figures import (  # noqa: PLC0415 - imports torch, which --list need not wait for
            draw_figures,
        )

        draw_figures(
            chosen,
            asked.scale,
            seeds=asked.seeds or SEEDS,
            out=asked.out,
            data_dir=asked.data_dir,
            device=asked.device,
            jobs=asked.jobs,
            fresh=asked.fresh,
        )
    as_committed = True
    if asked.check:
        from securefl.cli.check import check_panels  # noqa: PLC0415 - imports torch, which --list need not wait for

        as_committed = check_panels(asked, chosen or presets)
    check = read_check(asked.out)
    if asked.page:
        records = read_records(asked.out)
        if not records:
            raise ConfigError("--page", f"there is no figure in {asked.out}", "draw one first: --figure 5f")
        target = asked.out.parent / f"{asked.out.name}.md"
        write_whole(target, page(asked.paper, presets, records, asked.out.name, check).encode())
        say(f"wrote {target}")
    if asked.listing:
        show = print_details if chosen else print_list
        show(_listed(chosen or presets, asked.out, check))
    return as_committed


def _names(given: list[str] | None) -> tuple[str, ...]:
    return tuple(name for one in given or () for name in one.split(",") if name)


def _listed(presets: tuple[Preset, ...], folder: Path, check: CheckRecord) -> Iterator[Listed]:
    for entry in entries(presets, read_records(folder), check):
        figure, record = entry.preset.figure, entry.record
        verdicts, time = (record.verdicts, entry.time()) if record else (None, "")
        yield Listed(
            figure.panel, figure.title, figure.claim, entry.scale, verdicts, time, entry.outdated, entry.mark
        )
