"""``securefl server``: the server as a process."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from securefl.base.ids import SERVER
from securefl.cli import kit_options, member_options, options
from securefl.cli.console import answers, say
from securefl.cli.run_end import ShownRun
from securefl.runtime import launch


@dataclass(frozen=True, kw_only=True)
class ServerOptions(member_options.MemberOptions):
    """Options of the server; fields of ``ProcessSettings`` keep their names."""

    data: Annotated[
        Path | None,
        typer.Option(help="The test samples: a file, or idx:DIR and the like (docs/data.md)."),
    ] = None
    server_data_file: Annotated[
        Path | None,
        typer.Option(
            "--server-data",
            help="Training samples of the server, for rules such as zeno++; named like --data.",
        ),
    ] = None
    keep_models: options.KeepModelsOption = "0"
    lab: options.LabOption = False
    device: options.DeviceOption = None
    metrics_port: options.MetricsPortOption = None
    metrics_host: options.MetricsHostOption = "127.0.0.1"


@kit_options.from_kit("server")
@options.spread
def server(
    given: ServerOptions,
    *,
    explain: options.ExplainOption = False,
    as_json: options.JsonLinesOption = False,
) -> None:
    """Run the server: draw clusters, open cluster sums, aggregate them. It never sees an update.

    It can be killed, or paused with SIGTERM: the same command resumes the run. A kit of securefl provision
    has all options but --run: securefl server kit.toml --run ID

    Exit codes: 0 outcome as expected, 1 not as expected, 2 refused, 3 aborted, 4 paused,
    5 a person must decide.
    """
    with launch.ended_by_signals(), answers(only=as_json) as stdout:
        settings = given.settings(SERVER)
        shown = ShownRun(settings.scenario, stdout, as_json=as_json, name=SERVER, explain=explain)
        summary = launch.lead(settings, shown.progress)
        shown.end(summary)
        if not as_json:
            say(f"done: {summary.outcome.reason}")
    raise typer.Exit(summary.exit_code)
