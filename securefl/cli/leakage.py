"""``securefl leakage``: exposure by random reclusterings, without training."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Final

import typer

from securefl.base.errors import ConfigError
from securefl.cli import reproduce
from securefl.cli.experiment_options import Effort, PictureOption
from securefl.cli.experiments import run_experiments
from securefl.lab import experiments, plots
from securefl.methods import privacy
from securefl.runtime import launch

_ABOUT: Final = """\
The sweeps use the [leakage ledger](../leakage.md). Draws are seeded, so that the page can be reproduced.

A column is a number R of random reclusterings of the *same* updates or, if stated, of a new local training
each. An entry is the fraction of parties whose updates the server can compute, without colluders: the mean
over the draws ± standard deviation, if draws differ. Below it: the largest exposure to noise that is added
once / anew in each opening, in units of one party's noise (1: a single update; 1 / m: one opening of a whole
cluster). With dropouts, clusters that become too small can void a whole draw; such draws are not counted.
**Bold** is R* = ceil((N - 1) / (C - 1)), from which usually all parties are exposed, unless there are atoms.
In sweeps with differential privacy, an entry is the epsilon of the whole run. Below it: the exposure behind
it, in units of one opening of a sum with all of its noise. Both are of the worst draw and party.
"""
RESULTS = Path("docs/results/leakage")
_BUNDLED = launch.scenario_folder() / "leakage"
STUDY: Final = experiments.Study(
    title="What random reclusterings reveal", about=_ABOUT, ours=True, datasets=(experiments.UNNAMED,)
)


def leakage(
    sweeps: Annotated[
        list[str] | None,
        typer.Argument(metavar="SWEEP", help="Bundled sweeps by name (or all), or TOML files."),
    ] = None,
    *,
    out: Annotated[Path, typer.Option(help="Folder for NAME.json and NAME.png.")] = RESULTS,
    page: Annotated[
        bool, typer.Option("--page", help="Write the page on all sweeps in --out, beside this folder.")
    ] = False,
    picture: PictureOption = None,
) -> None:
    """Simulate random reclusterings over a range of settings, and count the updates that the server learns.

    Only the members of opened sums matter: no data are needed, and nothing is trained.

    Exit codes: 0 done; 2 refused; 3 aborted.
    """
    if not sweeps and not page:
        raise ConfigError(
            "SWEEP",
            "is missing: nothing to compute",
            f"name one of {', '.join(_names())}, all, a file, or --page",
        )
    plots.need_matplotlib()
    wanted = [experiments.sweep_of(path, STUDY) for name in sweeps or () for path in _paths(name)]
    if any(isinstance(one.drawn, experiments.Sweep) and one.drawn.accounting for one in wanted):
        privacy.need_dp_accounting()
    run_experiments(
        [(one, (experiments.Source(experiments.UNNAMED),)) for one in wanted],
        "desk",
        out,
        Effort(picture=picture),
    )
    if page:
        bundled = [experiments.sweep_of(path, STUDY) for path in _paths("all")]
        own = [one for one in wanted if one.path not in {other.path for other in bundled}]
        reproduce.write_page([*bundled, *own], out)


def _names() -> list[str]:
    return sorted(path.stem for path in _BUNDLED.glob("*.toml"))


def _paths(name: str) -> list[Path]:
    if name == "all":
        return [_BUNDLED / f"{one}.toml" for one in _names()]
    if name in _names():
        return [_BUNDLED / f"{name}.toml"]
    path = Path(name)
    if not path.exists():
        raise ConfigError(
            "SWEEP", f"{name!r} is not a bundled sweep", f"choose from {', '.join(_names())}, all, or a file"
        )
    return [path]
