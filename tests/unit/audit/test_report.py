"""The report of an audit: verdict, JSON, Markdown and the page."""

from __future__ import annotations

import json
import re
from base64 import b64decode
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest

from securefl.lab.audit.exhibits import AuditHeatMap, AuditPlot, Curve, Picture, Pictures, Table
from securefl.lab.audit.finding import Chapter, Evidence, Finding, Severity
from securefl.lab.audit.load import load
from securefl.lab.audit.markdown import markdown
from securefl.lab.audit.page import STYLE, page
from securefl.lab.audit.plots import plot_html
from securefl.lab.audit.report import AuditReport
from securefl.lab.audit.run import audit
from tests.simulation.world import scenario

EVIL = "<script>alert(1)</script>|`x`\x1b[2J"


def evil_report(plain: Path, severity: Severity = Severity.BREACH) -> AuditReport:
    finding = Finding(
        severity,
        "views",
        EVIL,
        evidence=tuple(Evidence("p00", n, EVIL) for n in range(50)),
        remedy=EVIL,
        error_rate=1e-3,
    )
    curve = Curve(label=EVIL, x=(1.0, 10.0, 100.0), y=(0.0, float("nan"), 2.0))
    exhibits = (
        AuditPlot(title=EVIL, x_name="x", y_name="y", curves=(curve,), x_log=True, diagonal=True),
        AuditHeatMap(
            title="h", row_name="r", column_name="c", rows=(EVIL,), columns=("1", "2"), values=((None, 0.5),)
        ),
        Table(title="t", columns=("a", "b"), rows=((EVIL, 1.23456), (None, 2))),
        Pictures(title="p", rows=((Picture(caption=EVIL, pixels=((0, 255), (128, 3))),),)),
    )
    chapter = Chapter(audit="views", title=EVIL, method=EVIL, findings=(finding,), exhibits=exhibits)
    return AuditReport(load(plain), lab=False, chapters=(chapter,))


class _Tags(HTMLParser):
    """Counts tags, and fails where they are not closed in order."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.add(tag)
        if tag not in {"meta", "img"}:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.add(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_the_page_needs_nothing_from_outside_and_runs_nothing(plain: Path) -> None:
    text = page(evil_report(plain))
    tags = _Tags()
    tags.feed(text)
    assert tags.open == []
    assert {"img", "table", "details", "nav"} <= tags.seen
    assert not {"script", "link", "iframe"} & tags.seen
    assert not re.findall(r"(?:src|href)=.https?:", text)
    assert "\x1b" not in text


def test_browsers_read_the_whole_style_sheet() -> None:
    """A string that is not closed on its line takes its rule along, and the one after it."""
    assert all(line.count("'") % 2 == 0 for line in STYLE.splitlines())
    assert not re.search(r"\{[^{}]*\Z|^[^{}]*\}", STYLE)


def test_plots_are_images_and_names_in_them_no_formulas() -> None:
    curve = Curve(label=r"$\frac{1$ <b>", x=(0.0, 1.0, 2.0, 3.0), y=(0.1, 0.05, float("nan"), 0.4))
    drawn = AuditPlot(
        title="t", x_name="$x$", y_name="y", curves=(curve,), x_log=True, y_log=True, diagonal=True
    )
    image = re.fullmatch(r'<img alt="([^"]*)" src="data:image/svg\+xml;base64,(.*)"/>', plot_html(drawn))
    assert image is not None
    alt, code = image.groups()
    assert alt == r"t: y against $x$. $\frac{1$ &lt;b&gt;"
    picture = b64decode(code).decode()
    assert r"$\frac{1$ &lt;b&gt;" in picture
    assert not re.findall(r"(?:src|href)=.https?:", picture)
    assert plot_html(drawn) == plot_html(drawn)


def test_without_matplotlib_the_page_says_where_the_numbers_are(
    plain: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _name: None)
    text = page(evil_report(plain))
    assert text.count("its numbers are in audit.json") == 2
    assert "svg+xml" not in text


def test_a_breach_that_the_scenario_states_is_no_green_verdict(leaky: Path, plain: Path) -> None:
    assert "<p class='verdict warning'>" in page(audit(load(leaky)))
    assert "<p class='verdict breach'>" in page(evil_report(plain))
    assert "<p class='verdict holds'>" in page(evil_report(plain, Severity.HOLDS))


def test_markdown_has_no_markup_of_others(plain: Path) -> None:
    text = markdown(evil_report(plain))
    assert "<script" not in re.sub(r"`[^`]*`", "", text)
    assert "\x1b" not in text
    assert "and 38 more" in text
    assert "| -" in text


def test_json_is_what_was_found(plain: Path) -> None:
    report = evil_report(plain)
    found = json.loads(json.dumps(report.to_json(), allow_nan=False))
    (one,) = found["audits"]
    assert one["worst"] == "breach"
    assert one["findings"][0]["evidence"][7] == {"source": "p00", "entry": 7, "text": EVIL}
    assert one["exhibits"][0]["curves"][0]["y"] == [0.0, None, 2.0]
    assert set(found["heads"]) == {"server", *load(plain).parties}


def test_a_breach_fails_unless_the_scenario_states_it(plain: Path) -> None:
    report = evil_report(plain)
    assert report.exit_code == 1
    assert "1 of 1 findings" in report.verdict
    stated = replace(
        report, recorded=replace(report.recorded, scenario=scenario(6, leakage__allow='["views"]'))
    )
    assert stated.exit_code == 0
    assert "it allows the breaches found (views)" in stated.verdict
    assert evil_report(plain, Severity.WARNING).exit_code == 0


def test_report_mode_states_exposure_and_nothing_else(leaky: Path) -> None:
    report = audit(load(leaky))
    assert any(f.severity is Severity.BREACH and f.audit == "exposure" for f in report.findings)
    assert report.exit_code == 0
    veto = replace(report, recorded=replace(report.recorded, scenario=scenario(9)))
    assert veto.exit_code == 1
