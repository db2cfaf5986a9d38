"""Code and numbers of lines in docs/frameworks.md are those of the scripts."""

from __future__ import annotations

import ast
import re
from pathlib import Path

from tests.looped import looped

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "frameworks.md").read_text()
FRAMEWORKS = ("securefl", "byzfl", "pfl", "flower")
BLOCK = re.compile(r"^\*\*(\w+)\*\*\n\n((?: {4}.*\n|\n(?=\n* {4}))+)", re.MULTILINE)


def script(framework: str) -> str:
    return (ROOT / "examples" / "compared" / f"with_{framework}.py").read_text()


def body(framework: str) -> list[str]:
    """Return the lines of a script after its docstring and imports, without blank ones."""
    text = script(framework)
    code = [one for one in ast.parse(text).body[1:] if not isinstance(one, ast.Import | ast.ImportFrom)]
    begun = min([code[0].lineno, *(one.lineno for one in getattr(code[0], "decorator_list", ()))])
    return [line for line in text.splitlines()[begun - 1 :] if line.strip()]


@looped("framework", FRAMEWORKS)
def test_the_page_has_the_whole_script(framework: str) -> None:
    shown = [block.rstrip() for name, block in BLOCK.findall(PAGE) if name == framework]
    assert len(shown) == 5
    lines: list[str] = []
    for block in shown:
        code = "\n".join(line[4:] for line in block.splitlines())
        for part in re.split(r"\n\n+(?=\S)", code):
            assert part in script(framework)
        lines += [line for line in code.splitlines() if line.strip()]
    assert sorted(lines) == sorted(body(framework))


@looped("framework", FRAMEWORKS)
def test_the_number_of_lines_is_that_of_the_script(framework: str) -> None:
    row = next(line for line in PAGE.splitlines() if line.startswith(f"| {framework} |"))
    text = script(framework).split('"""', 2)[2]
    assert int(row.split("|")[6]) == sum(bool(line.strip()) for line in text.splitlines())


def test_the_page_is_short() -> None:
    text = re.sub(r"^ {4}.*$", "", PAGE, flags=re.MULTILINE)
    assert sum(bool(re.search(r"\w", word)) for word in text.split()) <= 600
