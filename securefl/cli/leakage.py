"""``securefl leakage``: exposure by random reclusterings over a range of settings; nothing is trained."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Final

import typer

from securefl.base.errors import ConfigError
from securefl.cli import reproduce
from securefl.cli.asked import Effort, PictureOption
from securefl.cli.experiments import run_experiments
from securefl.lab import experiments, plots
from securefl.methods import privacy
from securefl.runtime import launch

_ABOUT: Final = """\
The ledger behind these sweeps: [leakage](../leakage.md). Draws are seeded, so that the page can be made
again.

A column is a number R of random reclusterings of the *same* updates or, where it says so, of new local work
each. Entries: the share of parties whose updates the server knows, colluders apart, as the mean over the
draws ± their standard deviation, where they differ. Below it: the largest exposure to noise that is added
once / fresh in each opening, in units of one party's noise (1 is an update on its own; 1 / m one opening of
a whole cluster). With dropouts the clusters that are left too small may take all others with them, so that
a draw opens nothing; it does not count. **Bold** is R* = ceil((N - 1) / (C - 1)), at which everybody is
exposed, as a rule, but for atoms. Where noise is accounted for, entries are the epsilon of the whole run
and, below, the exposure that it comes of, in units of one opening of a sum with all of its noise: both of
the worst draw and party.
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

    What sums determine follows from who is in them: no data are needed, and nothing is trained.

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
            "SWEEP", f"{name!r} is not a bundled sweep", f"one of {', '.join(_names())}, all, or a file"
        )
    return [path]
