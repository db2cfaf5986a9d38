"""Files of experiments, and the scenarios of their cells."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any, Final

from securefl import scenario
from securefl.base.errors import ConfigError
from securefl.lab.experiments import experiment, quantities, reading, trials
from securefl.lab.experiments.claims import LEAST_SEEDS
from securefl.lab.experiments.sources import Source
from securefl.lab.experiments.sweep import Sweep, read_sweep
from securefl.methods import feasibility

_STUDY: Final = "_study.toml"
"""File shared by a paper's experiments; a folder without it contains panels."""
_TRIALS: Final = "_trials.toml"
"""File that marks a folder of trials on drawn problems."""
ALL: Final = "all"
_MOST: Final = 1_000
"""Most cells of a comparison; more are probably a mistake."""


@dataclass(frozen=True, slots=True)
class CellPlan:
    """Scenario of each cell, or the reason why none is feasible."""

    scenarios: dict[str, scenario.Scenario]
    """Feasible scenarios by label; at least one."""
    refused: dict[str, str]


@dataclass(frozen=True, slots=True)
class Exhibit:
    """Numbered table or figure, with its experiment and study."""

    paper: str
    """Empty for a comparison."""
    path: Path
    study: experiment.Study
    sheet: experiment.Experiment
    item: experiment.Item
    drawn: trials.Trials | Sweep | None = None
    """Source of drawn numbers; None for a federation or a split of data."""
    base: Mapping[str, Any] | None = None
    """Scenario of a comparison."""

    @property
    def title(self) -> str:
        """Title of experiment and item."""
        title, own = self.sheet.title, self.item.title
        return title if own == title else f"{title}: {own}"

    @property
    def claim(self) -> str:
        """Claim of the paper on one line."""
        return " ".join(self.sheet.claim.split())

    @property
    def named(self) -> bool:
        """True if data sets have names, some of which may be missing or chosen."""
        return self.study.datasets != (experiment.UNNAMED,)

    def stem(self, dataset: str, scale: experiment.ScaleName) -> str:
        """Return the stem of its files."""
        if isinstance(self.drawn, Sweep) or self.base is not None:
            return self.item.number
        return f"{self.item.key}-{dataset}-{scale}" if dataset else f"{self.item.number}-{scale}"

    def datasets(self) -> tuple[experiment.StudyDataset, ...]:
        """Return the data sets that it covers."""
        only = self.item.only
        return tuple(one for one in self.study.datasets if not only or one.name in only)

    def cells_at(self, scale: experiment.ScaleName) -> tuple[experiment.CellChoice, ...]:
        """Return the cells of a scale.

        Raises:
            ConfigError: the experiment has no such scale.
        """
        if scale not in self.sheet.scale:
            there = ", ".join(self.sheet.scale)
            raise ConfigError(
                "--scale", f"{self.item.kind} {self.item.number} has no {scale!r} scale", f"choose {there}"
            )
        cells = self.sheet.cells_at(scale, experiment.JOINT if self.drawn is None else self.drawn.joint)
        return tuple(one for one in cells if self.drawn is None or self.drawn.has(one.place))

    def seeds(self, scale: experiment.ScaleName) -> int:
        """Return the default number of simulations or draws of a cell."""
        if self.drawn is not None:
            return self.drawn.draws_at(scale)
        return LEAST_SEEDS

    def values(
        self, scale: experiment.ScaleName, dataset: experiment.StudyDataset, cell: experiment.CellChoice
    ) -> experiment.Values:
        """Return all values of a cell, derived ones included.

        Raises:
            ConfigError: a value is out of range.
        """
        study, sheet, item = self.study, self.sheet, self.item
        given = (study.values, dataset.values, sheet.values, sheet.scale[scale].values, item.values)
        merged: experiment.Values = {}
        for values in (*given, *(level.values for level in cell.levels)):
            merged |= values
        return quantities.derive_quantities(merged)

    def overrides(
        self, scale: experiment.ScaleName, source: Source, cell: experiment.CellChoice
    ) -> experiment.Overrides:
        """Return the overrides that turn the scale's scenario into that of a cell.

        Raises:
            ConfigError: a ``$name`` has no value.
        """
        sheet, dataset = self.sheet, source.dataset
        templates = (
            *self.study.overrides,
            *dataset.overrides,
            *dataset.at.get(scale, ()),
            *sheet.overrides,
            *sheet.scale[scale].overrides,
            *self.item.overrides,
            *(override for level in cell.levels for override in level.overrides),
        )
        values = self.values(scale, dataset, cell)
        if source.auxiliary:
            values["auxiliary"] = source.auxiliary
        # Last and not a template: a folder may have any name.
        return (
            *quantities.fill(templates, values),
            *((f"data.set={source.quoted}",) if dataset.name else ()),
        )

    def plan(self, scale: experiment.ScaleName, source: Source | None = None) -> CellPlan:
        """Return the scenarios of all cells.

        Invalid fields are errors; infeasible numbers are refusals. ``source`` is None for an exhibit that
        names no data.

        Raises:
            ConfigError: no such scale; a file or override is refused, or all cells are.
        """
        cells = self.cells_at(scale)
        if self.drawn is not None:
            return CellPlan({}, {})
        item, file = self.item, self.path.name
        scenario.own_parts_from(self.path.parent)
        base = self.base or reading.read_toml(self.path.parent / self.sheet.scale[scale].scenario)
        name, short = file, not self.named
        if self.base is None:
            name += f", {scale} scale" if short else f", {item.kind} {item.number}, {scale} scale"
        scenarios: dict[str, scenario.Scenario] = {}
        refused: dict[str, str] = {}
        for cell in cells:
            where = f"{name}, {'curve' if short else 'cell'} {cell.label!r}"
            try:
                made = scenario.scenario_of(
                    base, self.overrides(scale, source or Source(experiment.UNNAMED), cell)
                )
            except ConfigError as error:
                raise ConfigError(f"{where}: {error.path}", error.reason, error.remedy) from error
            self._check_metric(where, made, scenarios.values())
            try:
                feasibility.check(made)
            except ConfigError as error:
                refused[cell.label] = str(error)
            else:
                scenarios[cell.label] = made
        if not scenarios:
            raise self.all_refused(refused)
        return CellPlan(scenarios, refused)

    def _check_metric(self, where: str, made: scenario.Scenario, others: Iterable[scenario.Scenario]) -> None:
        if not self.sheet.site:
            return
        metric = made.stop.metric
        if metric is None:
            remedy = "set one of [evaluation], such as scores.auc"
            raise ConfigError(f"{where}: stop.metric", "is missing, and sites are compared by it", remedy)
        for other in others:
            if other.stop.metric != metric:
                reason = f"is {metric}, but {other.stop.metric} in another cell"
                raise ConfigError(f"{where}: stop.metric", reason, "set the same metric in all of them")

    def all_refused(self, refused: Mapping[str, str]) -> ConfigError:
        """Return the error for an exhibit whose cells are all refused."""
        label, reason = next(iter(refused.items()))
        what = "cells" if self.named else "curves"
        where = self.path.name + ("" if self.base is not None else f", {self.item.kind} {self.item.number}")
        return ConfigError(
            where, f"all {len(refused)} {what} are refused, {label!r} for this reason: {reason}"
        )


def papers(root: Path) -> tuple[str, ...]:
    """Return the names of all papers below a folder, sorted: folders with files of experiments."""
    return tuple(sorted(folder.name for folder in root.iterdir() if folder.is_dir() and _files(folder)))


def exhibits(root: Path, paper: str) -> tuple[Exhibit, ...]:
    """Return all tables and figures of a paper in order, tables first.

    Raises:
        ConfigError: a file is refused, or two items have one number.
    """
    folder = root / paper
    if (folder / _TRIALS).exists():
        drawn = trials.read_trials(folder)
        return tuple(Exhibit(paper, one.path, one.study, one.whole(), one.item, one) for one in drawn)
    if (folder / _STUDY).exists():
        study = read_study(folder / _STUDY)
        sheets = [(path, read_sheet(path, study)) for path in _files(folder)]
    else:
        study = experiment.Study(
            title=f"Figures of {paper.upper()}, reproduced", datasets=(experiment.UNNAMED,)
        )
        sheets = [(path, read_panel(path)) for path in _files(folder)]
    found: dict[tuple[experiment.Kind, str], Exhibit] = {}
    for path, sheet in sheets:
        for item in sheet.items:
            former = found.setdefault((item.kind, item.number), Exhibit(paper, path, study, sheet, item))
            if former.item is not item:
                where = former.path.name
                raise ConfigError(
                    f"{path}, items", f"{item.kind} {item.number} is in {where}, too", "keep one of them"
                )
    by_sheet = sorted(found.values(), key=lambda one: _order(one.item))
    first = {path: index for index, path in reversed(list(enumerate(one.path for one in by_sheet)))}
    return tuple(sorted(by_sheet, key=lambda one: first[one.path]))


def comparison_of(path: Path) -> Exhibit:
    """Read a comparison as an exhibit without a paper.

    Raises:
        ConfigError: a file or field is invalid, two axes, choices or curves share a label, or a claim names
            an unknown curve.
    """
    scenario.own_parts_from(path.parent)
    comparison = reading.read_section(path, experiment.Comparison)
    if not (comparison.axes or comparison.curves):
        raise ConfigError(
            f"{path}, axes", "are missing, so there is nothing to compare", "add [[axes]] or [[curves]]"
        )
    number = prod(len(axis.choices) for axis in comparison.axes)
    if number > _MOST:
        raise ConfigError(
            f"{path}, axes", f"make {number:,} combinations, the limit is {_MOST:,}", "split the file"
        )
    sheet = comparison.whole(path.stem)
    _check_cells(path, sheet)
    try:
        scenario.scenario_of(comparison.scenario)
    except ConfigError as error:
        raise ConfigError(f"{path}, scenario: {error.path}", error.reason, error.remedy) from error
    study = experiment.Study(title=comparison.title, ours=True, datasets=(experiment.UNNAMED,))
    return Exhibit("", path, study, sheet, sheet.items[0], base=comparison.scenario)


def sweep_of(path: Path, study: experiment.Study) -> Exhibit:
    """Read a sweep over random reclusterings as an exhibit.

    Raises:
        ConfigError: as :func:`securefl.lab.experiments.sweep.read_sweep`.
    """
    sweep = read_sweep(path)
    sheet = sweep.whole()
    return Exhibit("leakage", path, study, sheet, sheet.items[0], sweep)


def choose_exhibits(
    known: Sequence[Exhibit], wanted: Sequence[tuple[experiment.Kind, str]]
) -> tuple[Exhibit, ...]:
    """Return the ``wanted`` exhibits by kind and number (``5``: all panels of figure 5) or ``all``.

    Raises:
        ConfigError: there is no such table or figure.
    """
    chosen: set[str] = set()
    for kind, number in wanted:
        of_kind = [one.item for one in known if one.item.kind == kind]
        panel = re.compile(re.escape(number) + "[a-z]")
        named = {one.key for one in of_kind if number in {one.number, ALL} or panel.fullmatch(one.number)}
        if not named:
            there = of_kind or [one.item for one in known]
            numbers = ", ".join([*(item.number for item in sorted(there, key=_order)), f"or {ALL}"])
            if not of_kind:
                numbers = f"--{there[0].kind} {numbers}; {known[0].paper} has no {kind}s"
            raise ConfigError(f"--{kind}", f"there is no {kind} {number!r}", f"give {numbers}")
        chosen |= named
    return tuple(one for one in known if one.item.key in chosen)


def read_study(path: Path) -> experiment.Study:
    """Read and check a study file.

    Raises:
        ConfigError: a file or field is invalid.
    """
    study = reading.read_section(path, experiment.Study)
    names = [one.name for one in study.datasets]
    if len(set(names)) < len(names):
        raise ConfigError(f"{path}, datasets", "two data sets have the same name", "rename one of them")
    schemes = [one.scheme for one in study.datasets if one.scheme]
    if len(set(schemes)) < len(schemes):
        raise ConfigError(
            f"{path}, datasets", "two data sets have the same scheme", "remove the scheme of one"
        )
    return study


def read_panel(path: Path) -> experiment.Experiment:
    """Read and check a panel.

    Raises:
        ConfigError: a file or field is invalid, a claim names an unknown curve, two curves share a label, or
            the panel is not the file's name.
    """
    panel = reading.read_section(path, experiment.Panel)
    sheet = panel.whole()
    _check_cells(path, sheet)
    if panel.panel != path.stem:
        raise reading.name_error(path, "panel", panel.panel)
    return sheet


def read_sheet(path: Path, study: experiment.Study) -> experiment.Experiment:
    """Read and check the file of an experiment.

    Raises:
        ConfigError: a file or field is invalid, or names an unknown cell, choice or data set.
    """
    sheet = reading.read_section(path, experiment.Experiment)
    labels = _check_cells(path, sheet)
    for name, scale in sheet.scale.items():
        for axis, kept in scale.keep.items():
            known = {level.label for one in sheet.axes if one.name == axis for level in one.choices}
            for missing in sorted(set(kept) - known):
                field, there = f"scale.{name}.keep.{axis}", ", ".join(sorted(known))
                raise ConfigError(
                    f"{path}, {field}", f"{missing!r} is not a choice of {axis}", f"give {there}"
                )
    for index, item in enumerate(sheet.items):
        where = f"{path}, items.{index}"
        reading.check_labels(Path(where), labels, item.claims)
        for dataset, claims in item.claims_on.items():
            reading.check_labels(Path(f"{where}.claims_on.{dataset}"), labels, claims)
        for problem, reason in _problems(item, sheet, study):
            raise ConfigError(f"{where}.{problem}", reason)
    return sheet


def _check_cells(path: Path, sheet: experiment.Experiment) -> list[str]:
    names = [axis.name for axis in sheet.axes]
    if len(set(names)) < len(names):
        raise ConfigError(f"{path}, axes", "two axes have the same name", "rename one of them")
    labels = [cell.label for cell in sheet.cells()]
    reading.check_labels(path, labels, sheet.claims)
    return labels


def _problems(
    item: experiment.Item, sheet: experiment.Experiment, study: experiment.Study
) -> Iterator[tuple[str, str]]:
    known = {one.name for one in study.datasets}
    tables: dict[str, dict[str, experiment.Numbers]] = {"published": item.published, "spread": item.spread}
    for name in sorted(set(item.only) - known):
        yield "only", f"there is no data set {name!r}"
    for name in sorted(item.claims_on.keys() - known):
        yield f"claims_on.{name}", f"there is no data set {name!r}"
    for field, table in tables.items():
        for name, numbers in table.items():
            if name not in known:
                yield f"{field}.{name}", f"there is no data set {name!r}"
            shape = (len(numbers), *sorted({len(row) for row in numbers}))
            if shape != sheet.shape:
                wanted = f"{sheet.shape[0]} rows of {sheet.shape[1]} numbers"
                yield f"{field}.{name}", f"does not fit the axes, which need {wanted}"


def _files(folder: Path) -> list[Path]:
    return [path for path in sorted(folder.glob("*.toml")) if not path.name.startswith("_")]


def _order(item: experiment.Item) -> tuple[bool, bool, int, str]:
    digits = re.match(r"[0-9]*", item.number)
    first = int(digits[0]) if digits and digits[0] else None
    return item.kind == "figure", first is None, first or 0, item.number
