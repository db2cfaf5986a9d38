"""The server as a process: ``securefl server``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from securefl.base.errors import EXIT_ABORTED, EXIT_DECIDE, EXIT_PAUSED, RunAbortedError, RunHaltedError
from securefl.base.ids import SERVER
from securefl.cli import joining
from securefl.cli.answers import answers
from securefl.cli.console import one_line_errors, say
from securefl.cli.options import (
    DeviceOption,
    JsonLinesOption,
    KeepModelsOption,
    LabOption,
    device_name,
    kept_rounds,
    spread,
)
from securefl.cli.run import show_end
from securefl.runtime import launch, report


@spread
def server(
    options: joining.MemberOptions,
    *,
    key: Annotated[
        Path, typer.Option(help="The server's private key file (securefl keygen --party server).")
    ],
    data: Annotated[
        Path | None,
        typer.Option(help="The test samples: a file, or idx:DIR and the like (docs/data.md)."),
    ] = None,
    server_data: Annotated[
        Path | None,
        typer.Option(help="Training samples of its own, named like --data: rules such as zeno++ need some."),
    ] = None,
    keep_models: KeepModelsOption = "0",
    lab: LabOption = False,
    device: DeviceOption = None,
    as_json: JsonLinesOption = False,
) -> None:
    """Lead a run: draw the clusters, open cluster sums, aggregate, and never see an update.

    It can be killed, or paused with SIGTERM: the same command goes on with the run.

    Exit codes: 0 the outcome is the expected one, 1 it is not, 2 refused, 3 aborted, 4 paused,
    5 a person must decide.
    """
    with one_line_errors(), launch.ended_by_signals(), answers(only=as_json) as stdout:
        settings = options.settings(
            SERVER,
            key,
            data or Path(),
            lab=lab,
            device=device_name(device),
            server_data_file=server_data,
            keep_models=kept_rounds(keep_models),
        )
        joining.check_data_given(settings.scenario, data)
        console = report.Terminal(highlight=False, file=stdout)
        by = report.sieve(settings.scenario.groups)
        progress = report.progress_for(console, as_json=as_json, by=by, name=SERVER)
        summary, paused = launch.lead(settings, progress)
        show_end(console, progress, summary)
        if paused:
            raise typer.Exit(EXIT_PAUSED)
        if summary.exit_code == EXIT_DECIDE:
            raise RunHaltedError(summary.outcome.reason)
        if summary.exit_code == EXIT_ABORTED:
            raise RunAbortedError(summary.outcome.reason)
        if not as_json:
            say(f"done: {summary.outcome.reason}")
    raise typer.Exit(summary.exit_code)
