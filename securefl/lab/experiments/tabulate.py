"""Tabulation of runs: cells and differences from the paper."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from securefl.base import sums
from securefl.lab.experiments import experiment, record
from securefl.lab.experiments.exhibits import CellPlan, Exhibit
from securefl.lab.experiments.provenance import commit
from securefl.methods import metrics
from securefl.scenario import Scenario


@dataclass(frozen=True, slots=True, kw_only=True)
class ExhibitResults:
    """Simulations, or draws, of a table or figure on one data set."""

    exhibit: Exhibit
    dataset: experiment.StudyDataset
    scale: experiment.ScaleName
    plan: CellPlan
    results: dict[str, list[record.SeedRecord]] = field(default_factory=dict)
    refused: dict[str, str] = field(default_factory=dict)
    jobs: int
    versions: Mapping[str, str]
    auxiliary: str = ""
    """Auxiliary set used instead of the item's own."""
    shares: dict[str, tuple[tuple[float, ...], ...]] = field(default_factory=dict)
    values: dict[str, dict[str, float]] = field(default_factory=dict)


def tabulate(done: ExhibitResults) -> record.Record:
    """Return the record with our numbers beside the paper's."""
    exhibit, scale = done.exhibit, done.scale
    sheet, item = exhibit.sheet, exhibit.item
    cells = tuple(_cell(done, cell) for cell in exhibit.cells_at(scale))
    rounds = max((cell.rounds for cell in cells), default=0)
    placed = [cell.place for cell in cells if cell.place]
    kept = {axis.name: [place[at] for place in placed] for at, axis in enumerate(sheet.axes)}
    drawn = exhibit.drawn
    scenarios, trains = done.plan.scenarios, sheet.shows not in experiment.SPLITS and drawn is None
    return record.Record(
        format=record.FORMAT,
        paper=exhibit.paper,
        kind=item.kind,
        number=item.number,
        dataset=done.dataset.name,
        scale=scale,
        stem=exhibit.stem(done.dataset.name, scale),
        title=exhibit.title,
        settings=sheet_key(exhibit, scale, done.dataset, scenarios),
        note=_note(done, scenarios if trains else {}),
        shows=sheet.shows,
        axes=tuple(
            record.AxisRecord(name=axis.name, choices=_in_order(axis, kept[axis.name])) for axis in sheet.axes
        ),
        last=min(sheet.last, rounds or sheet.last),
        tolerance=sheet.tolerance,
        leakage_reported=trains and any(s.leakage.mode == "report" for s in scenarios.values()),
        cells=cells,
        seconds=round(sums.ordered_sum(seed.seconds for cell in cells for seed in cell.seeds), 1),
        jobs=done.jobs,
        versions=dict(done.versions),
        commit=commit(),
        drawn="" if drawn is None else drawn.measures,
        **_measured_at_sites(scenarios) if sheet.site else {},
    )


def _measured_at_sites(scenarios: Mapping[str, Scenario]) -> dict[str, Any]:
    one = next(iter(scenarios.values()), None)
    if one is None or one.stop.metric is None:
        return {}
    higher = metrics.names_of(one.evaluation)[one.stop.metric]
    return {"metric": one.stop.metric, "lower_is_better": not higher}


def sheet_key(
    exhibit: Exhibit,
    scale: experiment.ScaleName,
    dataset: experiment.StudyDataset,
    scenarios: Mapping[str, Scenario],
) -> str:
    """Return a digest (32 hex digits) of the inputs of verdicts, without seeds and paths of data.

    An auxiliary set that the item leaves open does not count: the note names it.
    """
    if exhibit.drawn is not None:
        return exhibit.drawn.key(scale)
    sheet, item = exhibit.sheet, exhibit.item
    foreign = item.auxiliary is not None
    here = {
        label: record.scenario_key(_placeless(one, foreign=foreign), sheet.site)
        for label, one in scenarios.items()
    }
    published = [item.published.get(dataset.name), item.spread.get(dataset.name)]
    claims = [sheet.claims, item.claims_about(dataset.name)]
    judged = [scale, sheet.last, sheet.tolerance, *claims, published, list(here.items())]
    return hashlib.sha256(msgspec.json.encode(judged, order="sorted")).hexdigest()[:32]


def _in_order(axis: experiment.Dimension, kept: Sequence[str]) -> tuple[str, ...]:
    return tuple(level.label for level in axis.choices if level.label in kept)


def _cell(done: ExhibitResults, cell: experiment.CellChoice) -> record.CellRecord:
    sheet, item, name = done.exhibit.sheet, done.exhibit.item, done.dataset.name
    published, spread = item.published.get(name), item.spread.get(name)
    bare = record.CellRecord(
        label=cell.label,
        place=cell.place,
        baseline=cell.baseline,
        published=sheet.number_at(published, cell) if published else None,
        spread=sheet.number_at(spread, cell) if spread else None,
    )
    label = bare.label
    if label in done.refused:
        return msgspec.structs.replace(bare, refused=done.refused[label])
    seeds, drawn = tuple(done.results[label]), done.exhibit.drawn
    if drawn is not None:
        bare = msgspec.structs.replace(bare, rounds=1, seeds=seeds, values=done.values.get(label, {}))
        finals = bare.finals(1)
        final = round(sums.ordered_sum(finals) / len(finals), 6) if finals else None
        return drawn.with_shown_values(msgspec.structs.replace(bare, final=final))
    scenario = done.plan.scenarios[label]
    rounds = scenario.stop.rounds
    return msgspec.structs.replace(
        bare,
        scenario=record.scenario_key(scenario, sheet.site),
        rounds=rounds,
        parties=scenario.parties,
        asked=_privacy_of(scenario) if sheet.shows not in experiment.SPLITS else "",
        final=round(record.final_of(label, seeds, sheet.last, rounds), 6),
        seeds=seeds,
        shares=done.shares.get(label, ()),
    )


def _privacy_of(scenario: Scenario) -> str:
    privacy = scenario.privacy
    if scenario.groups.count > 1:
        # Task groups exclude noise.
        return ""
    if privacy.unit == "none":
        return "none"
    amount = (
        f"noise multiplier {privacy.multiplier:g}"
        if privacy.epsilon is None
        else f"epsilon = {privacy.epsilon:g}"
    )
    return f"{amount} per {privacy.unit}, {privacy.placement} noise"


def _note(done: ExhibitResults, scenarios: Mapping[str, Scenario]) -> str:
    own = done.exhibit.item.auxiliary
    notes = [
        *(scenario.description for scenario in scenarios.values()),
        "" if scenarios else done.dataset.notes.get(done.scale, ""),
        done.exhibit.sheet.scale[done.scale].note,
        f"auxiliary samples from {done.auxiliary}, not {own.place}" if own and done.auxiliary else "",
    ]
    return "; ".join(dict.fromkeys(line for line in notes if line))


def _placeless(scenario: Scenario, *, foreign: bool) -> Scenario:
    scheme, colon, _ = scenario.data.set.partition(":")
    data = msgspec.structs.replace(scenario.data, set=f"{scheme}:-" if colon else scheme)
    if foreign:
        data = msgspec.structs.replace(data, server_set="npz:-")
    return msgspec.structs.replace(scenario, data=data)
