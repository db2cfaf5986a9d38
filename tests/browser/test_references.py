"""Pages look as their committed screenshots; ``make browser ARGS=--write`` renews these."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from tests.browser import comparing
from tests.browser.conftest import HERE, PAGES, RUNS, SCHEMES, WIDTHS, OpenPage, launch

pytestmark = pytest.mark.browser
REFERENCES = HERE / "reference"
MOST_BYTES = 1_500_000
CASES = [(name, width, scheme) for name in PAGES for width in WIDTHS for scheme in SCHEMES]
RENDERINGS = ("--font-render-hinting=full", "--enable-lcd-text", "--disable-font-subpixel-positioning")
"""Settings by which machines draw the same letters differently."""
DEFECTS = {
    "section removed": "document.querySelector('#verification').remove()",
    "section over another": "document.querySelector('#rule').style.marginTop = '-60px'",
    "chart empty": "document.querySelector('#metrics svg').replaceChildren()",
    "curve removed": "document.querySelectorAll('#metrics .curve').forEach((one) => one.remove())",
    "map pale": "document.querySelectorAll('.cell').forEach((one) => one.classList.remove('kept'))",
    "table removed": "document.querySelector('#failures table').style.visibility = 'hidden'",
    "tiles in one column": "document.querySelector('.tiles').style.display = 'block'",
    "style lost": "document.querySelector('style').remove()",
}


def file_of(name: str, width: int, scheme: str) -> Path:
    return REFERENCES / f"{name}-{width}-{scheme}.png"


def picture(page: Any, name: str) -> Image.Image:
    """Return a screenshot: of a report as a whole, of the site's long pages what a window shows."""
    return Image.open(io.BytesIO(page.screenshot(full_page=name in RUNS, animations="disabled")))


@pytest.mark.parametrize(("name", "width", "scheme"), CASES)
def test_it_looks_as_its_reference(
    open_page: OpenPage, request: pytest.FixtureRequest, name: str, width: int, scheme: str
) -> None:
    found, file = picture(open_page(name, width, scheme), name), file_of(name, width, scheme)
    if request.config.getoption("--write"):
        comparing.save(found, file)
    apart = comparing.difference(Image.open(file), found)
    assert comparing.passes(apart), f"{file.name}: {apart}; if it should look so: make browser ARGS=--write"


def test_the_references_are_those_of_the_pages_and_small() -> None:
    files = sorted(REFERENCES.iterdir())
    assert files == sorted(file_of(*case) for case in CASES)
    assert sum(file.stat().st_size for file in files) < MOST_BYTES


@pytest.mark.parametrize("rendering", RENDERINGS)
@pytest.mark.parametrize("name", PAGES)
def test_another_rendering_passes(open_page: OpenPage, driver: Any, name: str, rendering: str) -> None:
    browser = launch(driver, rendering)
    try:
        for width in WIDTHS:
            page = open_page(name, width, by=browser)
            apart = comparing.difference(Image.open(file_of(name, width, "light")), picture(page, name))
            print(f"{name} {width} {rendering}: {apart}")
            assert comparing.passes(apart)
    finally:
        browser.close()


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("defect", DEFECTS)
def test_a_defect_is_seen(open_page: OpenPage, defect: str, width: int, scheme: str) -> None:
    page = open_page("finished", width, scheme)
    page.evaluate(DEFECTS[defect])
    apart = comparing.difference(
        Image.open(file_of("finished", width, scheme)), picture(page, "finished")
    )
    print(f"{defect} {width} {scheme}: {apart}")
    assert not comparing.passes(apart)
