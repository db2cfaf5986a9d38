"""``securefl bench``: time and size on this machine."""

from __future__ import annotations

from typing import Annotated

import typer

from securefl.base.errors import ConfigError, UsageError
from securefl.cli.console import one_line_errors
from securefl.cli.program import Program
from securefl.lab.bench import (
    FEWEST,
    ROBUST_SIZES,
    SIZES,
    print_report,
    print_robust,
    report_json,
    robust_json,
    run_robust,
    run_secagg,
    standard_rows,
)
from securefl.runtime.report import Terminal

app = Program(add_completion=False, no_args_is_help=True, help="Measure speed and size on this machine.")

DEFAULT_ROWS = ",".join(f"{members}x{length}" for members, length in SIZES)
DEFAULT_ROBUST_ROWS = ",".join(f"{clusters}x{length}" for clusters, length in ROBUST_SIZES)


@app.command()
def secagg(
    rows: Annotated[str, typer.Option(help="Sizes to measure: members x words, with commas.")] = DEFAULT_ROWS,
    json: Annotated[bool, typer.Option("--json", help="Print the whole report as JSON.")] = False,
    repetitions: Annotated[int, typer.Option(min=1, help="Runs of each row; medians are shown.")] = 3,
) -> None:
    """Time and size of one secure sum, beside the floor that this machine's primitives set."""
    with one_line_errors():
        report = run_secagg(standard_rows(parse_sizes(rows)), repetitions)
    if json:
        typer.echo(report_json(report))
    else:
        print_report(Terminal(), report)


@app.command()
def robust(
    rows: Annotated[
        str, typer.Option(help="Sizes to measure: clusters x coordinates, with commas.")
    ] = DEFAULT_ROBUST_ROWS,
    json: Annotated[bool, typer.Option("--json", help="Print the whole report as JSON.")] = False,
    repetitions: Annotated[int, typer.Option(min=1, help="Runs of each row; medians are shown.")] = 3,
) -> None:
    """Time and memory of every aggregation rule, beside one sort or one Gram matrix."""
    with one_line_errors():
        report = run_robust(parse_robust_sizes(rows), repetitions)
    if json:
        typer.echo(robust_json(report))
    else:
        print_robust(Terminal(), report)


@app.command()
def crypten(
    rows: Annotated[str, typer.Option(help="Sizes to measure: members x words, with commas.")] = "",
    json: Annotated[bool, typer.Option("--json", help="Print the whole report as JSON.")] = False,
    repetitions: Annotated[int, typer.Option(min=1, help="Runs of each row; medians are shown.")] = 3,
) -> None:
    """Rounds, bytes and time of one cluster sum, by masks and by CrypTen."""
    from securefl.lab.bench import kinds  # noqa: PLC0415 - imports torch and CrypTen

    with one_line_errors():
        costs = kinds.run_kinds(parse_sizes(rows) if rows else kinds.SIZES, repetitions)
    if json:
        typer.echo(kinds.kinds_json(costs))
    else:
        kinds.print_kinds(Terminal(), costs)


@app.command()
def dpsgd(
    batch: Annotated[int, typer.Option(min=1, max=3000, help="Examples of one step.")] = 16,
    steps: Annotated[int, typer.Option(min=1, help="Steps of each repetition.")] = 40,
    json: Annotated[bool, typer.Option("--json", help="Print the whole report as JSON.")] = False,
    repetitions: Annotated[int, typer.Option(min=1, help="Runs of each row; medians are shown.")] = 5,
) -> None:
    """Time of DP-SGD per example, beside plain SGD."""
    from securefl.lab.bench import dpsgd_json, print_dpsgd, run_dpsgd  # noqa: PLC0415 - imports torch

    report = run_dpsgd(batch, repetitions, steps)
    if json:
        typer.echo(dpsgd_json(report))
    else:
        print_dpsgd(Terminal(), report)


def parse_robust_sizes(text: str) -> tuple[tuple[int, int], ...]:
    """Read ``20x1e6,60x1e5`` as pairs of clusters and coordinates.

    Raises:
        ConfigError: not of this form, or fewer clusters than all rules can do with.
    """
    sizes = []
    for item in text.split(","):
        clusters, _, length = item.strip().partition("x")
        try:
            size = (int(clusters), _whole(length))
        except (ValueError, OverflowError):
            size = (0, 0)
        if size[0] < FEWEST or size[1] < 1:
            raise ConfigError(
                "--rows",
                f"{item.strip()!r} is no size",
                f"use clusters x coordinates, like 20x1e6, with {FEWEST} clusters or more",
            )
        sizes.append(size)
    return tuple(sizes)


def parse_sizes(text: str) -> tuple[tuple[int, int], ...]:
    """Read ``10x1e5,32x100000`` as pairs of members and words.

    Raises:
        ConfigError: not of this form, or a size that cannot be measured.
    """
    sizes = []
    for item in text.split(","):
        members, _, length = item.strip().partition("x")
        try:
            sizes.append((int(members), _whole(length)))
            standard_rows(sizes)
        except (ValueError, OverflowError, UsageError):
            raise ConfigError(
                "--rows",
                f"{item.strip()!r} is no size",
                "use members x words, like 10x1e5, with 3 members or more",
            ) from None
    return tuple(sizes)


def _whole(text: str) -> int:
    number = float(text)
    if not number.is_integer():
        raise ValueError(text)
    return int(number)
