"""The built site: strict links, search, generated references, nothing from a network."""

from __future__ import annotations

import html
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.interop.commands import LIMIT, ROOT
from tools.documentation import offline

pytestmark = pytest.mark.interop
PYTHON = ROOT / ".venv-docs" / "bin" / "python"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site") / "site"
    done = subprocess.run(
        [str(PYTHON), "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)],
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1", "SECUREFL_PYTHON": sys.executable},
        capture_output=True,
        text=True,
        check=False,
        timeout=LIMIT,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


def text_of(page: Path) -> str:
    return html.unescape(re.sub(r"<[^>]+>", "", page.read_text()))


def test_it_loads_nothing_from_a_network(site: Path) -> None:
    assert list(offline.faults(site)) == []
    assert (site / "assets/javascripts/iframe-worker.js").is_file()


def test_all_pages_are_there(site: Path) -> None:
    for folder in ("docs", "docs/adr", "docs/results"):
        for page in (ROOT / folder).glob("*.md"):
            assert (site / page.relative_to(ROOT / "docs")).with_suffix(".html").is_file(), page
    for name in ("changelog", "contributing", "security", "source/examples/own_training/hospital.py"):
        assert (site / f"{name}.html").is_file()


def test_references_are_made_from_the_code(site: Path) -> None:
    assert "securefl simulate" in text_of(site / "cli.html")
    assert "TrimmedMean" in text_of(site / "units" / "methods.html")
    assert "[[1, 3], [0, 2]]" in text_of(site / "units" / "scenario.html")


def test_the_search_knows_pages(site: Path) -> None:
    index = (site / "search" / "search_index.js").read_text()
    for page in ("glossary.html", "cli.html", "adr/0001-pure-core-thin-shell.html", "results/share.html"):
        assert f'"location":"{page}' in index
