"""What is known of a study's tables and figures: what was run of each, and a page in Markdown."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

from securefl.errors import ConfigError
from securefl.report.text import seconds
from securefl.reproduce.comparison import JOINT
from securefl.reproduce.freshness import NEVER_CHECKED, CheckRecord
from securefl.reproduce.judging import overall
from securefl.reproduce.sheets.exhibits import Exhibit
from securefl.reproduce.sheets.record import SheetRecord
from securefl.reproduce.sheets.report import cell_text, record_lines
from securefl.reproduce.sheets.sources import nowhere
from securefl.reproduce.sheets.study import Dataset, Item, Numbers
from securefl.reproduce.sheets.tabulate import sheet_key


@dataclass(frozen=True, slots=True)
class Shown:
    """A table or figure, and all that was run of it."""

    exhibit: Exhibit
    records: tuple[SheetRecord, ...]
    check: CheckRecord

    @property
    def name(self) -> str:
        """``Table 15``."""
        return f"{self.exhibit.item.kind.capitalize()} {self.exhibit.item.number}"

    def missing(self) -> tuple[Dataset, ...]:
        """The data sets that it was not run on at any scale."""
        run = {record.dataset for record in self.records}
        return tuple(one for one in self.exhibit.datasets() if one.name not in run)

    def verdict(self, record: SheetRecord) -> str:
        """What came of the claims and of the paper's numbers, in a few words."""
        claims = overall(record.verdicts)
        if self.exhibit.study.ours:
            found = claims
        else:
            found = record.agreement() if claims == "nothing claimed" else f"{claims}; {record.agreement()}"
        older = " (of an older file)" if outdated(self.exhibit, record) else ""
        return found + older + self.check.mark(record.stem, record.fingerprint)


def shown(
    known: Sequence[Exhibit], records: Sequence[SheetRecord], check: CheckRecord = NEVER_CHECKED
) -> tuple[Shown, ...]:
    """Every table and figure with its records, in the order of ``known``, and what a check of them found."""

    def of(item: Item) -> tuple[SheetRecord, ...]:
        return tuple(one for one in records if (one.kind, one.number) == (item.kind, item.number))

    return tuple(Shown(one, of(one.item), check) for one in known)


def outdated(exhibit: Exhibit, record: SheetRecord) -> bool:
    """Whether the files have changed since it was run."""
    for dataset in exhibit.datasets():
        if dataset.name == record.dataset:
            try:
                # Where the data lie makes no difference.
                source = nowhere(dataset, exhibit.item.auxiliary)
                scenarios = exhibit.plan(record.scale, source).scenarios
            except ConfigError:
                return True
            return record.settings != sheet_key(exhibit, record.scale, dataset, scenarios)
    return True


def time_of(record: SheetRecord) -> str:
    """How long it takes, with as many simulations side by side as the last time."""
    return seconds(record.seconds / record.jobs)


def sheet_page(
    known: Sequence[Exhibit],
    records: Sequence[SheetRecord],
    folder: str,
    check: CheckRecord = NEVER_CHECKED,
) -> str:
    """The page on all tables and figures of a study, in Markdown.

    Args:
        known: all of them, sheet by sheet.
        records: those that were run.
        folder: where the plots are, from where the page is.
        check: of the records.
    """
    everything = shown(known, records, check)
    lines = list(_head(everything))
    for _, group in groupby(everything, key=lambda one: one.exhibit.path):
        lines.extend(_family(tuple(group), folder))
    return "\n".join(lines)


def _head(everything: Sequence[Shown]) -> Iterator[str]:
    paper, study = everything[0].exhibit.paper, everything[0].exhibit.study
    yield f"# {study.title}"
    yield ""
    yield (
        f"Made by `securefl reproduce {paper} --page` from the JSON files beside the plots; do not edit it."
        f" Texts{'' if study.ours else ' and published numbers'} come from the files in"
        f" `scenarios/papers/{paper}/`. To run one again:"
        f" `securefl reproduce {paper} --table N --data-dir DIR`, or `--figure N`."
    )
    yield ""
    about = (
        "Numbers are accuracies on the test set, averaged over the last rounds; with several seeds, their"
        " mean with lowest and highest. A verdict is about our runs at the scale that it names"
    )
    beside_a_paper = (
        ", never about the paper's own. Desk scale differs from the paper's in what its note says: a"
        " difference from the paper's number is then one of size as well as of method. An epsilon is that of"
        " the mechanism as accounted; in a simulation, batches and noise follow from the seed and hide"
        " nothing."
    )
    yield about + ("." if study.ours else beside_a_paper)
    yield ""
    if study.chosen:
        yield "Chosen for all of them:"
        yield ""
        yield from (f"- {line.strip()}" for line in study.chosen)
        yield ""
    run = [(one, record) for one in everything for record in one.records]
    if run:
        yield "| | what it shows | data | scale | verdict | time |"
        yield "|---|---|---|---|---|---|"
        for one, record in run:
            told = one.verdict(record)
            yield (
                f"| [{one.name}](#{_anchor(one)}) | {cell_text(one.exhibit.title)} | {record.dataset} |"
                f" {record.scale} | {cell_text(told)} | {time_of(record)} |"
            )
        yield ""
    idle = [one.exhibit.item for one in everything if not one.records]
    if idle:
        kinds = sorted({item.kind for item in idle}, reverse=True)
        idle.sort(key=lambda item: (not item.number.isdigit(), item.number.zfill(3)))
        numbers = [f"{kind}s {', '.join(i.number for i in idle if i.kind == kind)}" for kind in kinds]
        yield f"**Not run yet:** {'; '.join(numbers)}."
        yield ""


def _family(group: Sequence[Shown], folder: str) -> Iterator[str]:
    sheet = group[0].exhibit.sheet
    settings = "Settings" if group[0].exhibit.study.ours else "The paper's settings"
    yield f"## {sheet.title}"
    yield ""
    yield sheet.claim.strip()
    yield ""
    yield f"- *{settings}:* {sheet.settings.strip()}"
    yield from (f"- *Chosen:* {line.strip()}" for line in sheet.chosen)
    yield from (f"- *Not in the paper:* {line.strip()}" for line in sheet.ours)
    yield ""
    if sheet.findings:
        yield sheet.findings.strip()
        yield ""
    for one in group:
        yield from _item(one, folder)


def _item(one: Shown, folder: str) -> Iterator[str]:
    item = one.exhibit.item
    yield f"### {one.name}"
    yield ""
    yield f"{item.title}{' (not in the paper)' if item.ours else ''}".rstrip(".") + "."
    yield ""
    for record in one.records:
        yield from record_lines(record, folder, one.check.note(record.stem, record.fingerprint))
    missing = one.missing()
    if missing:
        yield f"Not run yet on {', '.join(dataset.name for dataset in missing)}."
        yield ""
    yield from _published(one, missing)
    if item.quoted:
        yield (
            "Beside them the paper quotes "
            + "; ".join(f"{q.what}: {q.accuracy:.2f}" for q in item.quoted)
            + "."
        )
        yield ""


def _published(one: Shown, datasets: Sequence[Dataset]) -> Iterator[str]:
    """The paper's numbers for data sets that were not run."""
    item, sheet = one.exhibit.item, one.exhibit.sheet
    tables = [
        (dataset, item.published[dataset.name]) for dataset in datasets if dataset.name in item.published
    ]
    if not tables:
        return
    *others, across = sheet.axes
    columns = [level.label for level in across.choices]
    rows = [JOINT.join(level.label for level in cell[:-1]) for cell in sheet.cells()[:: len(columns)]]
    yield "The paper's numbers there:"
    yield ""
    if len(sheet.axes) == 1:
        yield f"| {cell_text(across.name)} | " + " | ".join(dataset.title for dataset, _ in tables) + " |"
        yield "|---" * (1 + len(tables)) + "|"
        for at, name in enumerate(columns):
            yield (
                f"| {cell_text(name)} | "
                + " | ".join(_number(numbers, 0, at) for _, numbers in tables)
                + " |"
            )
    else:
        head = [f"{dataset.title}, {name}" for dataset, _ in tables for name in columns]
        yield (
            f"| {cell_text(JOINT.join(axis.name for axis in others))} | "
            + " | ".join(map(cell_text, head))
            + " |"
        )
        yield "|---" * (1 + len(head)) + "|"
        for row, name in enumerate(rows):
            cells = [_number(numbers, row, at) for _, numbers in tables for at in range(len(columns))]
            yield f"| {cell_text(name)} | " + " | ".join(cells) + " |"
    yield ""


def _number(numbers: Numbers, row: int, column: int) -> str:
    number = numbers[row][column]
    return "" if number is None else f"{number:.2f}"


def _anchor(one: Shown) -> str:
    return one.name.lower().replace(" ", "-")
