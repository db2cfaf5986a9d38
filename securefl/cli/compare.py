"""``securefl compare``: every combination of rules, attacks, clusterings and splits that a file names."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from parties.arguments import DeviceOption, device_name
from parties.console import one_line_errors
from securefl.cli.run import DataDirOption, bundled
from securefl.report.canvas import need_matplotlib
from securefl.reproduce.comparison import plan, read_comparison


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
    device: DeviceOption = None,
    jobs: Annotated[int, typer.Option(min=1, max=64, help="Simulations at the same time.")] = 2,
    fresh: Annotated[bool, typer.Option("--fresh", help="Simulate again what is finished.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object on stdout, for programs.")] = False,
) -> None:
    """Compare any rule x attack x clustering x data split.

    A combination that no run can have is shown as refused; the others go on. What was interrupted goes on
    where it was when the same call is repeated, and what is finished is not run again, unless with --fresh.

    Exit codes: 0 done, whatever the verdicts; 2 refused; 3 aborted.
    """
    with one_line_errors():
        path = bundled(file, "comparison")
        comparison = read_comparison(path)
        planned = plan(path, comparison)
        need_matplotlib()
        from securefl.cli.comparison import run_comparison  # noqa: PLC0415 - torch; a refusal need not wait
        from securefl.reproduce.drawing import Batch  # noqa: PLC0415 - imports torch, too

        batch = Batch(
            scenarios=planned.scenarios,
            seeds=seeds,
            out=out or Path("runs") / f"compare-{path.stem}",
            data_dir=data_dir,
            device=device_name(device),
            jobs=jobs,
        )
        run_comparison(path, comparison, planned, batch, fresh=fresh, as_json=as_json)
