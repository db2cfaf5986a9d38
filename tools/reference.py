"""Writes docs/api.md and docs/fields.md from docstrings; ``--check`` only compares."""

from __future__ import annotations

import ast
import inspect
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from textwrap import dedent

import securefl

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from tools import fields  # noqa: E402 - from this checkout

DOCS = ROOT / "docs"


def entry(name: str, found: object, level: int = 2) -> Iterator[str]:
    """Yield the lines of one name; of a module also those of its members, a level down."""
    if isinstance(found, str):
        return
    yield from (f"{'#' * level} `{name}`", "")
    if inspect.isfunction(found):
        yield from ("```python", *head(found), "```", "")
    yield from (*body(inspect.getdoc(found) or ""), "")
    if inspect.ismodule(found):
        for member in found.__all__:
            yield from entry(f"{name}.{member}", getattr(found, member), level + 1)
    if not inspect.isclass(found):
        return
    if name.startswith("sections."):
        yield from ("Fields: [reference](fields.md).", "")
    else:
        listed = [
            f"- **`{field}`**: {fields.plain(text)}" for field, text in fields.docstrings(found).items()
        ]
        yield from (*listed, *([""] if listed else []))
    for member, value in vars(found).items():
        inner = value.fget if isinstance(value, property) else value
        if member.startswith("_") or not inspect.isfunction(inner) or not inspect.getdoc(inner):
            continue
        shown = f"{member}{signature(inner)}" if inspect.isfunction(value) else member
        yield from (f"**`{shown}`** {fields.plain((inspect.getdoc(inner) or '').splitlines()[0])}", "")


def body(text: str) -> Iterator[str]:
    """Yield the lines of a docstring, its example as a block of code."""
    fenced = False
    for line in text.splitlines():
        if line.startswith(">>> ") and not fenced:
            fenced = True
            yield "```python"
        elif fenced and not line:
            fenced = False
            yield "```"
        yield line
    if fenced:
        yield "```"


def parsed(function: object) -> ast.FunctionDef | ast.AsyncFunctionDef:
    """Return the definition of a function."""
    (made,) = ast.parse(dedent(inspect.getsource(function))).body  # type: ignore[arg-type]
    if not isinstance(made, ast.FunctionDef | ast.AsyncFunctionDef):
        raise TypeError(function)
    return made


def head(function: object) -> list[str]:
    """Return the lines of a definition from ``def`` to its docstring, as in the source."""
    lines, made = dedent(inspect.getsource(function)).splitlines(), parsed(function)  # type: ignore[arg-type]
    return lines[made.lineno - 1 : made.body[0].lineno - 1]


def signature(function: object) -> str:
    """Parameters and result as in the source, without ``self`` and without modules of types."""
    made = parsed(function)
    made.args.args = [each for each in made.args.args if each.arg != "self"]
    returned = f" -> {ast.unparse(made.returns)}" if made.returns else ""
    return re.sub(r"\b[a-z_.]+\.(?=[A-Z]\w*[\],)| ]|[A-Z]\w*$)", "", f"({ast.unparse(made.args)}){returned}")


def page() -> str:
    """Return the whole page."""
    lines = [
        "# Reference of the Python API",
        "",
        "All public names of securefl, for users who write Python.",
        "Made from the docstrings by `python tools/reference.py`. Terms: [glossary](glossary.md).",
        "",
    ]
    for name in sorted(dir(securefl), key=lambda each: (inspect.isclass(getattr(securefl, each)), each)):
        lines += entry(name, getattr(securefl, name))
    return "\n".join(lines).rstrip() + "\n"


if __name__ == "__main__":
    for name, text in (("api.md", page()), ("fields.md", fields.page())):
        if "--check" not in sys.argv:
            (DOCS / name).write_text(text)
        elif (DOCS / name).read_text() != text:
            sys.exit(f"docs/{name} is stale: python tools/reference.py")
