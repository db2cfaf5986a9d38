"""Audit reports in Markdown; plots become tables."""

import math
from collections.abc import Iterator, Sequence

from securefl.lab.audit import exhibits
from securefl.lab.audit.finding import Finding, worst
from securefl.lab.audit.report import AuditReport
from securefl.runtime.report import printable

_EVIDENCE = 12
_ROWS = 60


def markdown(report: AuditReport) -> str:
    """Return the report."""
    return "\n".join(_lines(report)) + "\n"


def cell_text(cell: exhibits.Cell) -> str:
    """Return a cell's text: four digits for floats, grouped thousands, a dash for None."""
    if cell is None or (isinstance(cell, float) and math.isnan(cell)):
        return "-"
    return f"{cell:.4g}" if isinstance(cell, float) else f"{cell:,}" if isinstance(cell, int) else cell


def _lines(report: AuditReport) -> Iterator[str]:
    yield f"# Audit of {report.recorded.scenario.name}"
    yield ""
    yield f"**{_inline(report.verdict)}**"
    yield ""
    yield from _table(("", ""), [(label, text) for label, text in report.facts])
    yield ""
    overview: list[tuple[exhibits.Cell, ...]] = [
        (chapter.audit, worst(chapter.findings).label, len(chapter.findings)) for chapter in report.chapters
    ]
    yield from _table(("audit", "worst", "findings"), overview)
    for chapter in report.chapters:
        yield ""
        yield f"## {_inline(chapter.title)}"
        yield ""
        yield _inline(chapter.method)
        yield ""
        for finding in chapter.findings:
            yield from _finding(finding)
        for exhibit in chapter.exhibits:
            yield ""
            yield from _exhibit(exhibit)


def _finding(finding: Finding) -> Iterator[str]:
    rate = "" if finding.error_rate is None else f" (false alarms: at most {finding.error_rate:.2g})"
    yield f"- **{finding.severity.label}**: {_inline(finding.claim)}{rate}"
    for evidence in finding.evidence[:_EVIDENCE]:
        yield f"  - `{printable(str(evidence)).replace('`', '')}`"
    if len(finding.evidence) > _EVIDENCE:
        yield f"  - and {len(finding.evidence) - _EVIDENCE} more"
    if finding.remedy:
        yield f"  - Remedy: {_inline(finding.remedy)}"


def _exhibit(exhibit: exhibits.Exhibit) -> Iterator[str]:
    yield f"**{_inline(exhibit.title)}**"
    yield ""
    match exhibit:
        case exhibits.Table():
            yield from _table(exhibit.columns, exhibit.rows)
        case exhibits.AuditPlot():
            yield from _points(exhibit)
        case exhibits.AuditHeatMap():
            columns = (exhibit.row_name, *exhibit.columns)
            rows = [(name, *row) for name, row in zip(exhibit.rows, exhibit.values, strict=True)]
            yield from _table(columns, rows)
        case exhibits.Pictures():
            yield "(pictures: see the HTML page)"
    if exhibit.note:
        yield ""
        yield _inline(exhibit.note)


def _points(plot: exhibits.AuditPlot) -> Iterator[str]:
    """Yield a row for each x, if these are few."""
    places = sorted({x for curve in plot.curves for x in curve.x})
    if len(places) > _ROWS:
        yield f"({len(places)} points: see the HTML page)"
        return
    by_curve = [_by_x(curve) for curve in plot.curves]
    rows: list[tuple[exhibits.Cell, ...]] = [(x, *(known.get(x) for known in by_curve)) for x in places]
    yield from _table((plot.x_name, *(curve.label for curve in plot.curves)), rows)


def _by_x(curve: exhibits.Curve) -> dict[float, float]:
    return dict(zip(curve.x, curve.y, strict=True))


def _table(columns: Sequence[str], rows: Sequence[Sequence[exhibits.Cell]]) -> Iterator[str]:
    yield "| " + " | ".join(map(_inline, columns)) + " |"
    yield "|" + "---|" * len(columns)
    for row in rows[:_ROWS]:
        yield "| " + " | ".join(_inline(cell_text(cell)) for cell in row) + " |"
    if len(rows) > _ROWS:
        yield ""
        yield f"({len(rows) - _ROWS} more rows: see audit.json)"


def _inline(text: str) -> str:
    return printable(text, 2_000).replace("\\", "\\\\").replace("|", "\\|").replace("<", "&lt;")
