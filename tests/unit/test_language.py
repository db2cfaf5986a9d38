"""The patterns of ``tools/language.py``, one by one."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tools import language

FOUND = {
    "people for parties": "Nobody sees an update.",
    "say or tell for send": "The word that a party said.",
    "where there is": "The clip where there is one.",
    "what as a noun": "Sum of what arrived.",
    "that of which": "A sum of which a share is missing.",
    "let go of": "Shares that a member lets go of.",
}
RETIRED = {
    *("BestSoFar", "Conviction", "ConvictsNobodyError", "Greeted", "Informed", "KeptChoice", "Occasion"),
    *("Outside", "Past", "Standing", "TwoWords", "Unmasked"),
    *("told", "said", "everybody", "nobody", "helped", "brought", "fruitless", "fruitless_rounds"),
    *("lone_rounds", "lone_seconds", "barred", "groupless", "convicted", "fate", "sieve", "vigil"),
}
"""Former names; the field has words for them. Checkpoints still name a field ``everyone``."""
FINE = ("The server sends shares.", "Choose what to do.", "A body of work.", "The party that signs.")


@pytest.mark.parametrize("name", language.PATTERNS)
def test_a_pattern_finds_its_example_only(name: str) -> None:
    assert {key for key, pattern in language.PATTERNS.items() if pattern.search(FOUND[name])} == {name}
    assert not any(language.PATTERNS[name].search(text) for text in FINE)


def test_titles_comments_and_names_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(language, "ROOT", tmp_path)
    path = tmp_path / "a.py"
    source = (
        '"""What leaves."""\n\n# One\n# comment.\nx = 1  # noqa: E501\n"""Value."""\n'
        "def given(): ...\ndef send(): ...\n"
    )
    tree = ast.parse(source)
    assert [one.text for one in language.docstrings(path, tree)] == ["What leaves.", "Value."]
    assert [one.text for one in language.comments(path, source)] == ["One comment."]
    names = [name for _, name in language.functions(path, tree)]
    assert [name for name in names if language.PARTICIPLE.fullmatch(name)] == ["given"]


def identifiers(tree: ast.Module) -> set[str]:
    """Names of variables, parameters, attributes, keywords, functions and classes."""
    found = set()
    for node in ast.walk(tree):
        match node:
            case ast.Name(id=name) | ast.Attribute(attr=name) | ast.arg(arg=name):
                found.add(name)
            case ast.keyword(arg=str(name)) | ast.MatchAs(name=str(name)):
                found.add(name)
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                found.add(name)
    return found


def test_identifiers_are_found() -> None:
    source = """
class A:
    b: int
def c(d, *, e=1):
    f = g.h(i=1)
    match f:
        case 0 as j: pass
"""
    assert identifiers(ast.parse(source)) == set("Abcdefghij") | {"int"}


def test_no_identifier_is_a_retired_name() -> None:
    for path in (language.ROOT / "securefl").rglob("*.py"):
        found = identifiers(ast.parse(path.read_text(encoding="utf-8"))) & RETIRED
        assert not found, path


def test_sentences_leave_out_code() -> None:
    assert len(language.sentences("Return ``a. B``. Raise an error.\n\nNext one")) == 3
