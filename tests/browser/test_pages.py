"""Pages as a person meets them: on a phone and a desktop, light and dark, by keyboard, on paper."""

from __future__ import annotations

import re

import pytest

from tests.browser.conftest import PAGES, RUNS, SCHEMES, WIDTHS, OpenPage, axe, script

pytestmark = pytest.mark.browser
PAPER = 718
"""Pixels across an A4 page inside its margins."""
MOST_TABS = 1500


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", PAGES)
def test_axe_finds_nothing_serious(open_page: OpenPage, name: str, width: int, scheme: str) -> None:
    page = open_page(name, width, scheme, unfold=True)
    page.evaluate(axe())
    found = page.evaluate("axe.run(document, {resultTypes: ['violations']})")
    assert len(found["passes"]) > 10
    serious = [
        f"{one['id']}: {one['help']}: {[(node['target'], node['any'][0]['message'] if node['any'] else '') for node in one['nodes'][:3]]}"
        for one in found["violations"]
        if one["impact"] in ("serious", "critical")
    ]
    assert serious == []


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
        wide = "[...document.querySelectorAll('.scroll')].filter((one) => one.scrollWidth > one.clientWidth + 1).length"
        assert page.evaluate(wide) == 0
    pdf = page.pdf(format="A4", print_background=False)
    assert pdf.startswith(b"%PDF")
    assert len(re.findall(rb"/Type\s*/Page\b", pdf)) >= 1
