"""Count the code lines of the product and compare them with the committed baseline.

Rules:

- A code line is a physical line of a ``.py`` file below ``securefl`` with a token other than a comment, a
  line break, an indentation or part of a docstring. Stubs (``.pyi``) list exports and do not count.
- A line of a multi-line expression or string is a code line. A string that stands alone as a statement (of a
  module, class, function or attribute) is a docstring.
- An import line is a code line inside ``import`` or ``from ... import``, also in functions and under
  ``TYPE_CHECKING``.
- ``RESEARCH`` (benchmarks, experiments, plots, privacy attacks) is counted apart: no deployment uses it.

``python tools/weight.py`` prints the count by wing, the ratio to ``tools/weight.json`` and the share of
imports. ``--write`` makes the present count the baseline. ``--since REV`` counts the product lines that were
deleted and added since that commit; a moved line counts as neither.
"""

from __future__ import annotations

import argparse
import ast
import io
import json
import subprocess
import sys
import tokenize
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
BASELINE = Path(__file__).with_suffix(".json")
RESEARCH = tuple(f"lab/{name}" for name in ("bench", "experiments", "plots", "privacy_attacks"))
"""Folders below ``securefl`` that are counted apart."""
LAYOUT = (
    tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER,
    tokenize.ENCODING,
)  # fmt: skip
"""Tokens that make no line a code line."""


@dataclass(frozen=True)
class Weight:
    """Code lines of some files, and how many of them are lines of imports."""

    files: int = 0
    code: int = 0
    imports: int = 0

    def __add__(self, other: Weight) -> Weight:
        return Weight(self.files + other.files, self.code + other.code, self.imports + other.imports)


def docstring_lines(tree: ast.AST) -> Iterator[int]:
    """Yield the numbers of the lines of docstrings, those of attributes included."""
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if not isinstance(body, list):
            continue
        for statement in body:
            # A bare string does nothing: it documents its module, class or function, or the name above it.
            if (
                isinstance(statement, ast.Expr)
                and isinstance(statement.value, ast.Constant)
                and isinstance(statement.value.value, str)
            ):
                yield from range(statement.lineno, (statement.end_lineno or statement.lineno) + 1)


def weigh(source: str) -> Weight:
    """Count the code lines of one file."""
    tree = ast.parse(source)
    code: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type not in LAYOUT:
            code.update(range(token.start[0], token.end[0] + 1))
    code.difference_update(docstring_lines(tree))
    imports = {
        line
        for node in ast.walk(tree)
        if isinstance(node, ast.Import | ast.ImportFrom)
        for line in range(node.lineno, (node.end_lineno or node.lineno) + 1)
    }
    return Weight(1, len(code), len(imports & code))


def wing(path: Path) -> str:
    """Name the part of the product that a file counts for: its wing, its research folder, or ``securefl``."""
    inner = path.relative_to(ROOT / "securefl")
    return next(
        (folder for folder in RESEARCH if inner.is_relative_to(folder)),
        inner.parts[0] if len(inner.parts) > 1 else "securefl",
    )


def count(root: Path = ROOT) -> dict[str, Weight]:
    """Count the product by wing."""
    found: dict[str, Weight] = {}
    for path in sorted((root / "securefl").rglob("*.py")):
        name = wing(path)
        found[name] = found.get(name, Weight()) + weigh(path.read_text())
    return found


def total(parts: dict[str, Weight], *, research: bool) -> Weight:
    """Add the parts up, research alone or all but research."""
    chosen = (weight for name, weight in parts.items() if (name in RESEARCH) == research)
    result = Weight()
    for weight in chosen:
        result += weight
    return result


def changed_since(revision: str) -> tuple[int, int]:
    """Count product lines deleted and added since ``revision``; a line that only moved is neither.

    Lines are compared without their indentation; blank lines and lone brackets do not count.
    """
    command = ["git", "diff", "--unified=0", "--no-renames", revision, "--", "securefl"]
    text = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    lines: Counter[str] = Counter()
    for line in text.splitlines():
        if line[:1] in "+-" and line[:3] not in {"+++", "---"} and line[1:].strip(" \t()[]{},"):
            lines[line[1:].strip()] += 1 if line[0] == "+" else -1
    deleted = -sum(number for number in lines.values() if number < 0)
    return deleted, sum(number for number in lines.values() if number > 0)


def main() -> int:
    """Print the count, or write the baseline."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--write", action="store_true", help="make the present count the baseline")
    parser.add_argument("--since", metavar="REV", help="count lines deleted and added since this commit, too")
    options = parser.parse_args()
    parts = count()
    product, research = total(parts, research=False), total(parts, research=True)
    print(f"{'part':24} {'files':>6} {'code':>7} {'imports':>8} {'share':>7}")
    rows = [*sorted(parts.items()), ("product without research", product), ("research", research)]
    for name, weight in rows:
        share = weight.imports / max(weight.code, 1)
        print(f"{name:24} {weight.files:6} {weight.code:7} {weight.imports:8} {share:7.1%}")
    if options.write:
        BASELINE.write_text(json.dumps({"code": product.code, "imports": product.imports}, indent=1) + "\n")
    before = json.loads(BASELINE.read_text())
    print(f"code lines: {product.code / before['code']:.3f} of the baseline of {before['code']}")
    if options.since:
        deleted, added = changed_since(options.since)
        print(f"since {options.since}: {deleted} lines deleted, {added} added, moved ones not counted")
    return 0


if __name__ == "__main__":
    sys.exit(main())
