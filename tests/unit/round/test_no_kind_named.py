"""The machines of a round know the port of secure sums and no kind; checked on the source text."""

from __future__ import annotations

import ast
from pathlib import Path

import securefl
from securefl.protocol.secure_sum import kinds
from tests.looped import looped

ROOT = Path(securefl.__file__).parent
ROUNDS = sorted((ROOT / "protocol" / "round").rglob("*.py"))
PORT = Path(kinds.__file__).parent
KINDS = frozenset(path.parent.name for path in PORT.glob("*/kind.py"))
OPTIONS = frozenset({"validate", "validated"})
"""Fields of a scenario that say which kind it is."""


def named_kinds(source: str) -> list[str]:
    """What of a module asks for a kind: imports of its modules, its name as a value, fields that tell."""
    tree, found = ast.parse(source), []
    for node in ast.walk(tree):
        match node:
            case ast.ImportFrom(module=str(module), level=0, names=names):
                found += [one for one in (module, *(f"{module}.{n.name}" for n in names)) if _of_a_kind(one)]
            case ast.Import(names=names):
                found += [name.name for name in names if _of_a_kind(name.name)]
            case ast.Constant(value=str(value)) if value in KINDS:
                found.append(value)
            case ast.Attribute(attr=attr) if attr in OPTIONS:
                found.append(attr)
            case ast.Attribute(attr="kind", value=ast.Attribute(attr="secure_sum") | ast.Name(id="sums")):
                found.append("secure_sum.kind")
    return found


def _of_a_kind(module: str) -> bool:
    parent, kind = kinds.__package__.split("."), module.split(".")
    return kind[: len(parent)] == parent and len(kind) > len(parent) and kind[len(parent)] in KINDS


@looped("path", ROUNDS)
def test_no_kind_is_named(path: Path) -> None:
    assert named_kinds(path.read_text()) == []


def test_all_kinds_are_known() -> None:
    assert {"masking", "crypten", "validated"} <= KINDS
    assert len(ROUNDS) > 30


@looped(
    "source",
    [
        "from securefl.protocol.secure_sum.masking.client import mask",
        "from securefl.protocol.secure_sum.crypten import member",
        "from securefl.protocol.secure_sum import validated",
        "import securefl.protocol.secure_sum.crypten.member",
        "a = scenario.secure_sum.kind",
        "a = sums.kind",
        "a = kind == 'crypten'",
        "a = scenario.secure_sum.validated is not None",
    ],
)
def test_what_would_be_found(source: str) -> None:
    assert named_kinds(source) != []
