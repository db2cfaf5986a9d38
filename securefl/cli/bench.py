"""``securefl bench``: time and size on this machine."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, TypeVar

import typer
from rich.console import Console

from securefl.base.errors import ConfigError
from securefl.cli.program import Program
from securefl.lab import bench
from securefl.runtime.report import Terminal

app = Program(add_completion=False, no_args_is_help=True, help="Measure speed and size on this machine.")

JsonOption = Annotated[bool, typer.Option("--json", help="Print the whole report as JSON.")]
RepetitionsOption = Annotated[int, typer.Option(min=1, help="Repetitions of each row; medians are shown.")]
DEFAULT_ROWS = ",".join(f"{members}x{length}" for members, length in bench.SIZES)
DEFAULT_VERIFIED_ROWS = ",".join(f"{members}x{length}" for members, length in bench.VERIFIED_SIZES)
DEFAULT_ROBUST_ROWS = ",".join(f"{clusters}x{length}" for clusters, length in bench.ROBUST_SIZES)


@app.command()
def secagg(
    rows: Annotated[
        str, typer.Option(help="Sizes to measure: members x coordinates, with commas.")
    ] = DEFAULT_ROWS,
    json: JsonOption = False,
    repetitions: RepetitionsOption = 3,
) -> None:
    """Measure time and size of one secure sum, beside the floor that this machine's primitives set."""
    report = bench.run_secagg(bench.standard_rows(parse_sizes(rows)), repetitions)
    _show(report, bench.print_report, as_json=json)


@app.command()
def robust(
    rows: Annotated[
        str, typer.Option(help="Sizes to measure: clusters x coordinates, with commas.")
    ] = DEFAULT_ROBUST_ROWS,
    json: JsonOption = False,
    repetitions: RepetitionsOption = 3,
) -> None:
    """Measure time and memory of every aggregation rule, beside one sort or one Gram matrix."""
    report = bench.run_robust(parse_sizes(rows, "clusters", bench.FEWEST), repetitions)
    _show(report, bench.print_robust, as_json=json)


@app.command()
def verified(
    rows: Annotated[
        str, typer.Option(help="Sizes to measure: members of a cluster x coordinates, with commas.")
    ] = DEFAULT_VERIFIED_ROWS,
    json: JsonOption = False,
    repetitions: RepetitionsOption = 3,
) -> None:
    """Measure time and size of a verified round, beside an unverified one."""
    costs = bench.run_verified(parse_sizes(rows), repetitions)
    _show(list(costs), bench.print_verified, as_json=json)


@app.command()
def crypten(
    rows: Annotated[str, typer.Option(help="Sizes to measure: members x coordinates, with commas.")] = "",
    json: JsonOption = False,
    repetitions: RepetitionsOption = 3,
) -> None:
    """Measure rounds, bytes and time of one cluster sum, by masks and by CrypTen."""
    from securefl.lab.bench import kinds  # noqa: PLC0415 - imports torch and CrypTen

    costs = kinds.run_kinds(parse_sizes(rows) if rows else kinds.SIZES, repetitions)
    _show(list(costs), kinds.print_kinds, as_json=json)


@app.command()
def dpsgd(
    batch: Annotated[int, typer.Option(min=1, max=3000, help="Examples of one step.")] = 16,
    steps: Annotated[int, typer.Option(min=1, help="Steps of each repetition.")] = 40,
    json: JsonOption = False,
    repetitions: RepetitionsOption = 5,
) -> None:
    """Measure the time of DP-SGD per example, beside plain SGD."""
    from securefl.lab.bench import print_dpsgd, run_dpsgd  # noqa: PLC0415 - imports torch

    report = run_dpsgd(batch, repetitions, steps)
    _show(report, print_dpsgd, as_json=json)


@app.command()
def sites(
    length: Annotated[
        int, typer.Option(min=1, help="Numbers that are sent to a site in its own process.")
    ] = 10_000_000,
    json: JsonOption = False,
    repetitions: RepetitionsOption = 100,
) -> None:
    """Measure training in a site: in this process beside the plain loop, and in another process."""
    from securefl.lab.bench import print_sites, run_sites  # noqa: PLC0415 - imports torch

    report = run_sites(length, repetitions)
    _show(report, print_sites, as_json=json)


ReportT = TypeVar("ReportT")


def _show(report: ReportT, show: Callable[[Console, ReportT], None], *, as_json: bool) -> None:
    if as_json:
        typer.echo(bench.report_json(report))
    else:
        show(Terminal(), report)


def parse_sizes(text: str, unit: str = "members", fewest: int = 3) -> tuple[tuple[int, int], ...]:
    """Read ``10x1e5,32x100000`` as pairs: number of ``unit``, number of coordinates.

    Raises:
        ConfigError: another form, or fewer than ``fewest``.
    """
    sizes = []
    for item in text.split(","):
        count, _, length = item.strip().partition("x")
        try:
            size = (int(count), _whole(length))
        except (ValueError, OverflowError):
            size = (0, 0)
        if size[0] < fewest or size[1] < 1:
            raise ConfigError(
                "--rows",
                f"{item.strip()!r} is not a size",
                f"use {unit} x coordinates, like 20x1e6, with {fewest} {unit} or more",
            )
        sizes.append(size)
    return tuple(sizes)


def _whole(text: str) -> int:
    number = float(text)
    if not number.is_integer():
        raise ValueError(text)
    return int(number)
