"""``securefl simulate``: a scenario in one process."""

from __future__ import annotations

from dataclasses import replace

import typer

from securefl.cli import options
from securefl.cli.console import answers
from securefl.cli.run_end import ShownRun
from securefl.methods import feasibility
from securefl.runtime import launch, simulation
from securefl.scenario import load_scenario


@options.spread
def simulate(
    given: launch.SimulationOptions,
    scenario: options.BundledArgument,
    *,
    overrides: options.SetOption = None,
    explain: options.ExplainOption = False,
    as_json: options.JsonLinesOption = False,
) -> None:
    """Simulate a scenario in this process, without broker, processes and masks: same sums, same model.

    Dense models are trained for many parties at once, which differs from run by rounding only. With --exact,
    run with --insecure-seeded-entropy and the same --seed has the same model, bit for bit. A simulation has
    no secrets: all follows from --seed. Noise, batches and rounding of a scenario with privacy follow from it
    with --insecure-seeded-entropy only.

    Exit codes: 0 outcome as expected, 1 not as expected, 2 refused, 3 aborted.
    """
    with answers(only=as_json) as stdout:
        loaded = load_scenario(launch.find_bundled(scenario), tuple(overrides or ()))
        # Before the import of torch, which takes seconds.
        feasibility.check(loaded)
        simulation.check_simulable(loaded)
        words = ["simulate", str(scenario), *options.command_line(replace(given, out=None, resume=False))]
        for override in overrides or ():
            words += ["--set", override]
        again = (*words, *(("--json",) if as_json else ()))
        shown = ShownRun(loaded, stdout, as_json=as_json, explain=explain)
        summary = launch.run_simulation(loaded, replace(given, again=again), shown.progress)
        shown.end(summary)
    raise typer.Exit(summary.exit_code)
