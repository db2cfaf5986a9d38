"""Draw functions and classes for a cold reader: names, signatures and docstrings, without bodies.

``python tools/cold_reader.py SEED [--number N] [--root FOLDER]`` prints them. The reader writes what each
does, and is compared with the code; ``docs/results/cold-reader.md`` has the last comparison.
"""

from __future__ import annotations

import argparse
import ast
import random
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def described(root: Path) -> Iterator[tuple[str, str, ast.AST]]:
    """Yield file, qualified name and node of each function and class with a docstring."""
    for path in sorted((root / "securefl").rglob("*.py")):
        yield from _below(ast.parse(path.read_text(encoding="utf-8")), str(path.relative_to(root)), "")


def _below(node: ast.AST, file: str, scope: str) -> Iterator[tuple[str, str, ast.AST]]:
    for child in ast.iter_child_nodes(node):
        match child:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                if not name.startswith("__") and ast.get_docstring(child):
                    yield file, scope + name, child
                yield from _below(child, file, f"{scope}{name}.")
            case ast.expr():
                pass
            case _:
                yield from _below(child, file, scope)


def signature(name: str, node: ast.AST) -> str:
    """Return the definition of a function, or the bases and fields of a class."""
    match node:
        case ast.ClassDef(bases=bases, body=body):
            fields = [
                f"\n    {ast.unparse(one.target)}: {ast.unparse(one.annotation)}"
                for one in body
                if isinstance(one, ast.AnnAssign)
            ]
            return f"class {name}({', '.join(map(ast.unparse, bases))})" + "".join(fields)
        case ast.FunctionDef(args=args, returns=returns) | ast.AsyncFunctionDef(args=args, returns=returns):
            result = f" -> {ast.unparse(returns)}" if returns else ""
            return f"def {name}({ast.unparse(args)}){result}"
        case _:
            raise TypeError(name)


def main() -> None:
    """Print the drawn ones."""
    parser = argparse.ArgumentParser(description="Draw functions and classes for a cold reader.")
    parser.add_argument("seed", type=int)
    parser.add_argument("--number", type=int, default=100)
    parser.add_argument("--root", type=Path, default=ROOT)
    asked = parser.parse_args()
    items = list(described(asked.root))
    chosen = random.Random(asked.seed).sample(range(len(items)), asked.number)  # noqa: S311 - no secret
    for number, at in enumerate(sorted(chosen), start=1):
        file, name, node = items[at]
        print(f"### {number}. {file}\n{signature(name, node)}\n\n{ast.get_docstring(node)}\n")  # type: ignore[arg-type]


if __name__ == "__main__":
    main()
