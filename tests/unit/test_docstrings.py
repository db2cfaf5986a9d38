"""Docstrings of modules begin with their subject."""

from __future__ import annotations

import ast
import importlib
import re
from pathlib import Path
from typing import Any

import securefl
from tests.looped import looped

ROOT = Path(securefl.__file__).parent
CLAUSES = {
    *(
        "what",
        "whatever",
        "who",
        "whom",
        "whose",
        "whoever",
        "how",
        "whether",
        "which",
        "where",
        "when",
        "why",
    ),
    *("from", "everything", "is", "are", "do", "does", "did", "was", "were", "if", "that"),
}
"""First words of a clause or a question where the name of a thing is due."""
MODULES = sorted(path.relative_to(ROOT).as_posix() for path in ROOT.rglob("*.py"))


def first_word(docstring: str) -> str:
    """The first word after the name of a command or a chapter, in small letters."""
    subject = docstring.split(": ", 1)[1] if docstring.startswith("*") else docstring
    return subject.split()[0].lower().strip(",.:;")


@looped("name", MODULES)
def test_a_module_begins_with_its_subject(name: str) -> None:
    said = ast.get_docstring(ast.parse((ROOT / name).read_text(encoding="utf-8")))
    assert said, f"{name} has no docstring"
    assert first_word(said) not in CLAUSES, f"{name}: say what the module is: {said.splitlines()[0]!r}"


def named(path: str) -> bool:
    """Whether ``path``, dotted from securefl on, is a module or something in one."""
    parts = path.split(".")
    for end in range(len(parts), 0, -1):
        try:
            found: Any = importlib.import_module(".".join(parts[:end]))
        except ModuleNotFoundError:
            continue
        for name in parts[end:]:
            if name in getattr(found, "__annotations__", {}):
                return True
            if not hasattr(found, name):
                return False
            found = getattr(found, name)
        return True
    return False


def test_what_docstrings_point_at_is_there() -> None:
    targets = {
        target: name
        for name in MODULES
        for target in re.findall(
            r":(?:class|func|mod|meth|attr|data):`~?(securefl[\w.]*)`", (ROOT / name).read_text()
        )
    }
    assert len(targets) > 100
    assert [f"{name}: {target}" for target, name in targets.items() if not named(target)] == []
    assert not named("securefl.methods.robust.krum.krum")


@looped(
    "said",
    [
        "What a process is told when it starts.",
        "Whether opened sums look alike.",
        "From a file to a scenario.",
        "*views*: did the server tell everybody the same story?",
    ],
)
def test_a_clause_is_no_subject(said: str) -> None:
    assert first_word(said) in CLAUSES
