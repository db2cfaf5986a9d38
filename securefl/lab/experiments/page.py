"""Markdown page of a paper's tables and figures."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from types import MappingProxyType
from typing import Final

from securefl.base.errors import ConfigError
from securefl.lab.experiments import claims, experiment, freshness, verdicts
from securefl.lab.experiments.earlier import NO_EARLIER, EarlierRulings
from securefl.lab.experiments.exhibits import Exhibit
from securefl.lab.experiments.judging import NOT_JUDGED, Rulings, rulings_of
from securefl.lab.experiments.record import CellRecord, Record, SeedRecord, grid
from securefl.lab.experiments.sources import nowhere
from securefl.lab.experiments.tabulate import sheet_key
from securefl.runtime import report

_NO_RULINGS: Final[Mapping[str, str]] = MappingProxyType({})
_EARLIER: Final = (
    " An *earlier verdict* compared means, mostly over one to three seeds, without a test, so that chance"
    " could decide it (*mixed*: parts of the claim differed)."
)


@dataclass(frozen=True, slots=True)
class Shown:
    """Table or figure with its runs."""

    exhibit: Exhibit
    records: tuple[Record, ...]
    check: freshness.CheckRecord
    rulings: Mapping[str, Rulings]
    earlier: EarlierRulings = NO_EARLIER

    @property
    def name(self) -> str:
        """Name, such as ``Table 15``."""
        return f"{self.exhibit.item.kind.capitalize()} {self.exhibit.item.number}"

    @property
    def anchor(self) -> str:
        """Anchor of its heading."""
        return self.name.lower().replace(" ", "-")

    def missing(self) -> tuple[experiment.StudyDataset, ...]:
        """Return the data sets without a run."""
        run = {record.dataset for record in self.records}
        return tuple(one for one in self.exhibit.datasets() if one.name not in run)

    def verdict(self, record: Record) -> str:
        """Return the verdict on claims and published numbers in a few words."""
        found = verdicts.overall(self.rulings[record.stem].verdicts)
        if not self.exhibit.study.ours and self.exhibit.named:
            found = record.agreement() if found == "nothing claimed" else f"{found}; {record.agreement()}"
        older = " (of an older figure file)" if is_outdated(self.exhibit, record) else ""
        return found + older + self.check.mark(record.stem, record.fingerprint)


def shown_exhibits(
    known: Sequence[Exhibit],
    records: Sequence[Record],
    check: freshness.CheckRecord = freshness.NEVER_CHECKED,
    before: EarlierRulings = NO_EARLIER,
) -> tuple[Shown, ...]:
    """Return all tables and figures of a paper with records, rulings, check and earlier rulings."""

    def of(item: experiment.Item) -> tuple[Record, ...]:
        return tuple(one for one in records if (one.kind, one.number) == (item.kind, item.number))

    ruled = rulings_of(known, records)
    return tuple(Shown(one, of(one.item), check, ruled, before) for one in known)


def is_outdated(exhibit: Exhibit, record: Record) -> bool:
    """Return True if the files have changed since the run."""
    for dataset in exhibit.datasets():
        if dataset.name == record.dataset:
            try:
                # The location of the data makes no difference.
                source = nowhere(dataset, exhibit.item.auxiliary)
                scenarios = exhibit.plan(record.scale, source).scenarios
            except ConfigError:
                return True
            return record.settings != sheet_key(exhibit, record.scale, dataset, scenarios)
    return True


def time_of(record: Record) -> str:
    """Return the time of computing."""
    return report.seconds(record.seconds)


def page(
    known: Sequence[Exhibit],
    records: Sequence[Record],
    folder: str,
    check: freshness.CheckRecord = freshness.NEVER_CHECKED,
    before: EarlierRulings = NO_EARLIER,
) -> str:
    """Return the page on a paper's exhibits. ``folder`` is that of the plots, relative to the page."""
    everything = shown_exhibits(known, records, check, before)
    lines = list(_head(everything, folder))
    for _, group in groupby(everything, key=lambda one: one.exhibit.path):
        lines.extend(_family(tuple(group), folder))
    return "\n".join(lines)


def _head(everything: Sequence[Shown], folder: str) -> Iterator[str]:
    first = everything[0].exhibit
    paper, study = first.paper, first.study
    tables = any(one.exhibit.item.kind == "table" for one in everything)
    options = f"--{'table' if tables else 'figure'} N" + (" --data-dir DIR" if first.drawn is None else "")
    again = f"`securefl reproduce {paper} {options}`" + (", or `--figure N`" if tables else "")
    place = f"scenarios/papers/{paper}/"
    if folder == "leakage":
        paper, place, again = "", "scenarios/leakage/", "`securefl leakage NAME`"
    made = f"securefl {f'reproduce {paper}' if paper else 'leakage'} --page"
    published = any(one.exhibit.item.published for one in everything)
    yield f"# {study.title}"
    yield ""
    yield (
        f"Made by `{made}` from the JSON files beside the plots; do not edit it."
        f" Texts{' and published numbers' if published else ''} come from the files in `{place}`."
        f" To run one again: {again}."
    )
    yield ""
    yield study.about.strip() or _how_to_read(ours=study.ours)
    yield ""
    if any(one.rulings[record.stem].verdicts for one in everything for record in one.records):
        yield (
            "`holds` and `does not hold` are decided by t tests of differences paired by seed, with at least"
            f" {claims.LEAST_SEEDS} seeds, and with a probability of at most {verdicts.ERROR:g} for any"
            " wrong ruling on this page (Holm). All else is `not decided`. Each claim shows its weakest"
            " comparison: mean difference and 95 % interval. ± is the standard deviation over seeds or draws,"
            " of a sample." + (_EARLIER if any(one.earlier.rulings for one in everything) else "")
        )
        yield ""
    if study.chosen:
        yield "Chosen for all of them:"
        yield ""
        yield from (f"- {line.strip()}" for line in study.chosen)
        yield ""
    run = [(one, record) for one in everything for record in one.records]
    if run:
        yield "| | what it shows | data | scale | verdict | computing |"
        yield "|---|---|---|---|---|---|"
        for one, record in run:
            verdict = one.verdict(record)
            yield (
                f"| [{one.name}](#{one.anchor}) | {_cell_text(one.exhibit.title)} | {record.dataset} |"
                f" {record.scale} | {_cell_text(verdict)} | {time_of(record)} |"
            )
        yield ""
        if first.drawn is None:
            yield "Computing is CPU time; without a commit, or before commit dcdf77ec, it is elapsed time."
            yield ""
    idle = [one.exhibit.item for one in everything if not one.records]
    if idle:
        kinds = sorted({item.kind for item in idle}, reverse=True)
        idle.sort(key=lambda item: (not item.number.isdigit(), item.number.zfill(3)))
        numbers = [f"{kind}s {', '.join(i.number for i in idle if i.kind == kind)}" for kind in kinds]
        yield f"**Not run yet:** {'; '.join(numbers)}."
        yield ""
    present = {record.dataset for _, record in run}
    absent = [
        f"{one.name} ({one.unavailable})"
        for one in study.datasets
        if one.unavailable and one.name not in present
    ]
    if absent:
        yield f"**Not run on** {', '.join(absent)}."
        yield ""


def _how_to_read(*, ours: bool) -> str:
    about = (
        "Numbers are accuracies on the test set, averaged over the last rounds; with several seeds, their"
        " mean ± standard deviation. A verdict is about our runs at the scale that it names"
    )
    beside_a_paper = (
        ", never about the paper's own. Desk scale differs from the paper's in what its note says: a"
        " difference from the paper's number is then one of size as well as of method. An epsilon is that of"
        " the mechanism as accounted; in a simulation, batches and noise follow from the seed and hide"
        " nothing."
    )
    return about + ("." if ours else beside_a_paper)


def _family(group: Sequence[Shown], folder: str) -> Iterator[str]:
    first = group[0].exhibit
    sheet, alone = first.sheet, first.title == first.item.title
    settings = "Settings" if first.study.ours else "The paper's settings"
    yield f"## {group[0].name if alone else sheet.title}"
    yield ""
    yield f"{f'**{sheet.title}.** ' if alone else ''}{sheet.claim.strip()}"
    yield ""
    lines = [
        *([f"- *{settings}:* {sheet.settings.strip()}"] if sheet.settings else []),
        *(f"- *Chosen:* {line.strip()}" for line in sheet.chosen),
        *(f"- *Not in the paper:* {line.strip()}" for line in sheet.ours),
    ]
    yield from (*lines, "") if lines else ()
    if sheet.findings:
        yield sheet.findings.strip()
        yield ""
    for one in group:
        yield from _item(one, folder, alone=alone)


def _item(one: Shown, folder: str, *, alone: bool) -> Iterator[str]:
    item, title = one.exhibit.item, "" if alone else one.exhibit.item.title
    heading = f"{title}{' (not in the paper)' if item.ours else ''}".strip().rstrip(".")
    if not alone:
        yield f"### {one.name}"
        yield ""
    if heading:
        yield f"{heading}."
        yield ""
    for record in one.records:
        warning = one.check.note(record.stem, record.fingerprint)
        rulings, before = one.rulings[record.stem], one.earlier.of(record.stem)
        yield from record_lines(record, folder, warning, rulings, before)
    missing = one.missing()
    waiting = [dataset.name for dataset in missing if not dataset.unavailable]
    if waiting:
        names = ", ".join(waiting)
        yield f"Not run yet on {names}." if names else "Not run yet."
        yield ""
    yield from _published_lines(one, missing)
    if item.quoted:
        yield (
            "Beside them the paper quotes "
            + "; ".join(f"{q.what}: {q.accuracy:.2f}" for q in item.quoted)
            + "."
        )
        yield ""


def _published_lines(one: Shown, datasets: Sequence[experiment.StudyDataset]) -> Iterator[str]:
    item, sheet = one.exhibit.item, one.exhibit.sheet
    tables = [
        (dataset, item.published[dataset.name]) for dataset in datasets if dataset.name in item.published
    ]
    if not tables:
        return
    *others, across = sheet.axes
    columns = [level.label for level in across.choices]
    rows = [experiment.JOINT.join(cell.place[:-1]) for cell in sheet.cells()[:: len(columns)]]
    yield "The paper's numbers there:"
    yield ""
    if len(sheet.axes) == 1:
        yield from _table(
            [across.name, *(dataset.title for dataset, _ in tables)],
            [[name, *(_number(numbers, 0, at) for _, numbers in tables)] for at, name in enumerate(columns)],
        )
    else:
        yield from _table(
            [
                experiment.JOINT.join(axis.name for axis in others),
                *(f"{dataset.title}, {name}" for dataset, _ in tables for name in columns),
            ],
            [
                [name, *(_number(numbers, row, at) for _, numbers in tables for at in range(len(columns)))]
                for row, name in enumerate(rows)
            ],
        )
    yield ""


def _number(numbers: experiment.Numbers, row: int, column: int) -> str:
    number = numbers[row][column]
    return "" if number is None else f"{number:.2f}"


def record_lines(
    record: Record,
    folder: str,
    warning: str = "",
    rulings: Rulings = NOT_JUDGED,
    before: Mapping[str, str] = _NO_RULINGS,
) -> Iterator[str]:
    """Yield the section on one run.

    ``warning`` is a fault of the whole record, and ``before`` has earlier rulings by claim.
    """
    data = f", {record.dataset}" if record.dataset else ""
    name = f"{record.kind.capitalize()} {record.number}{data}, {record.scale} scale"
    yield f"![{name}]({folder}/{record.stem}.png)"
    yield ""
    lines: list[str] = []
    if record.note or not record.drawn:
        where = f"{record.dataset}, {record.scale} scale" if data else f"{record.scale.capitalize()} scale"
        lines.append(f"**{where}:** {record.note or 'as the paper has it'}.")
    if record.leakage_reported:
        lines.append(
            "**Leakage is only reported:** some of these runs release sums that cross the published limits."
        )
    if warning:
        lines.append(warning)
    yield from (*lines, "") if lines else ()
    yield from _results(record)
    yield ""
    agreed = f"; {record.agreement()}" if record.within[1] else ""
    yield f"- {record.measure}; {record.spreads}{agreed}"
    for verdict in rulings.verdicts:
        whose = ", our claim" if verdict.ours else ""
        former = before.get(verdict.says, verdict.ruling)
        changed = "" if former == verdict.ruling else f"; earlier verdict: {former}"
        evidence = f"({verdict.numbers}; {verdict.evidence})"
        yield f"- **{verdict.ruling}**{whose}: {verdict.says} {evidence}{changed}"
    yield from (f"- not judged: {line}" for line in rulings.unjudged)
    yield from (f"- {line}" for line in (*record.refusals, *record.ends, *record.losses, *privacy_of(record)))
    yield ""
    if record.titles:
        yield (
            f"Data: {', '.join(record.titles)}. {report.seconds(record.seconds)} of"
            f" computing, {record.jobs} at a"
            f" time, on {', '.join(record.devices)}."
        )
        yield ""


def privacy_of(record: Record) -> Iterator[str]:
    """Yield the privacy of uploads: as requested, and as accounted."""
    by_asked: dict[str, set[str]] = {}
    for cell in record.cells:
        for seed in cell.seeds:
            by_asked.setdefault(cell.asked, set()).add(_guarantee(seed))
    for asked, found in by_asked.items():
        if not asked:
            continue
        if asked == "none":
            yield "privacy, none asked for: nothing is hidden"
        else:
            yield f"privacy, {asked}: {'; '.join(sorted(found))}"


def _guarantee(seed: SeedRecord) -> str:
    if not seed.guarantee or seed.epsilon is None:
        return seed.guarantee or "not accounted"
    return f"none, since the noise follows from the seed; were it secret: {seed.guarantee}"


def _results(record: Record) -> Iterator[str]:
    table = grid(record)
    if len(record.axes) > 1:
        head = [f"{table.row_name} \\ {table.column_name}", *table.columns]
        yield from _table(
            head, [[name, *(_entry(record, cell) for cell in cells)] for name, cells in table.rows]
        )
    elif record.within[1]:
        rows = []
        for cell in record.cells:
            paper = "" if cell.published is None else f"{cell.published:.2f}{_spread(cell)}"
            apart = "" if cell.difference is None else f"{cell.difference:+.3f}"
            rows.append([cell.label, record.value(cell), paper, apart])
        yield from _table([table.column_name, "ours", "paper", "difference"], rows)
    else:
        mean = f"accuracy, mean of the last {record.last} of {record.rounds} rounds"
        rows = [
            [
                cell.label,
                "refused" if cell.final is None else f"{cell.final:.3f}",
                _by_seed(cell, record.last),
            ]
            for cell in record.cells
        ]
        head = [table.column_name, mean if record.measure.startswith("accuracy") else "mean", "by seed"]
        yield from _table(head, rows)


def _by_seed(cell: CellRecord, last: int) -> str:
    lines = []
    for seed in cell.seeds:
        ended = f" (round {len(seed.accuracies)}: {seed.ended})" if seed.ended else ""
        lines.append(f"{claims.measure_curve(seed.accuracies, 'final', last, cell.rounds):.3f}{ended}")
    return ", ".join(lines)


def _entry(record: Record, cell: CellRecord | None) -> str:
    if cell is None:
        return ""
    value = record.value(cell)
    if cell.marked:
        first, *rest = value.split("\n")
        value = "\n".join((f"**{first}**", *rest))
    if cell.published is None:
        return value
    apart = "" if cell.difference is None else f", {cell.difference:+.3f}"
    return f"{value} (paper {cell.published:.2f}{_spread(cell)}{apart})"


def _spread(cell: CellRecord) -> str:
    return "" if cell.spread is None else f" ± {cell.spread:g}"


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    yield f"| {' | '.join(map(_cell_text, head))} |"
    yield "|---" * len(head) + "|"
    for row in rows:
        yield f"| {' | '.join(map(_cell_text, row))} |"


def _cell_text(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", "<br>")
