"""``securefl plot``: the measurements of a run as a picture."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from securefl.cli import console
from securefl.lab import experiments, plots
from securefl.runtime import report


def plot(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="The directory of a run or simulation.")],
    *,
    out: Annotated[
        Path | None, typer.Option(help="A .png, .svg or .pdf file. Default: RUN/rounds.png.")
    ] = None,
    metric: Annotated[
        list[str] | None, typer.Option(help="Plot only this number, such as scores.auc. Repeat for more.")
    ] = None,
) -> None:
    """Plot the measurements of a run, round by round.

    Each metric has a panel. The band around a metric of the sites spans the lowest to the highest cluster; a
    dotted line marks the round of the best model. An unfinished run is drawn up to its current round.

    Exit codes: 0 drawn; 2 refused; 3 the picture cannot be written.
    """
    file = run / "rounds.png" if out is None else out
    kind = plots.picture_format(file)
    plots.need_matplotlib()
    directory = report.RunDirectory.open(run)
    scenario = directory.read_scenario()
    picture = plots.run_plot(scenario, directory.read_records(), tuple(metric or ()))
    experiments.write_result(file, plots.draw_run(picture, kind))
    console.say(f"{file}: {', '.join(trace.label for trace in picture.traces)}")
