"""Moves every module to its wing, and rewrites what names it: imports, dotted names, paths in any text.

Run once (docs/adr/0040); kept for branches from before: rebase onto the commit before the move, run it,
commit the result on top of the move. Between units (tools/layout.py) an import becomes one of the name that
the unit exports, and each unit gets the stub ``__init__.pyi`` that lists these names.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).parents[1]
TEXTS = ("*.py", "*.md", "*.toml", "Makefile", "*.yml", "*.json", "*.cff", ".ci/*")
UNTOUCHED = (
    "tools/moves.py",
    "tools/moves.txt",
    "CHANGELOG.md",
    "docs/results/*.json",
    "docs/results/*/*",
    "tests/vectors/*.json",
)


def moves() -> dict[str, str]:
    """Old to new dotted names, of modules, packages and folders of tests; the longest prefix counts."""
    lines = (ROOT / "tools" / "moves.txt").read_text().splitlines()
    pairs = [line.split() for line in lines if line.strip() and not line.startswith("#")]
    return dict(pairs)


MOVES = moves()
_LONGEST_FIRST = sorted(MOVES, key=len, reverse=True)


def new_name(old: str) -> str:
    """Where ``old`` lies after the move."""
    for prefix in _LONGEST_FIRST:
        if old == prefix or old.startswith(prefix + "."):
            return MOVES[prefix] + old[len(prefix) :]
    return old


def tracked(*patterns: str) -> list[Path]:
    """Tracked files, relative to the root."""
    listed = subprocess.run(
        ["/usr/bin/env", "git", "ls-files", *patterns], cwd=ROOT, capture_output=True, text=True, check=True
    )
    return [Path(line) for line in listed.stdout.splitlines()]


def module_of(path: Path) -> str:
    """Dotted name of the module in ``path``; a package is named after its folder."""
    parts = path.with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def unit_of(module: str) -> str:
    """Return the package, module of a wing or program that ``module`` is private to."""
    parts = module.split(".")
    if parts[0] != "securefl" or parts[1:2] in (["cli"], ["scenario"]):
        return ".".join(parts[:2])
    return ".".join(parts[:3])


@dataclass
class Layout:
    """All modules before the move, and what units turn out to export."""

    modules: dict[str, Path]
    exports: dict[str, dict[str, str]] = field(default_factory=lambda: defaultdict(dict))
    """Unit to name to the module (relative to the unit; "" for itself) that it is taken from."""
    packages: set[str] = field(default_factory=set)

    def taken(self, module: str, name: str | None, consumer: str) -> tuple[str, bool]:
        """Where ``consumer`` (new name) imports ``name`` of old ``module`` from; the name None is the module.

        The second value tells whether that is the unit itself.
        """
        target = new_name(module)
        unit = unit_of(target)
        outside = not consumer.startswith(("tests", "tools")) and unit_of(consumer) != unit
        if not outside or unit not in self.packages or target == unit or not unit.startswith("securefl"):
            return target, False
        inner = target[len(unit) + 1 :]
        if name is None:
            if "." in inner:
                return target, False
            self.exports[unit][inner] = ""
            return unit, True
        known = self.exports[unit].setdefault(name, inner)
        if known != inner:
            print(f"{consumer}: {name} is of {known} and of {inner} in {unit}", file=sys.stderr)
            return target, False
        return unit, True


def statements(node: ast.ImportFrom | ast.Import, layout: Layout, consumer: str) -> list[str]:
    """``node`` after the move, a line for each module that it imports from."""
    lines: dict[str, list[str]] = {}
    for alias in node.names:
        as_name = f" as {alias.asname}" if alias.asname else ""
        if isinstance(node, ast.Import):
            lines[f"import {new_name(alias.name)}{as_name}"] = []
            continue
        base = node.module or ""
        full = f"{base}.{alias.name}"
        if full in layout.modules:
            source, exported = layout.taken(full, None, consumer)
            leaf = new_name(full).rpartition(".")[2]
            renamed = as_name or (f" as {alias.name}" if leaf != alias.name else "")
            package = source if exported else source.rpartition(".")[0]
            lines.setdefault(package, []).append(leaf + renamed)
        elif base in layout.modules:
            source, _ = layout.taken(base, alias.name, consumer)
            lines.setdefault(source, []).append(alias.name + as_name)
        else:
            lines.setdefault(base, []).append(alias.name + as_name)
    return [
        f"from {source} import {', '.join(names)}" if names else source for source, names in lines.items()
    ]


def rewrite_imports(text: str, layout: Layout, consumer: str) -> str:
    """``text`` of a module with its imports after the move."""
    lines = text.splitlines(keepends=True)
    found = [
        node
        for node in ast.walk(ast.parse(text))
        if (isinstance(node, ast.ImportFrom) and not node.level and (node.module or "").split(".")[0] in TOPS)
        or (isinstance(node, ast.Import) and any(alias.name.split(".")[0] in TOPS for alias in node.names))
    ]
    for node in sorted(found, key=lambda each: each.lineno, reverse=True):
        first, last = node.lineno - 1, (node.end_lineno or node.lineno) - 1
        indent = " " * node.col_offset
        comment = re.search(r"  #.*$", lines[first].rstrip("\n")) or re.search(
            r"  #.*$", lines[last].rstrip("\n")
        )
        tail = comment.group() if comment else ""
        after = [each.replace("securefl", MOVED) for each in statements(node, layout, consumer)]
        lines[first : last + 1] = [f"{indent}{each}{tail}\n" for each in after]
    return "".join(lines)


MOVED = "securefl\0"
"""In a name that is a new one already, so that it does not move twice."""
TOPS = ("securefl", "parties", "scenarios", "tests")
_DOTTED = re.compile(r"(?<![\w/.-])(?:securefl|parties|tests)(?:\.\w+)+(?![\w(])")
_PATH = re.compile(r"(?<![\w.-])(?:securefl|parties|tests)(?:/\w+)+(?:\.py)?")


def rewrite_names(text: str) -> str:
    """``text`` with dotted names and paths of what has moved."""

    def dotted(found: re.Match[str]) -> str:
        return new_name(found.group())

    def path(found: re.Match[str]) -> str:
        stem = found.group().removesuffix(".py")
        return new_name(stem.replace("/", ".")).replace(".", "/") + (
            ".py" if found.group().endswith(".py") else ""
        )

    return _PATH.sub(path, _DOTTED.sub(dotted, text))


WIDTH = 110


def reflow(text: str) -> str:
    """``text`` of a module, with docstring lines that have become too long carried over to the next line."""
    lines = text.split("\n")
    strings = [
        node.value
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    ]
    for node in sorted(strings, key=lambda each: each.lineno, reverse=True):
        at, end = node.lineno, (node.end_lineno or node.lineno) - 1
        while at < end:
            line = lines[at]
            indent = line[: len(line) - len(line.lstrip())]
            break_at = line.rfind(" ", len(indent) + 1, WIDTH + 1)
            if len(line) > WIDTH and break_at > 0:
                rest, after = line[break_at + 1 :], lines[at + 1]
                lines[at] = line[:break_at]
                deeper = after[: len(after) - len(after.lstrip())]
                item = re.match(r"\s+(\w+|[A-Z]\w+Error):|\s+[-*] |\s+\"{3}", after)
                if after.strip() and len(deeper) >= len(indent) and not item:
                    lines[at + 1] = f"{deeper}{rest} {after.strip()}"
                else:
                    hanging = "    " if re.match(r"\s+\w+: ", line) else ""
                    lines.insert(at + 1, f"{indent}{hanging}{rest}")
                    end += 1
            at += 1
    return "\n".join(lines)


def relative(module: str) -> str:
    """Return a module after the move, relative to ``securefl`` as before."""
    return new_name(f"securefl{module}").removeprefix("securefl")


def stub(exports: dict[str, str]) -> Iterator[str]:
    """Yield the lines of a unit's stub: what it exports, by module."""
    by_module: dict[str, list[str]] = defaultdict(list)
    for name, module in exports.items():
        by_module[module].append(name)
    for module, names in sorted(by_module.items()):
        for name in sorted(names):
            yield f"from .{module} import {name} as {name}\n"


def main() -> None:
    """Move, rewrite, write the stubs."""
    sources = [path for path in tracked("*.py") if str(path) not in UNTOUCHED]
    layout = Layout({module_of(path): path for path in sources})
    here = {module: new_name(module) for module in layout.modules}
    layout.packages = {
        new
        for new in {unit_of(module) for module in here.values()}
        if any(module.startswith(new + ".") for module in here.values())
    }
    texts = {
        path: (ROOT / path).read_text()
        for path in tracked(*TEXTS)
        if not any(path.match(pattern) for pattern in UNTOUCHED)
    }
    for path in list(texts):
        if path.suffix == ".py":
            texts[path] = rewrite_imports(texts[path], layout, new_name(module_of(path)))
        texts[path] = rewrite_names(texts[path]).replace(MOVED, "securefl")
        if path.suffix == ".py":
            texts[path] = reflow(texts[path])
    for path, text in texts.items():
        (ROOT / path).write_text(text)
    move(sources)
    write_stubs(layout)


def move(sources: list[Path]) -> None:
    """Move the files."""
    for path in sorted(sources):
        package = path.name == "__init__.py"
        new = Path(*new_name(module_of(path)).split("."))
        new = new / "__init__.py" if package else new.with_suffix(".py")
        if new != path:
            (ROOT / new).parent.mkdir(parents=True, exist_ok=True)
            subprocess.run(["/usr/bin/env", "git", "mv", path, new], cwd=ROOT, check=True)


def write_stubs(layout: Layout) -> None:
    """Write what each unit exports, and the packages that are missing."""
    face = ROOT / "securefl" / "__init__.pyi"
    face.write_text(re.sub(r"(?<=from )\.\S+", lambda found: relative(found.group()), face.read_text()))
    for unit, exports in layout.exports.items():
        folder = ROOT / Path(*unit.split("."))
        (folder / "__init__.pyi").write_text("".join(stub(exports)))
        face = folder / "__init__.py"
        told = face.read_text().rstrip("\n") if face.exists() else '"""."""'
        if "lazy_loader" not in told:
            face.write_text(
                f"{told}\n\nimport lazy_loader\n\n"
                "__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)\n"
            )
    for folder in {path.parent for path in (ROOT / "securefl").rglob("*.py")}:
        if not (folder / "__init__.py").exists():
            (folder / "__init__.py").write_text('"""."""\n')


if __name__ == "__main__":
    main()
