"""``securefl compare``: all combinations of rules, attacks, clusterings and splits in a file."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from securefl.cli import options
from securefl.cli.console import answers
from securefl.cli.experiment_options import Effort
from securefl.cli.experiments import run_experiments
from securefl.lab import experiments, plots
from securefl.runtime.launch import find_bundled


@dataclass(frozen=True, kw_only=True)
class ComparisonOptions(Effort):
    """Options of ``securefl compare``."""

    file: Annotated[
        Path,
        typer.Argument(metavar="COMPARISON", help="Comparison file (TOML), or the name of a bundled one."),
    ]
    seeds: Annotated[int, typer.Option(min=1, max=100, help="Simulations per combination.")] = 2
    out: Annotated[
        Path | None, typer.Option(help="Folder for JSON and PNG files. Default: runs/compare-<file>.")
    ] = None


@options.spread
def compare(given: ComparisonOptions, *, as_json: options.JsonOption = False) -> None:
    """Compare aggregation rules, attacks, clusterings and data splits.

    An impossible combination is shown as refused; the others run. The same call resumes interrupted
    simulations, and repeats no finished one, unless with --fresh.

    Exit codes: 0 done, whatever the verdicts; 2 refused; 3 aborted.
    """
    with answers(only=as_json) as stdout:
        exhibit = experiments.comparison_of(find_bundled(given.file, "comparison"))
        source = experiments.Source(exhibit.study.datasets[0])
        exhibit.plan("desk", source)
        plots.need_matplotlib()
        out = given.out or Path("runs") / f"compare-{exhibit.item.number}"
        ((record, written),) = run_experiments([(exhibit, (source,))], "desk", out, given, quiet=as_json)
        if as_json:
            rulings = experiments.rulings_of([exhibit], [record])[record.stem]
            # Infinite ends of intervals become null, for JSON.
            found = json.loads(
                msgspec.json.encode({"verdicts": rulings.verdicts, "unjudged": rulings.unjudged})
            )
            typer.echo(json.dumps(json.loads(written) | found, allow_nan=False), stdout)
