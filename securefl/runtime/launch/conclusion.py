"""The end of a run or a simulation: its summary, in memory and on disk."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import assert_never

from securefl.base.ids import RunId
from securefl.protocol import kernel
from securefl.runtime import report, transcript
from securefl.runtime.launch.interrupts import SignalledError
from securefl.scenario import Scenario


@dataclass(frozen=True, slots=True)
class Untrained:
    """Stopped: every training of a round failed."""

    reason: str

    @classmethod
    def after(cls, record: report.RoundRecord) -> Untrained:
        """Return the end after a round without a successful training."""
        failures = record.failures or {}
        first = min(failures)
        return cls(
            f"all {len(failures)} trainings of round {record.round} failed; {first}: {failures[first]}"
        )


@dataclass(frozen=True, slots=True)
class Cut:
    """Stopped: an honest update had coordinates beyond the encoding's range."""

    reason: str

    @classmethod
    def after(cls, record: report.RoundRecord, scenario: Scenario) -> Cut:
        """Return the end after a round with such an update."""
        beyond = record.beyond or {}
        first, limit = min(beyond), scenario.encoding.range
        parties = first if len(beyond) == 1 else f"{first} and {len(beyond) - 1} more"
        return cls(
            f"round {record.round}: updates of {parties} were cut"
            f" ({report.counted(beyond[first], 'coordinate')} beyond encoding.range = {limit:g}):"
            " raise encoding.range"
        )


def stopped_after(record: report.RoundRecord, scenario: Scenario) -> Untrained | Cut:
    """Return the end after a round that stops a run (:attr:`RunMetrics.stopping`)."""
    return Untrained.after(record) if record.is_untrained else Cut.after(record, scenario)


@dataclass(frozen=True, slots=True)
class Interrupted:
    """The user ended it."""

    reason: str = "by the user (Ctrl-C); what was written stays"
    paused: bool = False
    """Whether the same command goes on with the run."""

    @classmethod
    def by(cls, interrupt: KeyboardInterrupt) -> Interrupted:
        """By Ctrl-C or a signal."""
        return (
            cls(f"by {interrupt.name}; what was written stays")
            if isinstance(interrupt, SignalledError)
            else cls()
        )


def conclude(
    directory: report.RunDirectory,
    metrics: report.RunMetrics,
    outcome: kernel.Finished | kernel.Aborted | Interrupted | Untrained | Cut,
    *,
    run: RunId,
    scenario: Scenario,
    insecure: bool,
    seed: int,
    seconds: float,
    files: Mapping[str, str],
    simulated: bool = False,
) -> report.Summary:
    """Write ``summary.json`` and return the summary.

    Raises:
        RunAbortedError: the disk is full or gone.
    """
    match outcome:
        case kernel.Finished(reason=reason):
            metrics.on_finished(reason)
        case kernel.Aborted(reason=reason, decide=decide):
            metrics.on_aborted(reason, decide=decide)
        case Untrained(reason=reason):
            metrics.on_untrained(reason)
        case Cut(reason=reason):
            metrics.on_cut(reason)
        case Interrupted(reason=reason, paused=paused):
            metrics.on_interrupted(reason, paused=paused)
        case _:
            assert_never(outcome)
    summary = report.summarise(
        run=run,
        scenario=scenario,
        metrics=metrics,
        insecure=insecure,
        seed=seed,
        simulated=simulated,
        seconds=seconds,
        files=files,
        ends=transcript.ends_in(directory.path / "transcripts"),
    )
    directory.write_json(directory.summary_file.name, summary.to_json())
    return summary
