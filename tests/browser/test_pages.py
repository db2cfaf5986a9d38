"""Pages as a person meets them: on a phone and a desktop, light and dark, by keyboard, on paper."""

from __future__ import annotations

import re

import pytest

from tests.browser.conftest import PAGES, RUNS, SCHEMES, WIDTHS, OpenPage, axe, script

pytestmark = pytest.mark.browser
PAPER = 718
"""Pixels across an A4 page inside its margins."""
ACCEPTED = {("running", "meta-refresh")}
"""A page of `--live` reloads because its reader asked for that; it states how to get one that does not."""
MOST_TABS = 1500
WIDER = """[...document.querySelectorAll('.scroll')]
    .filter((one) => one.scrollWidth > one.clientWidth + 1)
    .map((one) => one.textContent.trim().slice(0, 40))"""
"""Regions whose content is wider than they are."""


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", PAGES)
def test_axe_finds_nothing_serious(open_page: OpenPage, name: str, width: int, scheme: str) -> None:
    page = open_page(name, width, scheme, unfold=True)
    page.evaluate(axe())
    found = page.evaluate("axe.run(document, {resultTypes: ['violations']})")
    assert len(found["passes"]) > 10
    serious = [
        (one["id"], [(node["target"], node["failureSummary"]) for node in one["nodes"][:3]])
        for one in found["violations"]
        if one["impact"] in ("serious", "critical") and (name, one["id"]) not in ACCEPTED
    ]
    assert serious == []


def test_a_page_that_reloads_says_so(open_page: OpenPage) -> None:
    assert "without --live it does not" in open_page("running", 390).inner_text("header")
    assert "--live" not in open_page("finished", 390).inner_text("header")


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        ("document.querySelector('h1').style.width = '1300px'", "wide in a window"),
        ("document.querySelector('.tile').style.cssText = 'width: 30px; overflow: hidden'", "leaves its"),
        ("document.querySelector('.subtitle').style.whiteSpace = 'nowrap'", "leaves its"),
        ("document.querySelector('#parties').style.marginTop = '-60px'", "overlap"),
        ("document.querySelectorAll('svg .end').forEach((one) => one.setAttribute('y', 20))", "overlap"),
        ("document.querySelector('svg .mid').setAttribute('x', -9)", "leaves its"),
    ],
)
def test_faults_of_a_layout_are_found(open_page: OpenPage, change: str, fault: str) -> None:
    page = open_page("finished", 390)
    page.evaluate(change)
    assert any(fault in found for found in page.evaluate(script("layout.js")))


def test_a_lost_focus_is_found(open_page: OpenPage) -> None:
    page = open_page("finished", 1200)
    page.evaluate("document.body.style.setProperty('--note', 'transparent')")
    page.evaluate("document.querySelectorAll('nav a').forEach((one) => one.style.outline = 'none')")
    page.keyboard.press("Tab")
    page.keyboard.press("Tab")
    assert page.evaluate(script("focus.js"))["fault"] == "has no outline"
    page.keyboard.press("Tab")
    assert "<a> Scenario" in page.evaluate(script("unvisited.js"))


@pytest.mark.parametrize("unfold", [False, True])
@pytest.mark.parametrize("width", [320, *WIDTHS])
@pytest.mark.parametrize("name", PAGES)
def test_no_text_is_clipped_or_covered(open_page: OpenPage, name: str, width: int, unfold: bool) -> None:
    assert open_page(name, width, unfold=unfold).evaluate(script("layout.js")) == []


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", PAGES)
def test_the_keyboard_reaches_all_and_shows_where_it_is(open_page: OpenPage, name: str, width: int) -> None:
    page, focus, faults = open_page(name, width), script("focus.js"), []
    visits = 0
    for _ in range(MOST_TABS):
        page.keyboard.press("Tab")
        at = page.evaluate(focus)
        if at is None or at["seen"]:
            break
        visits += 1
        if at["fault"]:
            faults.append(f"{at['name']} {at['fault']}")
    assert faults == []
    assert page.evaluate(script("unvisited.js")) == []
    assert visits > 5


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("name", PAGES)
def test_paper_has_all_of_it_dark_on_white(open_page: OpenPage, name: str, scheme: str) -> None:
    page = open_page(name, PAPER, scheme)
    text = page.evaluate("document.querySelector('main').innerText")
    page.emulate_media(media="print")
    assert page.evaluate(script("layout.js")) == []
    if name in RUNS:
        ink, paper = page.evaluate(
            "[getComputedStyle(document.body).color, getComputedStyle(document.body).backgroundColor]"
        )
        assert max(map(int, re.findall(r"\d+", ink)[:3])) < 80
        assert paper == "rgb(255, 255, 255)"
        assert page.evaluate("document.querySelector('main').innerText") == text
        # Paper does not scroll.
        assert page.evaluate(WIDER) == []
    pdf = page.pdf(format="A4", print_background=False)
    assert pdf.startswith(b"%PDF")
    assert len(re.findall(rb"/Type\s*/Page\b", pdf)) >= 1
