"""From a preset to its record: all simulations of a panel, the verdicts, and the plot."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from securefl.config.scenario import Scenario
from securefl.report.figures import Line, Plot, draw
from securefl.reproduce.figure import ScaleName
from securefl.reproduce.judging import judge
from securefl.reproduce.measure import Job
from securefl.reproduce.provenance import versions
from securefl.reproduce.record import (
    FORMAT,
    LEAKAGE_REPORTED,
    CurveRecord,
    FigureRecord,
    SeedRecord,
    encode,
    final_of,
    scenario_key,
    settings_key,
    write_whole,
)
from securefl.reproduce.shelf import Preset
from securefl.simulation.staffing import available_cores

WORK: Final = ".work"
"""Folder of simulations, finished and interrupted, inside that of the results. Git leaves it alone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """Simulations that belong together: some scenarios, each with every seed."""

    scenarios: Mapping[str, Scenario]
    """By the label of the curve."""
    seeds: int
    """How many: 0, 1, ..."""
    out: Path
    data_dir: Path | None
    device: str | None
    jobs: int
    every: int = 1
    """As of :class:`Job`, as ``last``."""
    last: int = 1

    def simulations(self) -> list[tuple[str, Job]]:
        """Every one of them, with the label of its curve; equal ones occur once each."""
        threads = max(1, available_cores() // self.jobs)

        def job(scenario: Scenario, seed: int) -> Job:
            return Job(
                scenario=scenario,
                seed=seed,
                folder=self.out / WORK,
                data_dir=self.data_dir,
                device=self.device,
                threads=threads,
                every=self.every,
                last=self.last,
            )

        return [
            (label, job(scenario, seed))
            for label, scenario in self.scenarios.items()
            for seed in range(self.seeds)
        ]


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A panel to be drawn."""

    preset: Preset
    scale: ScaleName
    batch: Batch


def conclude(request: Request, results: Mapping[str, SeedRecord]) -> FigureRecord:
    """Judge a panel whose simulations are done, and write its JSON file and its plot.

    Args:
        request: the panel.
        results: by the stem of the job.

    Raises:
        ConfigError: matplotlib is missing.
        RunAbortedError: the disk is full or gone.
    """
    figure, batch = request.preset.figure, request.batch
    scenarios = batch.scenarios
    measured: dict[str, list[SeedRecord]] = {label: [] for label in scenarios}
    for label, job in batch.simulations():
        measured[label].append(results[job.stem])
    rounds = {scenario.stop.rounds for scenario in scenarios.values()}
    last = min(figure.last, *rounds)
    planned = max(rounds)
    curves = tuple(
        CurveRecord(
            label=curve.label,
            baseline=curve.baseline,
            scenario=scenario_key(scenarios[curve.label]),
            final=round(final_of(curve.label, measured[curve.label], last, planned), 6),
            seeds=tuple(measured[curve.label]),
        )
        for curve in figure.curves
    )
    accuracies = {curve.label: [seed.accuracies for seed in curve.seeds] for curve in curves}
    record = FigureRecord(
        format=FORMAT,
        paper=request.preset.paper,
        panel=figure.panel,
        scale=request.scale,
        title=figure.title,
        settings=settings_key(figure, scenarios),
        note=_shared(scenarios, lambda scenario: scenario.description),
        parties=max(scenario.parties for scenario in scenarios.values()),
        rounds=planned,
        last=last,
        leakage_reported=any(s.leakage.mode == "report" for s in scenarios.values()),
        curves=curves,
        verdicts=tuple(judge(claim, accuracies, last, planned) for claim in figure.claims),
        seconds=round(sum(seed.seconds for curve in curves for seed in curve.seeds), 1),
        jobs=batch.jobs,
        versions=versions(),
    )
    picture = draw(plot_of(record))
    write_whole(batch.out / f"{record.stem}.json", encode(record))
    write_whole(batch.out / f"{record.stem}.png", picture)
    return record


def plot_of(record: FigureRecord) -> Plot:
    """What the plot of a panel shows."""
    seeds = len(record.curves[0].seeds)
    note = f"{record.scale} scale: {record.note}" if record.note else f"{record.scale} scale"
    return Plot(
        title=f"{record.paper.upper()} figure {record.panel}: {record.title}",
        notes=(
            note,
            f"data: {', '.join(record.datasets)}; {seeds} seeds, bands from lowest to highest"
            if seeds > 1
            else f"data: {', '.join(record.datasets)}; one seed",
        ),
        warning=LEAKAGE_REPORTED if record.leakage_reported else "",
        rounds=record.rounds,
        lines=tuple(
            Line(
                label=f"{curve.label}  {curve.final:.3f}",
                accuracies=tuple(seed.accuracies for seed in curve.seeds),
                baseline=curve.baseline,
            )
            for curve in record.curves
        ),
    )


def prepare(out: Path) -> None:
    """Make the folder of the simulations, unseen by git.

    Raises:
        RunAbortedError: it cannot be made.
    """
    write_whole(out / WORK / ".gitignore", b"*\n")


def _shared(scenarios: Mapping[str, Scenario], of: Callable[[Scenario], str]) -> str:
    """What the scenarios of a panel say, each thing once."""
    said: Sequence[str] = [of(scenario) for scenario in scenarios.values()]
    return "; ".join(dict.fromkeys(said))
