"""``securefl statistics``: what the sites have in their columns, before any of them trains."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from securefl.base import files
from securefl.base.errors import EXIT_ABORTED, ConfigError, RunAbortedError
from securefl.cli.answers import answers
from securefl.cli.console import one_line_errors, say
from securefl.cli.options import (
    BundledArgument,
    JsonLinesOption,
    RunFolderOption,
    SeedOption,
    SetOption,
    SiteOption,
)
from securefl.cli.run import show_end
from securefl.methods import feasibility
from securefl.runtime import report, simulation
from securefl.runtime.launch import bundled, fresh_run_id
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
            help="Write the round as a scenario, for run, server and party, and simulate nothing.",
        ),
    ] = None,
    as_json: JsonLinesOption = False,
) -> None:
    """Pool counts, means, deviations, ranges and histograms of the sites' columns, before training.

    The scenario's statistics table says which. Here the round is simulated, at sites that this machine can
    make; separate machines take the scenario of --write. statistics.json, in the run's folder, is what a site
    standardises by: securefl.Statistics.load.

    Exit codes: 0 done, 1 no sum was opened, 2 refused, 3 aborted.
    """
    with one_line_errors(), answers(only=as_json) as stdout:
        loaded = statistics_round(load_scenario(bundled(scenario), tuple(overrides or ())))
        feasibility.check(loaded)
        if write is not None:
            _write(write, loaded)
            return
        simulation.check_simulable(loaded)
        from securefl.runtime.launch import SimulationOptions, run_simulation  # noqa: PLC0415 - imports torch, which --help need not wait for
        from securefl.training.sites import site_maker  # noqa: PLC0415 - as well

        if not site:
            raise ConfigError("--site", "none is named", "module:name, or --write for separate machines")
        options = SimulationOptions(
            run=fresh_run_id(seed),
            seed=seed,
            data_dir=None,
            device=None,
            out=out,
            exact=False,
            seeded=loaded.privacy.unit == "none",
            site=site_maker(site),
        )
        console = report.Terminal(highlight=False, file=stdout)
        progress = report.progress_for(console, as_json=as_json, by=report.sieve(loaded.groups))
        summary = run_simulation(loaded, options, progress)
        show_end(console, progress, summary)
        if summary.exit_code == EXIT_ABORTED:
            raise RunAbortedError(summary.outcome.reason)
    raise typer.Exit(summary.exit_code)


def _write(path: Path, scenario: Scenario) -> None:
    try:
        files.write_whole(path, to_toml(scenario).encode())
    except OSError as error:
        raise ConfigError("--write", f"{path} cannot be written: {error.strerror}") from error
    say(f"{path}: securefl run, server and party take it with --site, as any scenario")
