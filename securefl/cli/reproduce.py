"""``securefl reproduce``: tables and figures of a paper."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import typer

from securefl.base.errors import ConfigError
from securefl.cli import experiments, options
from securefl.cli.console import say
from securefl.cli.experiment_options import Asked, sources_of
from securefl.lab import plots
from securefl.lab.experiments import (
    Exhibit,
    Source,
    choose_exhibits,
    exhibits,
    page,
    papers,
    read_check,
    read_earlier,
    read_records,
    shown_exhibits,
    write_result,
)
from securefl.runtime import launch

_PRESETS = launch.scenario_folder() / "papers"


@options.spread
def reproduce(asked: Asked, context: typer.Context) -> None:
    """Reproduce tables and figures of a paper, and check its numbers and claims.

    The same call resumes interrupted simulations, and repeats no finished one, unless with --fresh.

    Exit codes: 0 done, whatever the verdicts; 1 --check found a stale result; 2 refused; 3 aborted.
    """
    if not asked.runs:
        _refuse_what_runs(context, checks=not asked.listing)
    if not _reproduce(asked):
        raise typer.Exit(1)


def _reproduce(asked: Asked) -> bool:
    """Run the requested actions; return False if a checked result is stale.

    Raises:
        ConfigError: a file, a number, data or the device is refused.
        RunAbortedError: the disk is full or gone, or a process died.
    """
    there = papers(_PRESETS)
    if asked.paper not in there:
        raise ConfigError(
            "PAPER", f"there are no figures of {asked.paper!r}", f"give one of {', '.join(there)}"
        )
    known = exhibits(_PRESETS, asked.paper)
    _refuse_no_use(asked, known)
    chosen = choose_exhibits(known, asked.items) if asked.items else ()
    if asked.aux and not any(one.item.auxiliary for one in chosen):
        needy = " or ".join(f"--{one.item.kind} {one.item.number}" for one in known if one.item.auxiliary)
        remedy = f"leave it out{needy and f', or add {needy}'}"
        raise ConfigError("--aux", "no chosen table or figure needs another data set", remedy)
    if not (chosen or asked.listing or asked.page or asked.check):
        kind = known[0].item.kind
        options = " or ".join(f"--{one} N" for one in sorted({one.item.kind for one in known}, reverse=True))
        remedy = f"give {options}, --list, --check or --page"
        raise ConfigError(f"--{kind}", "is missing, so there is nothing to do", remedy)
    if chosen and asked.runs:
        _run(asked, chosen, known)
    as_committed = True
    if asked.check:
        from securefl.cli.check import check_results  # noqa: PLC0415 - imports torch, which --list need not wait for

        as_committed = check_results(asked, chosen or known)
    if asked.page:
        write_page(known, asked.folder)
    if asked.listing:
        show = experiments.print_details if chosen else experiments.print_list
        everything = shown_exhibits(known, read_records(asked.folder), read_check(asked.folder))
        show([one for one in everything if not chosen or one.exhibit in chosen])
    return as_committed


def write_page(known: Sequence[Exhibit], out: Path) -> None:
    """Write the page on all exhibits of a paper beside the folder of its results.

    Raises:
        ConfigError: there are neither results nor published numbers.
        RunAbortedError: the disk is full or gone.
    """
    records, first = read_records(out), known[0].item
    if not records and not any(one.item.published for one in known):
        raise ConfigError(
            "--page", f"{out} holds no result yet", f"run one first, as --{first.kind} {first.number}"
        )
    target = out.parent / f"{out.name}.md"
    write_result(target, page(known, records, out.name, read_check(out), read_earlier(out)).encode())
    say(f"wrote {target}")


def _refuse_no_use(asked: Asked, known: Sequence[Exhibit]) -> None:
    first = known[0]
    if first.named:
        return
    drawn = first.drawn is not None
    why = "draws its problems and reads no data" if drawn else "has figures of one data set only"
    for option, given in (("--dataset", asked.dataset), ("--aux", asked.aux)):
        if given:
            raise ConfigError(option, f"{asked.paper} {why}", "leave it out")
    if drawn and asked.device not in {None, "cpu"}:
        raise ConfigError("--device", f"trials of {asked.paper} are computed on the CPU", "leave it out")


def _run(asked: Asked, chosen: tuple[Exhibit, ...], known: Sequence[Exhibit]) -> None:
    wanted: list[tuple[Exhibit, tuple[Source, ...]]] = []
    left_out: dict[str, None] = {}
    for exhibit in chosen:
        try:
            sources, lacking = sources_of(asked, exhibit)
        except ConfigError as error:
            # Left out if one of several; refused if the only one.
            if len(chosen) == 1:
                raise
            lacking = [f"{exhibit.item.kind} {exhibit.item.number}: {error}"]
        else:
            wanted.append((exhibit, sources))
        left_out.update(dict.fromkeys(lacking))
    if not wanted:
        raise ConfigError(
            "--data-dir", "the data of all chosen tables and figures are missing", "; ".join(left_out)
        )
    plots.need_matplotlib()
    for line in left_out:
        say(f"left out: {line}")
    experiments.run_experiments(wanted, asked.scale, asked.folder, asked, family=known)


def _refuse_what_runs(context: typer.Context, *, checks: bool) -> None:
    """Refuse options of runs beside a list, which runs nothing, or a check, which keeps nothing."""
    options = ("seeds", "jobs", "fresh") if checks else ("scale", "seeds", "jobs", "fresh")
    sources = {name: context.get_parameter_source(name) for name in options}
    given = [f"--{name}" for name, source in sources.items() if source and source.name == "COMMANDLINE"]
    if given:
        reason = (
            "--check repeats parts of earlier runs and keeps no result"
            if checks
            else "--list runs nothing, and shows the results of every scale"
        )
        raise ConfigError(", ".join(given), reason, "leave out one or the other")
