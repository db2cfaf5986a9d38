"""End of a run, and its summary."""

from collections.abc import Mapping

from securefl.protocol import kernel
from securefl.runtime import process, report, transcript
from securefl.runtime.launch.interrupts import SignalledError
from securefl.scenario import Scenario


def stopped_after(record: report.RoundRecord, scenario: Scenario) -> report.RunEnd:
    """Return the end after a round that stops a run (:attr:`RunMetrics.stopping`)."""
    if record.is_untrained:
        failures = record.failures or {}
        first = min(failures)
        why = f"all {len(failures)} trainings of round {record.round} failed; {first}: {failures[first]}"
        return report.RunEnd(reason=why, untrained=True)
    beyond = record.beyond_range or {}
    first, limit = min(beyond), scenario.encoding.range
    parties = first if len(beyond) == 1 else f"{first} and {len(beyond) - 1} more"
    why = (
        f"round {record.round}: updates of {parties} were cut off "
        f"({report.count_of(beyond[first], 'coordinate')} beyond encoding.range = {limit:g}):"
        " raise encoding.range"
    )
    return report.RunEnd(reason=why, cut=True)


def interrupted_end(reason: str, *, paused: bool = False) -> report.RunEnd:
    """Return the end of a run that the user aborted, or ``paused``."""
    return report.RunEnd(reason=reason, aborted=True, interrupted=True, paused=paused)


def interrupted_by(interrupt: KeyboardInterrupt) -> report.RunEnd:
    """Return the end by Ctrl-C or a signal."""
    name = interrupt.name if isinstance(interrupt, SignalledError) else "the user (Ctrl-C)"
    return interrupted_end(f"by {name}; what was written stays")


def end_of(outcome: kernel.Finished | kernel.Aborted) -> report.RunEnd:
    """Return the end that the server's machine reached."""
    if isinstance(outcome, kernel.Finished):
        return report.RunEnd(reason=outcome.reason)
    return report.RunEnd(reason=outcome.reason, aborted=True, decide=outcome.decide)


def conclude(
    directory: report.RunDirectory,
    metrics: report.RunMetrics,
    end: report.RunEnd,
    *,
    options: process.Options,
    scenario: Scenario,
    seconds: float,
    files: Mapping[str, str],
    simulated: bool = False,
    write: bool = True,
) -> report.Summary:
    """Return the summary; with ``write`` also write ``summary.json``.

    Raises:
        RunAbortedError: the write failed.
    """
    metrics.on_end(end)
    summary = report.summarise(
        run=options.run,
        scenario=scenario,
        metrics=metrics,
        insecure=simulated or options.insecure,
        seed=options.seed,
        simulated=simulated,
        seconds=seconds,
        files=files,
        ends=transcript.ends_in(directory.path / "transcripts"),
    )
    if write:
        directory.write_json(directory.summary_file.name, summary.to_json())
    return summary
