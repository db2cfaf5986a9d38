"""Commands of the pages for users of Flower and NVFlare, as they stand there, in the folder they name."""

from __future__ import annotations

import re
import shlex
import shutil
import sys
from pathlib import Path

import pytest

from tests.interop.commands import FLOWER, NVFLARE, ROOT, command, evaluated

pytestmark = pytest.mark.interop


@pytest.mark.parametrize(
    ("page", "variable", "python"),
    [("coming-from-flower", "FLOWER", FLOWER), ("coming-from-nvflare", "NVFLARE", NVFLARE)],
)
def test_the_commands_of_the_page(page: str, variable: str, python: Path, tmp_path: Path) -> None:
    text = (ROOT / "docs" / f"{page}.md").read_text()
    named = re.search(r"From the folder of \[`([^`]+)`\]", text)
    lines = re.findall(r"^ {4}securefl (.+)$", text, re.MULTILINE)
    assert named is not None
    assert [line.split()[0] for line in lines] == ["site", "site", "simulate"]
    folder = shutil.copytree(ROOT / named[1], tmp_path / "app")
    for line in lines:
        words = shlex.split(line.replace(f"${variable}", str(python)))
        command([sys.executable, "-m", "securefl", *words], folder)
    (run,) = (folder / "runs").iterdir()
    # The scenario expects 0.95 after ten rounds, and the command has ended with 0.
    assert evaluated(run, "accuracy")[-1] >= 0.95
