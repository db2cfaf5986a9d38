"""``securefl compare``: every combination of rules, attacks, clusterings and splits that a file names."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from securefl.cli import options
from securefl.cli.answers import answers
from securefl.cli.experiments import run_experiments
from securefl.cli.options import DataDirOption
from securefl.cli.reproduce import PictureOption
from securefl.lab import experiments, plots
from securefl.runtime.launch import bundled


def compare(
    file: Annotated[
        Path,
        typer.Argument(metavar="COMPARISON", help="Comparison file (TOML), or the name of a bundled one."),
    ],
    *,
    seeds: Annotated[int, typer.Option(min=1, max=100, help="Simulations per combination.")] = 2,
    out: Annotated[
        Path | None, typer.Option(help="Where JSON and PNG go; runs/compare-<file> when left out.")
    ] = None,
    data_dir: DataDirOption = None,
    device: options.DeviceOption = None,
    jobs: options.JobsOption = 2,
    picture: PictureOption = None,
    fresh: Annotated[bool, typer.Option("--fresh", help="Simulate again what is finished.")] = False,
    as_json: options.JsonOption = False,
) -> None:
    """Compare any rule x attack x clustering x data split.

    A combination that no run can have is shown as refused; the others go on. What was interrupted goes on
    where it was when the same call is repeated, and what is finished is not run again, unless with --fresh.

    Exit codes: 0 done, whatever the verdicts; 2 refused; 3 aborted.
    """
    with answers(only=as_json) as stdout:
        exhibit = experiments.comparison_of(bundled(file, "comparison"))
        source = experiments.Source(exhibit.study.datasets[0])
        exhibit.plan("desk", source)
        plots.need_matplotlib()
        ((_, written),) = run_experiments(
            [(exhibit, (source,))],
            "desk",
            out or Path("runs") / f"compare-{exhibit.item.number}",
            seeds=seeds,
            data_dir=data_dir,
            device=options.device_name(device),
            jobs=jobs,
            fresh=fresh,
            also=picture,
            quiet=as_json,
        )
        if as_json:
            typer.echo(written, stdout, nl=False)
