"""``securefl reproduce --check``: a part of each committed result, computed again. Imports torch."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

from parties.console import say
from securefl.cli.splits import split_of
from securefl.cli.study import Asked, sources_of
from securefl.config.scenario import Scenario
from securefl.errors import ConfigError
from securefl.report.text import counted
from securefl.reproduce.freshness import Checked, CheckRecord, check_file, compare, merged, read_check
from securefl.reproduce.groups.record import TrialsRecord, read_trial_records
from securefl.reproduce.groups.sheet import Trials, cell_label
from securefl.reproduce.groups.trial import Trial
from securefl.reproduce.measure import Job
from securefl.reproduce.provenance import commit, versions
from securefl.reproduce.record import (
    FigureRecord,
    SeedRecord,
    encode,
    read_records,
    scenario_key,
    write_whole,
)
from securefl.reproduce.sheets.exhibits import Exhibit
from securefl.reproduce.sheets.record import SheetRecord, read_sheet_records
from securefl.reproduce.sheets.study import SPLITS
from securefl.reproduce.shelf import Preset

_TESTS = 5
"""Tests of the model that are compared: more of them cost more, and clusters of the first round tell most."""


def check_panels(asked: Asked, presets: Sequence[Preset]) -> bool:
    """Check the panels at the scale that is asked for; return whether all are as committed.

    Raises:
        ConfigError: none of them was run.
        RunAbortedError: the disk is full or gone.
    """
    records = read_records(asked.out)
    keyed = ((preset, records.get((preset.figure.panel, asked.scale))) for preset in presets)
    return _conclude(asked, [partial(_panel, asked, preset, record) for preset, record in keyed if record])


def check_sheets(asked: Asked, chosen: Sequence[Exhibit]) -> bool:
    """The same for tables and figures of a study, on the data sets that they were run on."""
    of = {(one.item.kind, one.item.number): one for one in chosen}
    keyed = ((of.get((record.kind, record.number)), record) for record in read_sheet_records(asked.out))
    return _conclude(
        asked,
        [partial(_sheet, asked, one, record) for one, record in keyed if one and record.scale == asked.scale],
    )


def check_trials(asked: Asked, chosen: Sequence[Trials]) -> bool:
    """The same for figures that are trials."""
    records = read_trial_records(asked.out)
    keyed = ((one, records.get((one.sheet.panel, asked.scale))) for one in chosen)
    return _conclude(asked, [partial(_trial, one, record) for one, record in keyed if record])


def _conclude(asked: Asked, checks: Sequence[Callable[[], Checked]]) -> bool:
    """Check one result after the other, say and write what was found."""
    if not checks:
        reason = f"nothing of what is asked for was run at {asked.scale} scale into {asked.out}"
        raise ConfigError("--check", reason, "--list shows what was")
    done: list[Checked] = []
    for check in checks:
        done.append(check())
        say(f"  {done[-1].stem}: {done[-1]}")
    if all(one.unchecked for one in done):
        raise ConfigError("--check", "nothing could be computed again", "each line above says why")
    now = CheckRecord(paper=asked.paper, commit=commit(), versions=versions(), checked=tuple(done))
    target = check_file(asked.out)
    write_whole(target, encode(merged(read_check(asked.out), now)))
    stale, skipped = sum(one.stale for one in done), sum(bool(one.unchecked) for one in done)
    said = f", {skipped} not checked" if skipped else ""
    say(f"{stale} of {counted(len(done), 'result')} stale{said}; wrote {target}")
    return stale == 0


def _panel(asked: Asked, preset: Preset, record: FigureRecord) -> Checked:
    cells = {curve.label: (curve.scenario, curve.seeds, curve.baseline) for curve in record.curves}
    try:
        scenarios = preset.scenarios(record.scale)
    except ConfigError as error:
        return Checked(stem=record.stem, result=record.fingerprint, unchecked=_why(asked, error))
    return _again(asked, record, cells, scenarios, _accuracies)


def _sheet(asked: Asked, exhibit: Exhibit, record: SheetRecord) -> Checked:
    cells = {cell.label: (cell.scenario, cell.seeds, cell.baseline) for cell in record.cells}
    shows = exhibit.sheet.shows
    try:
        there, lacking = sources_of(asked, exhibit)
        source = next((one for one in there if one.dataset.name == record.dataset), None)
        if source is None:
            why = next((line for line in lacking if line.startswith(record.dataset)), "its data are missing")
            return Checked(stem=record.stem, result=record.fingerprint, unchecked=_why(asked, why))
        scenarios = exhibit.plan(record.scale, source).scenarios
    except ConfigError as error:
        return Checked(stem=record.stem, result=record.fingerprint, unchecked=_why(asked, error))

    def measure(job: Job) -> Sequence[float]:
        return split_of(job, shows)[0].accuracies if shows in SPLITS else _accuracies(job)

    return _again(asked, record, cells, scenarios, measure)


def _trial(trials: Trials, record: TrialsRecord) -> Checked:
    """The first trial of the cheapest method at the smallest point."""
    points = {trials.at(point): point for point in trials.size(record.scale).points}
    methods = {method.label: method for method in trials.sheet.methods}
    known = [cell for cell in record.cells if cell.at in points and cell.method in methods]
    if not known:
        why = "its points or methods are no longer in the figure's file"
        return Checked(stem=record.stem, result=record.fingerprint, unchecked=why)
    cell = min(known, key=lambda one: one.trials[0].seconds)
    trial = Trial(trials.setup(points[cell.at]), trials.common, 0)
    ((_, outcome),) = trial.run([methods[cell.method]])
    label = f"{cell_label(cell.method, cell.at)}, trial 1"
    return compare(record.stem, record.fingerprint, label, cell.trials[0].numbers, outcome.numbers)


def _why(asked: Asked, reason: object) -> str:
    """A reason that may be committed: without where this machine has its data."""
    return str(reason).replace(str(asked.data_dir), "DATA_DIR")


def _accuracies(job: Job) -> tuple[float, ...]:
    return job.measure_again(_TESTS)


def _again(
    asked: Asked,
    record: FigureRecord | SheetRecord,
    cells: Mapping[str, tuple[str, Sequence[SeedRecord], bool]],
    scenarios: Mapping[str, Scenario],
    measure: Callable[[Job], Sequence[float]],
) -> Checked:
    """Compute the start of one simulation again: the cheapest one that is no baseline, if there is any.

    Args:
        asked: the call.
        record: the result.
        cells: of it, by label: digest of the scenario, seeds, and whether it is a baseline.
        scenarios: of today, by label.
        measure: gives the numbers of a simulation.
    """
    stem, result = record.stem, record.fingerprint
    known = [
        (baseline, seed.seconds, label, seed)
        for label, (key, seeds, baseline) in cells.items()
        if label in scenarios and scenario_key(scenarios[label]) == key
        for seed in seeds
        if seed.accuracies
    ]
    if not known:
        return Checked(stem=stem, result=result, unchecked="none of its scenarios is what its files say now")
    _, _, label, seed = min(known, key=lambda one: one[:2])
    job = Job(
        scenario=scenarios[label],
        seed=seed.seed,
        folder=asked.out,
        data_dir=asked.data_dir,
        device=asked.device,
        every=seed.tested_every,
        last=record.last,
    )
    try:
        again = measure(job)
    except ConfigError as error:
        return Checked(stem=stem, result=result, unchecked=_why(asked, error))
    return compare(stem, result, f"{label}, seed {seed.seed}", seed.accuracies, again)
