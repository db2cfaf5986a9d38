"""``securefl run``: a scenario on this machine."""

from __future__ import annotations

import typer

from securefl.cli import options
from securefl.cli.console import answers
from securefl.cli.run_end import ShownRun
from securefl.runtime import launch
from securefl.scenario import load_scenario


@options.spread
def run(
    given: launch.RunOptions,
    scenario: options.BundledArgument,
    *,
    overrides: options.SetOption = None,
    explain: options.ExplainOption = False,
    as_json: options.JsonLinesOption = False,
) -> None:
    """Run a scenario on this machine: a broker, a server process and one process per party.

    Exit codes: 0 outcome as expected, 1 not as expected, 2 refused, 3 aborted.
    """
    with launch.ended_by_signals(), answers(only=as_json) as stdout:
        loaded = load_scenario(launch.find_bundled(scenario), tuple(overrides or ()))
        shown = ShownRun(loaded, stdout, as_json=as_json, explain=explain)
        summary = launch.run_here(loaded, given, shown.progress)
        shown.end(summary)
    raise typer.Exit(summary.exit_code)
