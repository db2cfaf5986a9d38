"""``securefl statistics``: statistics of the sites' columns."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from securefl.base import files
from securefl.base.errors import ConfigError
from securefl.cli.console import answers, say
from securefl.cli.options import (
    BundledArgument,
    JsonLinesOption,
    RunFolderOption,
    SeedOption,
    SetOption,
    SiteOption,
)
from securefl.cli.run_end import ShownRun
from securefl.methods import feasibility
from securefl.runtime import launch, simulation
from securefl.scenario import Scenario, load_scenario, statistics_round, to_toml


def statistics(
    scenario: BundledArgument,
    *,
    site: SiteOption = "",
    overrides: SetOption = None,
    out: RunFolderOption = None,
    seed: SeedOption = 0,
    write: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Write the scenario for run, server and party, and simulate nothing.",
        ),
    ] = None,
    as_json: JsonLinesOption = False,
) -> None:
    """Compute counts, means, deviations, ranges and histograms of the sites' columns with secure sums.

    The scenario's statistics table selects them. The round is simulated at sites on this machine; separate
    machines take the scenario of --write. A site standardises by statistics.json in the run's folder, with
    securefl.Statistics.load.

    Exit codes: 0 done, 1 no sum was opened, 2 refused, 3 aborted.
    """
    with answers(only=as_json) as stdout:
        loaded = statistics_round(load_scenario(launch.find_bundled(scenario), tuple(overrides or ())))
        feasibility.check(loaded)
        if write is not None:
            _write(write, loaded)
            return
        simulation.check_simulable(loaded)
        if not site:
            raise ConfigError("--site", "is missing", "give module:name, or --write for separate machines")
        shown = ShownRun(loaded, stdout, as_json=as_json)
        given = launch.SimulationOptions(seed=seed, out=out, site=site)
        summary = launch.run_simulation(loaded, given, shown.progress)
        shown.end(summary)
    raise typer.Exit(summary.exit_code)


def _write(path: Path, scenario: Scenario) -> None:
    try:
        files.write_whole(path, to_toml(scenario).encode())
    except OSError as error:
        raise ConfigError(
            "--write", f"{path} cannot be written: {error.strerror}", "choose a folder that you may write"
        ) from error
    say(f"{path}: securefl run, server and party take it with --site, as any scenario")
