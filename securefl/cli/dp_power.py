"""``securefl dp power``: measured detection rates of the checks of opened sums."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from securefl.cli.console import say
from securefl.cli.options import JsonOption
from securefl.lab.experiments import (
    ALL,
    PUBLISHED,
    SETTINGS,
    Deviation,
    PowerBlock,
    PowerRecord,
    PowerSetting,
    encode,
    kinds,
    measure_power,
    power_page,
    write_result,
)
from securefl.runtime import report

_TRIALS = 200
_FAST_TRIALS = 20
_FAST_SETTINGS = 1


def power(
    *,
    trials: Annotated[
        int | None, typer.Option(min=1, max=100_000, help="Sums for each row; 200 when left out.")
    ] = None,
    fast: Annotated[bool, typer.Option("--fast", help="20 sums for each row, one setting.")] = False,
    seed: Annotated[int, typer.Option(min=0, max=2**32, help="Of all noise.")] = 1,
    out: Annotated[Path, typer.Option(help="Where checks.json and checks.md go.")] = Path("runs/checks"),
    as_json: JsonOption = False,
) -> None:
    """Measure how often honest and deviating sums fail the checks.

    Exit codes: 0 done; 3 aborted.
    """
    out.mkdir(parents=True, exist_ok=True)  # now, and not after minutes of work
    settings = SETTINGS[:_FAST_SETTINGS] if fast else SETTINGS
    record = _measure(trials or (_FAST_TRIALS if fast else _TRIALS), seed, settings, quiet=as_json)
    content = encode(record)
    write_result(out / "checks.json", content)
    write_result(out / "checks.md", power_page(record).encode())
    if as_json:
        typer.echo(content.decode(), nl=False)
        return
    for block in record.blocks:
        _show(block, record.trials)
    say(f"{out / 'checks.json'} and checks.md")


def _measure(trials: int, seed: int, settings: tuple[PowerSetting, ...], *, quiet: bool) -> PowerRecord:
    """The record, with progress by coordinates: sums of a setting with more of them take longer."""
    console = Console()
    live = console.is_terminal and not console.is_dumb_terminal and not quiet
    columns = (
        TextColumn("  {task.description}"),
        BarColumn(),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
    )
    total = trials * sum(setting.dim * kinds(setting) for setting in settings)
    began = time.monotonic()
    with Progress(*columns, console=console, transient=True, disable=not live) as bar:
        task = bar.add_task("sums", total=total)
        done, shown = 0, 0

        def on_trial(setting: PowerSetting, deviation: Deviation) -> None:
            nonlocal done, shown
            done += setting.dim
            bar.update(task, completed=done, description=deviation.name)
            if not (live or quiet) and 10 * done // total > shown:
                shown = 10 * done // total
                say(f"  {10 * shown} % after {report.seconds(time.monotonic() - began)}")

        return measure_power(trials, seed, settings, on_trial)


def _show(block: PowerBlock, trials: int) -> None:
    say(f"d = {block.dim:,}, n = {block.members}: percent of sums that fail")
    say(f"  {'published':>9} {'ours':>5}")
    for row in block.rows:
        published, ours = (100 * row.failed[name] / trials for name in (PUBLISHED[2], ALL))
        say(f"  {published:9.0f} {ours:5.0f}  {row.deviation}")
