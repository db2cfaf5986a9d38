"""``securefl run``: a scenario, from its file to its verdict."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from securefl.base.errors import EXIT_ABORTED, RunAbortedError
from securefl.cli.answers import answers
from securefl.cli.console import one_line_errors
from securefl.cli.options import (
    BrokerFiles,
    BundledArgument,
    DeviceOption,
    InsecureOption,
    JsonLinesOption,
    KeepModelsOption,
    LabOption,
    PatienceOption,
    RunFolderOption,
    SeedOption,
    SetOption,
    SiteMemoryOption,
    SiteOption,
    SitePythonOption,
    TranscriptOption,
    device_name,
    kept_rounds,
    spread,
    transcript_bytes,
)
from securefl.runtime import report
from securefl.runtime.launch import (
    BROKER_PATIENCE,
    RunOptions,
    bundled,
    ended_by_signals,
    fresh_run_id,
    run_here,
)
from securefl.scenario import load_scenario

DataDirOption = Annotated[
    Path | None,
    typer.Option(envvar="SECUREFL_DATA_DIR", help="Directory with the data sets (docs/scenarios.md)."),
]


@spread
def run(
    files: BrokerFiles,
    scenario: BundledArgument,
    *,
    broker: Annotated[
        str,
        typer.Option(
            help="auto, mosquitto, embedded, or mqtt://host:port, mqtts://host:port; or several such URLs."
        ),
    ] = "auto",
    broker_patience: PatienceOption = BROKER_PATIENCE,
    tls: Annotated[
        bool, typer.Option("--tls", help="Local broker with TLS and client certificates.")
    ] = False,
    data_dir: DataDirOption = None,
    overrides: SetOption = None,
    out: RunFolderOption = None,
    seed: SeedOption = 0,
    insecure_seeded_entropy: InsecureOption = False,
    lab: LabOption = False,
    observe: Annotated[
        bool,
        typer.Option(
            "--observe",
            help="Add an observer at the broker: metadata and hash of every frame; frames whole with --lab.",
        ),
    ] = False,
    site: SiteOption = "",
    site_python: SitePythonOption = None,
    site_memory: SiteMemoryOption = 0,
    keep_models: KeepModelsOption = "0",
    transcript_megabytes: TranscriptOption = None,
    device: DeviceOption = None,
    as_json: JsonLinesOption = False,
) -> None:
    """Run a scenario on this machine: a broker, a server process and one process per party.

    Exit codes: 0 the outcome is the expected one, 1 it is not, 2 refused, 3 aborted.
    """
    with one_line_errors(), ended_by_signals(), answers(only=as_json) as stdout:
        loaded = load_scenario(bundled(scenario), tuple(overrides or ()))
        options = RunOptions(
            run=fresh_run_id(seed if insecure_seeded_entropy else None),
            broker=broker,
            broker_patience=broker_patience,
            tls=tls,
            tls_files=files.tls,
            password_file=files.password_file,
            data_dir=data_dir,
            seed=seed,
            insecure=insecure_seeded_entropy,
            lab=lab,
            observe=observe or loaded.observer,
            keep_models=kept_rounds(keep_models),
            transcript_bytes=transcript_bytes(transcript_megabytes),
            device=device_name(device),
            out=out,
            site=site,
            site_python=site_python,
            site_memory=site_memory,
        )
        console = report.Terminal(highlight=False, file=stdout)
        progress = report.progress_for(console, as_json=as_json, by=report.sieve(loaded.groups))
        summary = run_here(loaded, options, progress)
        show_end(console, progress, summary)
        if summary.exit_code == EXIT_ABORTED:
            raise RunAbortedError(summary.outcome.reason)
    raise typer.Exit(summary.exit_code)


def show_end(console: Console, progress: report.Progress, summary: report.Summary) -> None:
    """Tell people, or programs, how a run ended."""
    if isinstance(progress, report.JsonProgress):
        progress.summary(summary)
    else:
        report.print_summary(console, summary)
