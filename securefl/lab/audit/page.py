"""Audit reports as a self-contained HTML page without scripts."""

from collections.abc import Iterator
from html import escape
from typing import Final

from securefl.lab.audit import exhibits, plots
from securefl.lab.audit.finding import Chapter, Finding, Severity, worst
from securefl.lab.audit.markdown import cell_text
from securefl.lab.audit.report import AuditReport
from securefl.runtime.report import printable

STYLE: Final = """
:root{--bg:#f6f8fa;--card:#fff;--ink:#1f2328;--soft:#57606a;--line:#d8dee4;--holds:#1a7f43;--note:#1f5fbf;
  --warning:#9a6700;--breach:#b42318;}
@media
  (prefers-color-scheme:dark){:root{--bg:#0d1117;--card:#161b22;--ink:#e6edf3;--soft:#9198a1;
  --line:#30363d;
  --holds:#57ab5a;--note:#6cb6ff;--warning:#d4a72c;--breach:#f47067;}}
*{box-sizing:border-box}
body{margin:0;background:var(--bg);color:var(--ink);
  font:15px/1.5 system-ui,-apple-system,'Segoe UI',Helvetica,Arial,sans-serif}
main{max-width:860px;margin:0 auto;padding:28px 18px 60px}
h1{margin:.1em 0 .4em;font-size:30px;line-height:1.15}
h2{margin:0 0 .3em;font-size:20px}
.kicker{margin:0;color:var(--soft);font-size:12px;letter-spacing:.09em;text-transform:uppercase}
.verdict{display:inline-block;margin:0 0 18px;padding:7px 13px;border-radius:8px;font-weight:600;color:#fff}
.verdict.holds{background:var(--holds)}
.verdict.warning{background:var(--warning)}
.verdict.breach{background:var(--breach)}
@media (prefers-color-scheme:dark){.verdict{color:#0d1117}}
dl{display:grid;grid-template-columns:repeat(auto-fill,minmax(260px,1fr));gap:8px 22px;margin:0 0 20px}
dt{color:var(--soft);font-size:12px}
dd{margin:0}
nav{display:flex;flex-wrap:wrap;gap:8px}
nav a{display:block;padding:7px 12px;min-width:104px;border:1px solid var(--line);border-top:4px solid
  var(--soft);
  border-radius:8px;background:var(--card);color:var(--soft);text-decoration:none;font-size:12px}
nav b{display:block;color:var(--ink);font-size:14px}
nav a.holds{border-top-color:var(--holds)}
nav a.note{border-top-color:var(--note)}
nav a.warning{border-top-color:var(--warning)}
nav a.breach{border-top-color:var(--breach)}
section{margin-top:26px;padding:20px 22px;border:1px solid var(--line);border-radius:12px;
  background:var(--card)}
.method{margin:0 0 14px;color:var(--soft)}
article{margin:10px 0;padding:10px 14px;border-left:4px solid var(--soft);background:var(--bg);
  border-radius:0 8px 8px 0}
article p{margin:.25em 0}
article.holds{border-color:var(--holds)}
article.note{border-color:var(--note)}
article.warning{border-color:var(--warning)}
article.breach{border-color:var(--breach)}
.badge{font-size:11px;font-weight:700;letter-spacing:.06em;text-transform:uppercase;color:var(--soft)}
.holds .badge{color:var(--holds)}
.note .badge{color:var(--note)}
.warning .badge{color:var(--warning)}
.breach .badge{color:var(--breach)}
.remedy,.small,.note-text{color:var(--soft);font-size:13px}
.remedy b{color:var(--ink)}
details{margin-top:6px;font-size:13px}
summary{cursor:pointer;color:var(--soft)}
ul{margin:.4em 0;padding-left:20px}
code{font:12px/1.5 ui-monospace,Menlo,Consolas,monospace; overflow-wrap:anywhere}
figure.exhibit{margin:22px 0 0}
figure.exhibit>figcaption{font-weight:600;margin-bottom:8px}
.scroll{overflow-x:auto}
table{border-collapse:collapse;font-size:13px;font-variant-numeric:tabular-nums}
th,td{padding:4px 11px;border-bottom:1px solid var(--line);text-align:right;white-space:nowrap}
th{color:var(--soft);font-weight:600;white-space:normal;vertical-align:bottom}
.t{text-align:left}
td.long{min-width:17em;white-space:normal}
.scroll>img{display:block;width:100%;min-width:600px;height:auto;background:#fff;border-radius:8px}
@media (max-width:600px){main{padding:18px 10px 40px}section{padding:14px 12px}}
.pictures{display:flex;gap:10px;margin-bottom:10px}
.picture{margin:0;font-size:11px;color:var(--soft);text-align:center}
.picture img{display:block;width:84px;image-rendering:pixelated;border:1px solid var(--line)}
"""


_EVIDENCE = 40
_LONG = 34


def page(report: AuditReport) -> str:
    """Return the page."""
    name = escape(report.recorded.scenario.name)
    return "".join(
        (
            '<!doctype html><html lang="en"><head><meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            # The page loads nothing, whatever a party wrote into a transcript.
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
    badge = label + (", allowed by the scenario" if finding.severity is Severity.BREACH and stated else "")
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


def _exhibit(exhibit: exhibits.Exhibit) -> Iterator[str]:
    match exhibit:
        case exhibits.AuditPlot():
            yield f"<div class='scroll' tabindex=0>{plots.plot_html(exhibit)}</div>"
        case exhibits.AuditHeatMap():
            yield f"<div class='scroll' tabindex=0>{plots.heat_map_html(exhibit)}</div>"
        case exhibits.Table():
            yield from _table(exhibit)
        case exhibits.Pictures():
            yield "<div class='scroll' tabindex=0>"
            for row in exhibit.rows:
                abouts = (f"{picture.caption}, {k} of {len(row)}" for k, picture in enumerate(row, 1))
                yield f"<div class='pictures'>{''.join(map(plots.picture_html, row, abouts))}</div>"
            yield "</div>"


def _table(table: exhibits.Table) -> Iterator[str]:
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
    return escape(printable(text, 2_000))
