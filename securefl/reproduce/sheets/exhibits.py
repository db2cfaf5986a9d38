"""Sheet files, found, read and checked; and what the scenarios of a table's cells are."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from securefl.config.limits import check
from securefl.config.load import scenario_of
from securefl.config.scenario import Scenario
from securefl.errors import ConfigError
from securefl.reproduce.comparison import Plan
from securefl.reproduce.figure import Overrides, ScaleName
from securefl.reproduce.sheets.quantities import derived, fill
from securefl.reproduce.sheets.sources import Source
from securefl.reproduce.sheets.study import (
    Dataset,
    Item,
    Kind,
    Level,
    Numbers,
    Sheet,
    Study,
    Values,
    label_of,
)
from securefl.reproduce.shelf import ALL, STUDY, check_labels, read_section


@dataclass(frozen=True, slots=True)
class Exhibit:
    """One numbered table or figure, with the sheet and the study that it belongs to."""

    paper: str
    path: Path
    """Of the sheet file."""
    study: Study
    sheet: Sheet
    item: Item

    @property
    def title(self) -> str:
        """Of the sheet, and what tells this item from its others."""
        return f"{self.sheet.title}: {self.item.title}"

    def stem(self, dataset: str, scale: ScaleName) -> str:
        """Of the names of its files."""
        return f"{self.item.key}-{dataset}-{scale}"

    def datasets(self) -> tuple[Dataset, ...]:
        """Those of the study that it is about."""
        only = self.item.only
        return tuple(one for one in self.study.datasets if not only or one.name in only)

    def values(self, scale: ScaleName, dataset: Dataset, cell: tuple[Level, ...]) -> Values:
        """Every number of one cell, those that follow from others included.

        Raises:
            ConfigError: one of them is out of range.
        """
        study, sheet, item = self.study, self.sheet, self.item
        given = (study.values, dataset.values, sheet.values, sheet.scale[scale].values, item.values)
        merged: Values = {}
        for values in (*given, *(level.values for level in cell)):
            merged |= values
        return derived(merged)

    def overrides(self, scale: ScaleName, source: Source, cell: tuple[Level, ...]) -> Overrides:
        """What makes the scale's scenario that of a cell.

        Raises:
            ConfigError: there is no value for one of the names in it.
        """
        sheet, dataset = self.sheet, source.dataset
        templates = (
            *self.study.overrides,
            *dataset.overrides,
            *dataset.at.get(scale, ()),
            *sheet.overrides,
            *sheet.scale[scale].overrides,
            *self.item.overrides,
            *(override for level in cell for override in level.overrides),
        )
        values = self.values(scale, dataset, cell)
        if source.auxiliary:
            values["auxiliary"] = source.auxiliary
        # The path comes last and is no template: a folder may be called what it likes.
        return (*fill(templates, values), f"data.set={source.quoted}")

    def plan(self, scale: ScaleName, source: Source) -> Plan:
        """The scenario of every cell. A field that is wrong is an error; numbers that do not fit are not.

        Raises:
            ConfigError: the sheet has no such scale; a file or an override is refused; or every cell is.
        """
        if scale not in self.sheet.scale:
            there = ", ".join(self.sheet.scale)
            raise ConfigError("--scale", f"{self.item.kind} {self.item.number} has no {scale!r} scale", there)
        base = _table(self.path.parent / self.sheet.scale[scale].scenario)
        scenarios: dict[str, Scenario] = {}
        refused: dict[str, str] = {}
        for cell in self.sheet.kept(scale):
            label = label_of(cell)
            where = f"{self.path.name}, {self.item.kind} {self.item.number}, {scale} scale, cell {label!r}"
            try:
                made = scenario_of(base, self.overrides(scale, source, cell))
            except ConfigError as error:
                raise ConfigError(f"{where}: {error.path}", error.reason, error.remedy) from error
            try:
                check(made)
            except ConfigError as error:
                refused[label] = str(error)
            else:
                scenarios[label] = made
        if not scenarios:
            label, reason = next(iter(refused.items()))
            raise ConfigError(
                f"{self.path.name}, {self.item.kind} {self.item.number}",
                f"all {len(refused)} cells are refused; {label!r}: {reason}",
            )
        return Plan(scenarios, refused)


def studies(root: Path) -> tuple[str, ...]:
    """The papers that have a study, in the order of their names."""
    return tuple(sorted(path.parent.name for path in root.glob(f"*/{STUDY}")))


def exhibits(root: Path, paper: str) -> tuple[Exhibit, ...]:
    """All tables and figures of a paper, sheet by sheet; tables first, in the order of their numbers.

    Args:
        root: folder with one folder per paper.
        paper: one of :func:`studies`.

    Raises:
        ConfigError: a file is refused; two items have one number.
    """
    folder = root / paper
    study = read_study(folder / STUDY)
    found: dict[tuple[Kind, str], Exhibit] = {}
    sheets = [path for path in sorted(folder.glob("*.toml")) if not path.name.startswith("_")]
    for path in sheets:
        sheet = read_sheet(path, study)
        for item in sheet.items:
            former = found.setdefault((item.kind, item.number), Exhibit(paper, path, study, sheet, item))
            if former.item is not item:
                where = former.path.name
                raise ConfigError(f"{path}, items", f"{item.kind} {item.number} is in {where} already")
    by_sheet = sorted(found.values(), key=lambda one: _order(one.item))
    first = {path: index for index, path in reversed(list(enumerate(one.path for one in by_sheet)))}
    return tuple(sorted(by_sheet, key=lambda one: first[one.path]))


def choose_exhibits(known: Sequence[Exhibit], wanted: Sequence[tuple[Kind, str]]) -> tuple[Exhibit, ...]:
    """The tables and figures that ``wanted`` names, by kind and number or ``all``, in the order of ``known``.

    Raises:
        ConfigError: there is no such table or figure.
    """
    chosen: set[str] = set()
    for kind, number in wanted:
        of_kind = [one.item for one in known if one.item.kind == kind]
        named = {item.key for item in of_kind if number in {item.number, ALL}}
        if not named:
            there = of_kind or [one.item for one in known]
            numbers = ", ".join([*(item.number for item in sorted(there, key=_order)), f"or {ALL}"])
            if not of_kind:
                numbers = f"{known[0].paper} has no {kind}s; --{there[0].kind} {numbers}"
            raise ConfigError(f"--{kind}", f"there is no {kind} {number!r}", numbers)
        chosen |= named
    return tuple(one for one in known if one.item.key in chosen)


def read_study(path: Path) -> Study:
    """Read and check a study file.

    Raises:
        ConfigError: with the file (and field) that is unreadable, unknown, missing or out of range.
    """
    study = read_section(path, Study)
    names = [one.name for one in study.datasets]
    if len(set(names)) < len(names):
        raise ConfigError(f"{path}, datasets", "two data sets have the same name")
    schemes = [one.scheme for one in study.datasets if one.scheme]
    if len(set(schemes)) < len(schemes):
        raise ConfigError(f"{path}, datasets", "two data sets have the same scheme")
    return study


def read_sheet(path: Path, study: Study) -> Sheet:
    """Read and check a sheet file.

    Raises:
        ConfigError: with the file (and field) that is unreadable, unknown, missing or out of range; a claim,
            a scale, or published numbers that are about cells, choices or data sets that there are not.
    """
    sheet = read_section(path, Sheet)
    names = [axis.name for axis in sheet.axes]
    if len(set(names)) < len(names):
        raise ConfigError(f"{path}, axes", "two axes have the same name")
    labels = [label_of(cell) for cell in sheet.cells()]
    check_labels(path, labels, sheet.claims)
    for name, scale in sheet.scale.items():
        for axis, kept in scale.keep.items():
            known = {level.label for one in sheet.axes if one.name == axis for level in one.choices}
            for missing in sorted(set(kept) - known):
                raise ConfigError(f"{path}, scale.{name}.keep.{axis}", f"there is no choice {missing!r}")
    for index, item in enumerate(sheet.items):
        where = f"{path}, items.{index}"
        check_labels(Path(where), labels, item.claims)
        for dataset, claims in item.claims_on.items():
            check_labels(Path(f"{where}.claims_on.{dataset}"), labels, claims)
        for problem, reason in _problems(item, sheet, study):
            raise ConfigError(f"{where}.{problem}", reason)
    return sheet


def _problems(item: Item, sheet: Sheet, study: Study) -> Iterator[tuple[str, str]]:
    known = {one.name for one in study.datasets}
    tables: dict[str, dict[str, Numbers]] = {"published": item.published, "spread": item.spread}
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
                yield f"{field}.{name}", f"is not {wanted}, as the axes have it"


def _table(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(str(path), f"cannot be read: {error.strerror}") from error
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ConfigError(str(path), f"is not TOML: {error}") from error


def _order(item: Item) -> tuple[bool, bool, int, str]:
    numbered = item.number.isdigit()
    return item.kind == "figure", not numbered, int(item.number) if numbered else 0, item.number
