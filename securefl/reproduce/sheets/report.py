"""What a page says of one run: its table, verdicts, privacy and costs."""

from __future__ import annotations

from collections.abc import Iterator

from securefl.report.text import seconds
from securefl.reproduce.record import SeedRecord
from securefl.reproduce.sheets.record import CellRecord, SheetRecord, grid, value


def record_lines(record: SheetRecord, folder: str, warning: str = "") -> Iterator[str]:
    """The section on one run, in Markdown.

    Args:
        record: of it.
        folder: where the plots are, from where the page is.
        warning: what is wrong with it as a whole.
    """
    name = f"{record.kind.capitalize()} {record.number}, {record.dataset}, {record.scale} scale"
    yield f"![{name}]({folder}/{record.stem}.png)"
    yield ""
    yield f"**{record.dataset}, {record.scale} scale:** {record.note or 'as the paper has it'}."
    if record.leakage_reported:
        yield "Leakage is only reported: what the server sees crosses the published limits."
    if warning:
        yield warning
    yield ""
    yield from _table(record)
    yield ""
    yield f"- {record.measure}; {record.agreement()}"
    for verdict in record.verdicts:
        whose = ", our claim" if verdict.ours else ""
        numbers = f"{verdict.numbers}; {verdict.agreement}"
        yield f"- **{verdict.ruling}**{whose}: {verdict.says} ({numbers})"
    yield from (f"- not judged: {line}" for line in record.unjudged)
    yield from (f"- {line}" for line in record.refusals)
    yield from (f"- {line}" for line in _ended(record))
    yield from (f"- {line}" for line in record.losses)
    yield from (f"- {line}" for line in privacy_of(record))
    yield ""
    devices = sorted({seed.device for cell in record.cells for seed in cell.seeds})
    yield (
        f"Data: {', '.join(record.titles)}. {seconds(record.seconds)} of computing, {record.jobs} at a time,"
        f" on {', '.join(devices)}."
    )
    yield ""


def privacy_of(record: SheetRecord) -> Iterator[str]:
    """What the parties' uploads give away, by what was asked for and what the accountant found."""
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


def _table(record: SheetRecord) -> Iterator[str]:
    table = grid(record)
    if len(record.axes) == 1:
        yield f"| {cell_text(table.column_name)} | ours | paper | difference |"
        yield "|---|---|---|---|"
        for cell in record.cells:
            paper = "" if cell.published is None else f"{cell.published:.2f}{_spread(cell)}"
            apart = "" if cell.difference is None else f"{cell.difference:+.3f}"
            yield f"| {cell_text(cell.label)} | {cell_text(value(cell))} | {paper} | {apart} |"
    else:
        yield (
            f"| {cell_text(table.row_name)} \\ {cell_text(table.column_name)} | "
            + " | ".join(map(cell_text, table.columns))
            + " |"
        )
        yield "|---" * (1 + len(table.columns)) + "|"
        for name, cells in table.rows:
            yield f"| {cell_text(name)} | " + " | ".join(cell_text(_entry(cell)) for cell in cells) + " |"


def _entry(cell: CellRecord) -> str:
    if cell.published is None:
        return value(cell)
    apart = "" if cell.difference is None else f", {cell.difference:+.3f}"
    return f"{value(cell)} (paper {cell.published:.2f}{_spread(cell)}{apart})"


def _spread(cell: CellRecord) -> str:
    return "" if cell.spread is None else f" ± {cell.spread:g}"


def _ended(record: SheetRecord) -> Iterator[str]:
    for cell in record.cells:
        for seed in cell.seeds:
            if seed.ended:
                yield f"{cell.label}, seed {seed.seed}: ended in round {len(seed.accuracies)}, {seed.ended}"


def cell_text(text: str) -> str:
    """Text that may stand in a table."""
    return text.replace("|", "\\|").replace("\n", " ")
