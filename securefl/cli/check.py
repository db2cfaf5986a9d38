"""``securefl reproduce --check``: recompute a part of each committed result. Imports torch."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

from securefl import scenario
from securefl.base.errors import ConfigError
from securefl.cli.console import say
from securefl.cli.experiment_options import Asked, sources_of
from securefl.cli.splits import split_of
from securefl.lab import experiments
from securefl.runtime import report

_TESTS = 5
"""Tests of the model to compare: clusters of the first rounds differ most clearly."""


def check_results(asked: Asked, chosen: Sequence[experiments.Exhibit]) -> bool:
    """Check the results at the requested scale; return True if all are reproduced.

    Raises:
        ConfigError: there is no result, or none could be computed.
        RunAbortedError: the disk is full or gone.
    """
    of = {(one.item.kind, one.item.number): one for one in chosen}
    keyed = (
        (of.get((record.kind, record.number)), record) for record in experiments.read_records(asked.folder)
    )
    return _conclude(
        asked,
        [
            partial(check_record, asked, one, record)
            for one, record in keyed
            if one and record.scale == asked.scale
        ],
    )


def _conclude(asked: Asked, checks: Sequence[Callable[[], experiments.CheckedResult]]) -> bool:
    if not checks:
        reason = f"{asked.folder} holds no result of these at {asked.scale} scale"
        raise ConfigError("--check", reason, "see --list for the results there")
    done: list[experiments.CheckedResult] = []
    for check in checks:
        done.append(check())
        say(f"  {done[-1].stem}: {done[-1]}")
    if all(one.unchecked for one in done):
        raise ConfigError("--check", "no result could be computed again", "see the reason in each line above")
    now = experiments.CheckRecord(
        paper=asked.paper, commit=experiments.commit(), versions=experiments.versions(), checked=tuple(done)
    )
    target = experiments.check_file(asked.folder)
    experiments.write_result(
        target, experiments.encode(experiments.merge_checks(experiments.read_check(asked.folder), now))
    )
    stale, skipped = sum(one.stale for one in done), sum(bool(one.unchecked) for one in done)
    suffix = f", {skipped} not checked" if skipped else ""
    say(f"{stale} of {report.count_of(len(done), 'result')} stale{suffix}; wrote {target}")
    return not any(one.stale or one.outdated for one in done)


def check_record(
    asked: Asked, exhibit: experiments.Exhibit, record: experiments.Record
) -> experiments.CheckedResult:
    """Repeat the start of a record's cheapest simulation or draw, if possible of no baseline.

    Raises:
        RunAbortedError: the disk is full or gone.
    """
    stem, result = record.stem, record.fingerprint
    shows, drawn = exhibit.sheet.shows, exhibit.drawn
    scenarios: Mapping[str, scenario.Scenario] = {}
    try:
        if drawn is None:
            there, lacking = sources_of(asked, exhibit)
            source = next((one for one in there if one.dataset.name == record.dataset), None)
            if source is None:
                why = next(
                    (line for line in lacking if line.startswith(record.dataset)), "its data are missing"
                )
                return experiments.CheckedResult(stem=stem, result=result, unchecked=_why(asked, why))
            scenarios = exhibit.plan(record.scale, source).scenarios
    except ConfigError as error:
        return experiments.CheckedResult(stem=stem, result=result, unchecked=_why(asked, error))
    places = {cell.label: cell.place for cell in exhibit.cells_at(record.scale)}
    keys = {label: experiments.scenario_key(one, exhibit.sheet.site) for label, one in scenarios.items()}
    known = [
        (cell.baseline, seed.seconds, cell.label, seed)
        for cell in record.cells
        if cell.label in places and (drawn or keys.get(cell.label) == cell.scenario)
        for seed in cell.seeds
        if seed.accuracies
    ]
    if not known:
        return experiments.CheckedResult(stem=stem, result=result, unchecked=experiments.CHANGED)
    _, _, label, seed = min(known, key=lambda one: one[:2])
    try:
        if isinstance(drawn, experiments.Trials):
            again = drawn.job(record.scale, places[label], seed.seed, asked.folder).again().numbers
        else:
            job = experiments.SimulationJob(
                scenario=scenarios[label],
                seed=seed.seed,
                folder=asked.folder,
                data_dir=asked.data_dir,
                device=asked.device,
                every=seed.tested_every,
                last=record.last,
                site=exhibit.sheet.site,
            )
            again = (
                split_of(job, shows)[0].accuracies
                if shows in experiments.SPLITS
                else job.measure_again(_TESTS)
            )
    except ConfigError as error:
        return experiments.CheckedResult(stem=stem, result=result, unchecked=_why(asked, error))
    return experiments.compare(stem, result, f"{label}, seed {seed.seed}", seed.numbers, again)


def _why(asked: Asked, reason: object) -> str:
    return str(reason).replace(str(asked.data_dir), "DATA_DIR")
