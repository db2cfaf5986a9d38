"""``securefl reproduce``: the tables and figures of a paper, from their files to numbers and verdicts."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, cast, get_args

import typer

from securefl.base.errors import ConfigError
from securefl.cli import experiments
from securefl.cli.asked import Asked, sources_of
from securefl.cli.console import say
from securefl.cli.options import DataDirOption, DeviceOption, JobsOption, device_name
from securefl.lab import plots
from securefl.lab.experiments import (
    Exhibit,
    Kind,
    ScaleName,
    Source,
    choose_exhibits,
    exhibits,
    page,
    papers,
    read_check,
    read_records,
    shown,
    write_result,
)
from securefl.runtime import launch

RESULTS = Path("docs/results")
_PRESETS = launch.scenario_folder() / "papers"
PictureOption = Annotated[
    plots.Format | None,
    typer.Option("--picture", help="A second file of each picture, svg or pdf, beside PNG."),
]


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
    jobs: JobsOption = 2,
    picture: PictureOption = None,
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
        also=picture,
        page=write_page,
        listing=listing,
        check=check,
    )
    if not _reproduce(asked):
        raise typer.Exit(1)


def _reproduce(asked: Asked) -> bool:
    """Do what is asked; return whether all that was checked is as committed.

    Raises:
        ConfigError: a file, a number, data or the device are refused.
        RunAbortedError: the disk is full or gone, or a process died.
    """
    there = papers(_PRESETS)
    if asked.paper not in there:
        raise ConfigError("PAPER", f"there are no figures of {asked.paper!r}", f"one of {', '.join(there)}")
    known = exhibits(_PRESETS, asked.paper)
    _refuse_no_use(asked, known)
    chosen = choose_exhibits(known, asked.items) if asked.items else ()
    if asked.auxiliary and not any(one.item.auxiliary for one in chosen):
        needy = [f"--{one.item.kind} {one.item.number}" for one in known if one.item.auxiliary]
        raise ConfigError("--aux", "nothing of what is asked for needs another data set", " or ".join(needy))
    if not (chosen or asked.listing or asked.page or asked.check):
        kind = known[0].item.kind
        options = " or ".join(f"--{one} N" for one in sorted({one.item.kind for one in known}, reverse=True))
        raise ConfigError(f"--{kind}", "nothing to do", f"{options}, --list, --check or --page")
    if chosen and asked.runs:
        _run(asked, chosen)
    as_committed = True
    if asked.check:
        from securefl.cli.check import check_results  # noqa: PLC0415 - imports torch, which --list need not wait for

        as_committed = check_results(asked, chosen or known)
    if asked.page:
        write_page(known, asked.out)
    if asked.listing:
        show = experiments.print_details if chosen else experiments.print_list
        show(shown(chosen or known, read_records(asked.out), read_check(asked.out)))
    return as_committed


def write_page(known: Sequence[Exhibit], out: Path) -> None:
    """Write the page on all exhibits of a paper beside the folder of its results.

    Raises:
        ConfigError: nothing was run, and there are no published numbers either.
        RunAbortedError: the disk is full or gone.
    """
    records, first = read_records(out), known[0].item
    if not records and not any(one.item.published for one in known):
        raise ConfigError(
            "--page", f"there is no {first.kind} in {out}", f"run one first: --{first.kind} {first.number}"
        )
    target = out.parent / f"{out.name}.md"
    write_result(target, page(known, records, out.name, read_check(out)).encode())
    say(f"wrote {target}")


def _refuse_no_use(asked: Asked, known: Sequence[Exhibit]) -> None:
    """Refuse what experiments without named data sets have no use for."""
    first = known[0]
    if first.named:
        return
    drawn = first.drawn is not None
    why = "draws its problems and reads no data" if drawn else "has figures on one data set only"
    for option, given in (("--dataset", asked.datasets), ("--aux", asked.auxiliary)):
        if given:
            raise ConfigError(option, f"{asked.paper} {why}", "leave it out")
    if drawn and asked.device not in {None, "cpu"}:
        raise ConfigError("--device", f"trials of {asked.paper} are computed on the CPU", "leave it out")


def _run(asked: Asked, chosen: tuple[Exhibit, ...]) -> None:
    wanted: list[tuple[Exhibit, tuple[Source, ...]]] = []
    left_out: dict[str, None] = {}
    for exhibit in chosen:
        try:
            sources, lacking = sources_of(asked, exhibit)
        except ConfigError as error:
            # One of several is left out; the only one is refused.
            if len(chosen) == 1:
                raise
            lacking = [f"{exhibit.item.kind} {exhibit.item.number}: {error}"]
        else:
            wanted.append((exhibit, sources))
        left_out.update(dict.fromkeys(lacking))
    if not wanted:
        raise ConfigError("--data-dir", "nothing of what is asked for has its data", "; ".join(left_out))
    plots.need_matplotlib()
    for line in left_out:
        say(f"left out: {line}")
    experiments.run_experiments(
        wanted,
        asked.scale,
        asked.out,
        seeds=asked.seeds,
        data_dir=asked.data_dir,
        device=asked.device,
        jobs=asked.jobs,
        fresh=asked.fresh,
        also=asked.also,
    )


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


def _names(given: list[str] | None) -> tuple[str, ...]:
    return tuple(name for one in given or () for name in one.split(",") if name)
