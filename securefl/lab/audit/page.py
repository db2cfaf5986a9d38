"""An audit as one HTML page that needs nothing else: no script, no font, no picture from outside."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape

from securefl.lab.audit.chapter import Chapter
from securefl.lab.audit.exhibits import AuditHeatMap, AuditPlot, Exhibit, Pictures, Table
from securefl.lab.audit.finding import Finding, Severity, worst
from securefl.lab.audit.markdown import cell_text
from securefl.lab.audit.plots import heat_map_html, picture_html, plot_html
from securefl.lab.audit.report import AuditReport
from securefl.lab.audit.style import STYLE
from securefl.runtime.report import printable

_EVIDENCE = 40
_LONG = 34
"""Characters from which on a cell's text is broken into lines."""


def page(report: AuditReport) -> str:
    """The whole page."""
    name = escape(report.recorded.scenario.name)
    return "".join(
        (
            '<!doctype html><html lang="en"><head><meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            # Nothing in the page runs or loads, whatever a party managed to get into a transcript.
            '<meta http-equiv="Content-Security-Policy" content="default-src \'none\';'
            " img-src data:; style-src 'unsafe-inline'\">",
            f"<title>Audit of {name}</title><style>{STYLE}</style></head><body><main>",
            *_head(report),
            *(part for chapter in report.chapters for part in _chapter(report, chapter)),
            "</main></body></html>\n",
        )
    )


def _head(report: AuditReport) -> Iterator[str]:
    breaches = any(finding.severity is Severity.BREACH for finding in report.findings)
    kind = "breach" if report.exceeding else "warning" if breaches else "holds"
    yield f"<header><p class='kicker'>securefl audit</p><h1>{_text(report.recorded.scenario.name)}</h1>"
    yield f"<p class='verdict {kind}'>{_text(report.verdict)}</p>"
    yield "<dl>"
    for label, text in report.facts:
        yield f"<div><dt>{_text(label)}</dt><dd>{_text(text)}</dd></div>"
    yield "</dl><nav>"
    for chapter in report.chapters:
        severity = worst(chapter.findings).label
        first = chapter.title.partition(":")[0]
        yield f"<a href='#{escape(chapter.audit)}' class='{severity}'><b>{_text(first)}</b>{severity}</a>"
    yield "</nav></header>"


def _chapter(report: AuditReport, chapter: Chapter) -> Iterator[str]:
    yield f"<section id='{escape(chapter.audit)}'><h2>{_text(chapter.title)}</h2>"
    yield f"<p class='method'>{_text(chapter.method)}</p>"
    exceeding = report.exceeding
    for finding in sorted(chapter.findings, key=lambda one: -one.severity):
        yield from _finding(finding, stated=finding not in exceeding)
    for exhibit in chapter.exhibits:
        yield f"<figure class='exhibit'><figcaption>{_text(exhibit.title)}</figcaption>"
        yield from _exhibit(exhibit)
        if exhibit.note:
            yield f"<p class='note-text'>{_text(exhibit.note)}</p>"
        yield "</figure>"
    yield "</section>"


def _finding(finding: Finding, *, stated: bool) -> Iterator[str]:
    label = finding.severity.label
    badge = label + (", as the scenario states" if finding.severity is Severity.BREACH and stated else "")
    yield f"<article class='{label}'><span class='badge'>{badge}</span><p>{_text(finding.claim)}</p>"
    if finding.error_rate is not None:
        yield f"<p class='small'>False alarms in honest runs: at most {finding.error_rate:.2g}.</p>"
    if finding.remedy:
        yield f"<p class='remedy'><b>Remedy</b> {_text(finding.remedy)}</p>"
    if finding.evidence:
        yield f"<details><summary>Evidence ({len(finding.evidence)})</summary><ul>"
        for evidence in finding.evidence[:_EVIDENCE]:
            yield f"<li><code>{_text(str(evidence))}</code></li>"
        if len(finding.evidence) > _EVIDENCE:
            yield f"<li>and {len(finding.evidence) - _EVIDENCE} more, in audit.json</li>"
        yield "</ul></details>"
    yield "</article>"


def _exhibit(exhibit: Exhibit) -> Iterator[str]:
    match exhibit:
        case AuditPlot():
            yield f"<div class='scroll' tabindex=0>{plot_html(exhibit)}</div>"
        case AuditHeatMap():
            yield f"<div class='scroll' tabindex=0>{heat_map_html(exhibit)}</div>"
        case Table():
            yield from _table(exhibit)
        case Pictures():
            yield "<div class='scroll' tabindex=0>"
            for row in exhibit.rows:
                abouts = (f"{picture.caption}, {k} of {len(row)}" for k, picture in enumerate(row, 1))
                yield f"<div class='pictures'>{''.join(map(picture_html, row, abouts))}</div>"
            yield "</div>"


def _table(table: Table) -> Iterator[str]:
    yield "<div class='scroll' tabindex=0><table><thead><tr>"
    first = table.rows[0] if table.rows else ()
    for number, column in enumerate(table.columns):
        words = number < len(first) and isinstance(first[number], str)
        yield f"<th{' class=t' if words else ''}>{_text(column)}</th>"
    yield "</tr></thead><tbody>"
    for row in table.rows:
        yield "<tr>"
        for cell in row:
            text = cell_text(cell)
            style = (
                "" if not isinstance(cell, str) else " class=t" if len(text) < _LONG else " class='t long'"
            )
            yield f"<td{style}>{_text(text)}</td>"
        yield "</tr>"
    yield "</tbody></table></div>"


def _text(text: str) -> str:
    """Names and reasons come from outside: nothing in them is markup."""
    return escape(printable(text, 2_000))
