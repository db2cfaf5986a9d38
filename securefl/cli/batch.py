"""Parallel simulations and trials of an experiment. Imports torch."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from securefl.base.errors import ConfigError, RunAbortedError
from securefl.cli.console import say
from securefl.cli.experiment_options import Effort
from securefl.lab.experiments import (
    BETWEEN_CHECKPOINTS,
    CellPlan,
    Exhibit,
    ScaleName,
    SeedRecord,
    SimulationJob,
    Sweep,
    Trials,
    Work,
    refuse_mixed,
    run_jobs,
    write_result,
)
from securefl.runtime import report, simulation

_WORK: Final = ".work"
"""Folder of simulations in that of the results; git ignores it."""


@dataclass(frozen=True, slots=True)
class Batch:
    """Runs of one table or figure on one data set."""

    simulations: tuple[tuple[str, Work], ...]
    """Jobs with their cells' labels; equal jobs have one stem."""
    out: Path
    processes: int

    @classmethod
    def of(cls, exhibit: Exhibit, scale: ScaleName, plan: CellPlan, out: Path, effort: Effort) -> Batch:
        """Return a batch of seeds 0, 1, ... of each feasible cell."""
        folder, sheet, seeds = out / _WORK, exhibit.sheet, effort.seeds or exhibit.seeds(scale)
        if isinstance(exhibit.drawn, Sweep):
            # Draws are fast, and not kept.
            return cls((), out, effort.jobs)
        if isinstance(trials := exhibit.drawn, Trials):
            drawn = (
                (cell.label, trials.job(scale, cell.place, seed, folder))
                for cell in exhibit.cells_at(scale)
                for seed in range(seeds)
            )
            return cls(tuple(drawn), out, effort.jobs)
        threads = max(1, simulation.available_cores() // effort.jobs)

        def job(label: str, seed: int) -> SimulationJob:
            return SimulationJob(
                scenario=plan.scenarios[label],
                seed=seed,
                folder=folder,
                data_dir=effort.data_dir,
                device=effort.device,
                threads=threads,
                every=sheet.every,
                last=sheet.last,
                site=sheet.site,
            )

        made = ((label, job(label, seed)) for label in plan.scenarios for seed in range(seeds))
        return cls(tuple(made), out, effort.jobs)


def begin(batches: Sequence[Batch], *, fresh: bool) -> None:
    """Create the folders of simulations; if ``fresh``, delete earlier ones.

    Raises:
        ConfigError: a device is missing, even if all results exist.
        RunAbortedError: a folder cannot be made.
    """
    jobs = [job for batch in batches for _, job in batch.simulations]
    for job in jobs:
        job.check_device()
    for out in {batch.out for batch in batches if batch.simulations}:
        write_result(out / _WORK / ".gitignore", b"*\n")
    for job in jobs if fresh else ():
        job.forget()


def simulate(batch: Batch, *, quiet: bool = False) -> tuple[dict[str, SeedRecord], dict[str, ConfigError]]:
    """Run unfinished jobs; return all results and refusals by the jobs' stems.

    Raises:
        ConfigError: finished seeds drew their clusters differently from the others.
        RunAbortedError: the disk is full or gone, a process died, or Ctrl-C was pressed.
    """
    labels: dict[str, str] = {}
    results: dict[str, SeedRecord] = {}
    why: dict[str, ConfigError] = {}
    missing: list[Work] = []
    drawn: dict[str, dict[int, str]] = {}
    for label, job in batch.simulations:
        if job.stem in labels:
            continue
        labels[job.stem] = f"{label}, seed {job.seed}"
        former = job.read_finished()
        drawn.setdefault(label, {})[job.seed] = job.draws if former is None else former.draws
        if former is None:
            missing.append(job)
        else:
            results[job.stem] = former
    for label, draws in drawn.items():
        refuse_mixed(label, draws)
    with _Bar(missing, [labels[job.stem] for job in missing], len(results), quiet=quiet) as bar:

        def done(index: int, record: SeedRecord) -> None:
            results[missing[index].stem] = record
            bar.on_done(index, record)

        def note_refusal(index: int, error: ConfigError) -> None:
            why[missing[index].stem] = error
            bar.on_refused(index, error)

        try:
            run_jobs(missing, batch.processes, bar.on_round, done, note_refusal)
        except KeyboardInterrupt:
            raise RunAbortedError(
                "stopped by Ctrl-C; give the same command to resume: finished simulations are kept, and the"
                f" others up to the last {BETWEEN_CHECKPOINTS:g} s"
            ) from None
    return results, why


class _Bar:
    """Progress by round; without a terminal, a line per finished simulation."""

    def __init__(self, jobs: Sequence[Work], labels: Sequence[str], former: int, *, quiet: bool) -> None:
        self._labels = labels
        self._planned = [job.rounds for job in jobs]
        self._rounds = [0] * len(jobs)
        self._done = 0
        self._began = time.monotonic()
        console = report.Terminal()
        self._live = console.is_terminal and not console.is_dumb_terminal and not quiet
        self._plain = not self._live and not quiet
        columns = (
            TextColumn("  {task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("rounds"),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(elapsed_when_finished=False),
        )
        self._progress = Progress(*columns, console=console, transient=True, disable=not self._live)
        self._task = self._progress.add_task(
            report.count_of(len(jobs), "simulation"), total=sum(self._planned)
        )
        if former and not quiet:
            say(f"  {report.count_of(former, 'simulation')} kept from an earlier call")

    def __enter__(self) -> _Bar:
        self._progress.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self._progress.stop()

    def on_round(self, index: int, rounds: int) -> None:
        """Note that ``rounds`` rounds of a simulation are done."""
        self._rounds[index] = rounds
        self._show()

    def on_done(self, index: int, record: SeedRecord) -> None:
        """Note a finished simulation, which may have ended early."""
        last = f"{record.accuracies[-1]:.3f} in its last round" if record.accuracies else record.ended
        self._end(index, f"{last}, took {report.seconds(record.seconds)}")

    def on_refused(self, index: int, error: ConfigError) -> None:
        """Note a refused simulation."""
        self._end(index, f"refused: {error}")

    def _end(self, index: int, how: str) -> None:
        self._done += 1
        self._rounds[index] = self._planned[index]
        if self._plain:
            say(f"  {self._labels[index]}: {how} ({self._done} of {len(self._labels)}{self._left()})")
        self._show()

    def _left(self) -> str:
        done = sum(self._rounds)
        passed = time.monotonic() - self._began
        left = passed * (sum(self._planned) - done) / done if done else 0.0
        return f", about {report.seconds(left)} left" if left > 1 else ""

    def _show(self) -> None:
        self._progress.update(self._task, completed=sum(self._rounds))
