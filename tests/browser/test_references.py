"""Pages look as their committed screenshots; ``make browser ARGS=--write`` renews these."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from tests.browser import comparing
from tests.browser.conftest import HERE, PAGES, RUNS, SCHEMES, WIDTHS, OpenPage

pytestmark = pytest.mark.browser
REFERENCES = HERE / "reference"
MOST_BYTES = 1_500_000
CASES = [(name, width, scheme) for name in PAGES for width in WIDTHS for scheme in SCHEMES]
RENDERINGS = {
    "three pixels for two": (1.5, ""),
    "three pixels for one": (3.0, ""),
    "heavier letters": (2.0, "* { -webkit-text-stroke: 0.15px; text-rendering: geometricPrecision }"),
}
"""Other pixels of the same letters: device pixels for one of the page, and a style."""
DEFECTS = {
    "section removed": "document.querySelector('#verification').remove()",
    "section over another": "document.querySelector('#rule').style.marginTop = '-60px'",
    "chart missing": "document.querySelector('#metrics figure').remove()",
    "letters pale": "document.querySelectorAll('.tile b').forEach((one) => one.style.opacity = 0.1)",
    "map pale": "document.querySelectorAll('.cell').forEach((one) => one.classList.remove('kept'))",
    "table removed": "document.querySelector('#failures table').style.visibility = 'hidden'",
    "tiles in one column": "document.querySelector('.tiles').style.display = 'block'",
    "style lost": "document.querySelector('style').remove()",
}


def file_of(name: str, width: int, scheme: str) -> Path:
    return REFERENCES / f"{name}-{width}-{scheme}.png"


def picture(page: Any, name: str) -> Image.Image:
    """Return a screenshot: of a report as a whole, of the site's long pages what a window shows."""
    # At one device pixel for each of the page, Chromium rounds widths of letters, and lines break elsewhere.
    found = Image.open(io.BytesIO(page.screenshot(full_page=name in RUNS, animations="disabled")))
    ratio = page.evaluate("window.devicePixelRatio")
    size = round(found.width / ratio), round(found.height / ratio)
    return found.convert("RGB").resize(size, Image.Resampling.BOX)


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
def test_another_rendering_passes(open_page: OpenPage, name: str, rendering: str) -> None:
    ratio, style = RENDERINGS[rendering]
    for width in WIDTHS:
        page = open_page(name, width, ratio=ratio)
        if style:
            page.add_style_tag(content=style)
        apart = comparing.difference(Image.open(file_of(name, width, "light")), picture(page, name))
        print(f"{name} {width} {rendering}: {apart}")
        assert comparing.passes(apart)


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("defect", DEFECTS)
def test_a_defect_is_seen(open_page: OpenPage, defect: str, width: int, scheme: str) -> None:
    page = open_page("finished", width, scheme)
    page.evaluate(DEFECTS[defect])
    apart = comparing.difference(Image.open(file_of("finished", width, scheme)), picture(page, "finished"))
    print(f"{defect} {width} {scheme}: {apart}")
    assert not comparing.passes(apart)
