"""The end of a run or a simulation: its summary, on disk and on the terminal."""

from __future__ import annotations

from collections.abc import Mapping

from rich.console import Console

from securefl.config.scenario import Scenario
from securefl.ids import RunId
from securefl.kernel.effects import Aborted, Finished
from securefl.report.metrics import RunMetrics
from securefl.report.present import print_summary
from securefl.report.progress import JsonProgress, Progress
from securefl.report.rundir import RunDirectory
from securefl.report.summary import Summary, summarise


def conclude(
    console: Console,
    progress: Progress,
    directory: RunDirectory,
    metrics: RunMetrics,
    outcome: Finished | Aborted,
    *,
    run: RunId,
    scenario: Scenario,
    insecure: bool,
    seconds: float,
    files: Mapping[str, str],
    simulated: bool = False,
) -> Summary:
    """Write ``summary.json``, tell people or programs, and return the summary.

    Raises:
        RunAbortedError: the disk is full or gone.
    """
    (metrics.on_aborted if isinstance(outcome, Aborted) else metrics.on_finished)(outcome.reason)
    summary = summarise(
        run=run,
        scenario=scenario,
        metrics=metrics,
        insecure=insecure,
        simulated=simulated,
        seconds=seconds,
        files=files,
    )
    directory.write_json(directory.summary_file.name, summary.to_json())
    if isinstance(progress, JsonProgress):
        progress.summary(summary)
    else:
        print_summary(console, summary)
    return summary
