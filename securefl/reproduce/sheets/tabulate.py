"""From the simulations of a table or figure on one data set to its record: cells, differences, verdicts."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import msgspec

from securefl.config.scenario import Scenario
from securefl.reproduce.comparison import Plan
from securefl.reproduce.figure import AnyClaim, ScaleName
from securefl.reproduce.judging import judge, measured
from securefl.reproduce.record import FORMAT, SeedRecord, final_of, scenario_key
from securefl.reproduce.sheets.exhibits import Exhibit
from securefl.reproduce.sheets.record import AxisRecord, CellRecord, SheetRecord
from securefl.reproduce.sheets.study import SPLITS, Dataset, Level, label_of, place_of
from securefl.reproduce.shelf import labels_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """The simulations of one table or figure on one data set."""

    exhibit: Exhibit
    dataset: Dataset
    scale: ScaleName
    plan: Plan
    results: Mapping[str, Sequence[SeedRecord]]
    """By label of the cell, one per seed; a cell without is in ``refused``."""
    refused: Mapping[str, str]
    """By label: why it has no result."""
    jobs: int
    versions: Mapping[str, str]
    auxiliary: str = ""
    """The auxiliary set that was taken instead of the item's own (:attr:`~.sources.Source.instead`)."""
    shares: Mapping[str, tuple[tuple[float, ...], ...]] = field(default_factory=dict)
    """By label, for sheets that show a split (:attr:`CellRecord.shares`)."""


def tabulate(done: Done) -> SheetRecord:
    """Set our numbers beside the paper's, and judge the claims."""
    exhibit, scale = done.exhibit, done.scale
    sheet, item = exhibit.sheet, exhibit.item
    cells = tuple(_cell(done, cell) for cell in sheet.kept(scale))
    accuracies = {cell.label: [seed.accuracies for seed in cell.seeds] for cell in cells if cell.seeds}
    rounds = max((cell.rounds for cell in cells), default=0)
    claims = (*sheet.claims, *item.claims_about(done.dataset.name))
    judged = [claim for claim in claims if labels_of(claim) <= accuracies.keys()]
    kept = {axis.name: tuple(dict.fromkeys(c.place[at] for c in cells)) for at, axis in enumerate(sheet.axes)}
    scenarios, trains = done.plan.scenarios, sheet.shows not in SPLITS
    return SheetRecord(
        format=FORMAT,
        paper=exhibit.paper,
        kind=item.kind,
        number=item.number,
        dataset=done.dataset.name,
        scale=scale,
        title=exhibit.title,
        settings=sheet_key(exhibit, scale, done.dataset, scenarios),
        note=_note(done, scenarios if trains else {}),
        shows=sheet.shows,
        axes=tuple(AxisRecord(name=axis.name, choices=kept[axis.name]) for axis in sheet.axes),
        last=min((sheet.last, *(s.stop.rounds for s in scenarios.values()))),
        tolerance=sheet.tolerance,
        leakage_reported=trains and any(s.leakage.mode == "report" for s in scenarios.values()),
        cells=cells,
        verdicts=tuple(judge(claim, accuracies, sheet.last, rounds) for claim in judged),
        unjudged=tuple(_unjudged(claim, cells) for claim in claims if claim not in judged),
        seconds=round(sum(seed.seconds for cell in cells for seed in cell.seeds), 1),
        jobs=done.jobs,
        versions=dict(done.versions),
    )


def sheet_key(exhibit: Exhibit, scale: ScaleName, dataset: Dataset, scenarios: Mapping[str, Scenario]) -> str:
    """Digest (32 hex digits) of what the verdicts follow from, seeds and the place of the data apart.

    An auxiliary set that the item leaves open does not count either: the note names it.
    """
    sheet, item = exhibit.sheet, exhibit.item
    foreign = item.auxiliary is not None
    here = {label: scenario_key(_placeless(one, foreign=foreign)) for label, one in scenarios.items()}
    published = [item.published.get(dataset.name), item.spread.get(dataset.name)]
    claims = [sheet.claims, item.claims_about(dataset.name)]
    judged = [scale, sheet.last, sheet.tolerance, *claims, published, list(here.items())]
    return hashlib.sha256(msgspec.json.encode(judged, order="sorted")).hexdigest()[:32]


def _cell(done: Done, cell: tuple[Level, ...]) -> CellRecord:
    sheet, item, name = done.exhibit.sheet, done.exhibit.item, done.dataset.name
    published, spread = item.published.get(name), item.spread.get(name)
    bare = CellRecord(
        label=label_of(cell),
        place=place_of(cell),
        baseline=any(level.baseline for level in cell),
        published=sheet.number_at(published, cell) if published else None,
        spread=sheet.number_at(spread, cell) if spread else None,
    )
    label = bare.label
    if label in done.refused:
        return msgspec.structs.replace(bare, refused=done.refused[label])
    scenario, seeds = done.plan.scenarios[label], tuple(done.results[label])
    rounds = scenario.stop.rounds
    finals = [measured(seed.accuracies, "final", sheet.last, rounds) for seed in seeds]
    return msgspec.structs.replace(
        bare,
        scenario=scenario_key(scenario),
        rounds=rounds,
        parties=scenario.parties,
        asked=_asked(scenario) if sheet.shows not in SPLITS else "",
        final=round(final_of(label, seeds, sheet.last, rounds), 6),
        low=round(min(finals), 6),
        high=round(max(finals), 6),
        seeds=seeds,
        shares=done.shares.get(label, ()),
    )


def _asked(scenario: Scenario) -> str:
    privacy = scenario.privacy
    if scenario.groups.count > 1:
        # No noise goes with task groups: there is nothing to say of it.
        return ""
    if privacy.unit == "none":
        return "none"
    amount = (
        f"noise multiplier {privacy.multiplier:g}"
        if privacy.epsilon is None
        else f"epsilon = {privacy.epsilon:g}"
    )
    return f"{amount} per {privacy.unit}, {privacy.placement} noise"


def _note(done: Done, scenarios: Mapping[str, Scenario]) -> str:
    own = done.exhibit.item.auxiliary
    said = [
        *(scenario.description for scenario in scenarios.values()),
        "" if scenarios else done.dataset.notes.get(done.scale, ""),
        done.exhibit.sheet.scale[done.scale].note,
        f"auxiliary samples from {done.auxiliary}, not {own.place}" if own and done.auxiliary else "",
    ]
    return "; ".join(dict.fromkeys(line for line in said if line))


def _unjudged(claim: AnyClaim, cells: Sequence[CellRecord]) -> str:
    run = {cell.label: cell for cell in cells}
    lacking = sorted(label for label in labels_of(claim) if label not in run or not run[label].seeds)
    label = lacking[0]
    why = "is refused" if label in run else "is not run at this scale"
    return f"{claim.says} ({label!r} {why})"


def _placeless(scenario: Scenario, *, foreign: bool) -> Scenario:
    scheme, colon, _ = scenario.data.set.partition(":")
    data = msgspec.structs.replace(scenario.data, set=f"{scheme}:-" if colon else scheme)
    if foreign:
        data = msgspec.structs.replace(data, server_set="npz:-")
    return msgspec.structs.replace(scenario, data=data)
