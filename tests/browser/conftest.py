"""A browser, and the pages that it opens: reports of four runs and the documentation site.

``make browser`` runs these tests in ``.venv-browser``; the product in its own environment writes the pages.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
LIMIT = 300
RUNS = ("finished", "failed", "running", "sixty")
SITE = {"start": "index.html", "tutorial": "tutorial.html", "commands": "commands.html"}
PAGES = (*RUNS, *SITE)
WIDTHS = (390, 1200)
SCHEMES = ("light", "dark")

OpenPage = Callable[..., Any]


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option that renews references."""
    parser.addoption("--write", action="store_true", help="write reference screenshots anew")


@pytest.fixture(scope="session")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Files of the pages by name."""
    folder = tmp_path_factory.mktemp("pages")
    python = str(ROOT / ".venv" / "bin" / "python")
    _call([python, "-m", "tests.browser.runs", str(folder / "runs")])
    site = folder / "site"
    mkdocs = [
        str(ROOT / ".venv-docs/bin/python"),
        "-m",
        "mkdocs",
        "build",
        "--strict",
        "--site-dir",
        str(site),
    ]
    _call(mkdocs, NO_MKDOCS_2_WARNING="1", SECUREFL_PYTHON=python)
    runs = {name: folder / "runs" / name / "report.html" for name in RUNS}
    return runs | {name: site / file for name, file in SITE.items()}


def _call(command: list[str], **variables: str) -> None:
    environment = {**os.environ, "PYTHONPATH": str(ROOT), **variables}
    done = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False, timeout=LIMIT
    )
    assert done.returncode == 0, done.stdout + done.stderr


def launch(driver: Any) -> Any:
    """Start Debian's Chromium with the fonts of ``fonts.conf``."""
    path = shutil.which("chromium")
    if path is None:
        pytest.exit("chromium is missing: apt-get install chromium fonts-dejavu-core", returncode=2)
    fixed = ("--no-sandbox", "--font-render-hinting=none", "--disable-lcd-text", "--force-color-profile=srgb")
    environment = {**os.environ, "FONTCONFIG_FILE": str(HERE / "fonts.conf")}
    return driver.chromium.launch(executable_path=path, args=fixed, env=environment)


@pytest.fixture(scope="session")
def driver() -> Iterator[Any]:
    """Playwright."""
    from playwright.sync_api import sync_playwright  # noqa: PLC0415 - only in .venv-browser

    with sync_playwright() as driver:
        yield driver


@pytest.fixture(scope="session")
def browser(driver: Any) -> Iterator[Any]:
    """The browser of all tests."""
    browser = launch(driver)
    yield browser
    browser.close()


@pytest.fixture
def open_page(browser: Any, pages: dict[str, Path]) -> Iterator[OpenPage]:
    """Return a function that opens a page by name, width and colour scheme."""
    contexts = []

    def open_(name: str, width: int, scheme: str = "light", *, unfold: bool = False, ratio: float = 2) -> Any:
        context = browser.new_context(
            device_scale_factor=ratio,
            viewport={"width": width, "height": 900},
            color_scheme=scheme,
            reduced_motion="reduce",
        )
        contexts.append(context)
        # Nothing is loaded from a network; a running page would reload itself during the test.
        context.route(
            lambda url: not url.startswith(("file:", "data:", "blob:")), lambda route: route.abort()
        )
        page = context.new_page()
        page.goto(pages[name].as_uri())
        page.wait_for_load_state("load")
        page.evaluate("document.fonts.ready")
        if unfold:
            page.evaluate("document.querySelectorAll('details').forEach((one) => one.open = true)")
        return page

    yield open_
    for context in contexts:
        context.close()


def script(name: str) -> str:
    """Return a script of this folder without its comments, as an expression."""
    lines = (HERE / name).read_text().splitlines()
    return "\n".join(line for line in lines if not line.lstrip().startswith("//"))


def axe() -> str:
    """Return axe-core, of the package that has it."""
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    folder = Path(sys.prefix) / "lib" / version / "site-packages" / "axe_playwright_python"
    return (folder / "axe.min.js").read_text(encoding="utf-8")
