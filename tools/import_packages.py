"""Rewrite imports of names from other modules into imports of packages and modules (docs/adr/0063).

``from securefl.methods.robust import aggregate`` becomes ``from securefl.methods import robust``, and
``aggregate(...)`` becomes ``robust.aggregate(...)``. The script ran once, on the parent of the commit that
``.git-blame-ignore-revs`` names. It is kept for branches from before: rebase onto that parent, run the
script, commit the result on top of the commit. It needs Python 3.12 or later, whose ``ast`` gives the
positions of names in f-strings.

A module keeps the names of a target if

- the last part of the target's name is a builtin, or is bound in the module for something else;
- one of the names is bound for something else, imported from the module elsewhere, or patched by a test;
- the import stands in a function or under ``TYPE_CHECKING``, or has a ``noqa`` comment;
- the target is vocabulary of the whole product (``VOCABULARY``), or a module of the same unit that gives one
  name.

The search texts of mutants follow.
"""

from __future__ import annotations

import ast
import builtins
import re
import subprocess
import sys
import tomllib
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
Taken = defaultdict[str, set[str]]
"""Names by module."""
VOCABULARY = frozenset({"securefl.base.arrays", "securefl.base.errors", "securefl.base.ids"})
LEAST = 2
"""Fewest names taken from a module of the same unit for which the module is imported instead."""


def modules() -> dict[str, Path]:
    """Product modules by dotted name."""
    found = {}
    for path in sorted((ROOT / "securefl").rglob("*.py")):
        parts = path.relative_to(ROOT).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def unit(module: str) -> str:
    """Name the unit of a module: a package two below the top, or a wing that is one unit."""
    parts = module.split(".")
    return ".".join(parts[:2] if parts[1:2] in (["cli"], ["scenario"]) else parts[:3])


_PATCHED = re.compile(r"setattr\(\s*(\w+),\s*\"(\w+)\"|\"(securefl(?:\.\w+)+)\.(\w+)\"")


def aliases_and_names(tree: ast.Module, here: str, known: dict[str, Path]) -> tuple[dict[str, str], Taken]:
    """Return the modules that a file knows by short names, and the names that it takes from modules."""
    aliases: dict[str, str] = {}
    taken: Taken = defaultdict(set)
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            base = f"{here}.{node.module}" if node.level else node.module or ""
            for alias in node.names:
                taken[base].add(alias.name)
                if f"{base}.{alias.name}" in known:
                    aliases[alias.asname or alias.name] = f"{base}.{alias.name}"
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in aliases:
            taken[aliases[node.value.id]].add(node.attr)
    return aliases, taken


def taken_elsewhere(known: dict[str, Path]) -> Taken:
    """Return the names that files of the repository import from each module, or patch in it."""
    result: Taken = defaultdict(set)
    listed = ["git", "ls-files", "*.py", "*.pyi"]
    for name in subprocess.run(listed, cwd=ROOT, capture_output=True, text=True, check=True).stdout.split():
        text = (ROOT / name).read_text()
        aliases, taken = aliases_and_names(ast.parse(text), ".".join(Path(name).parent.parts), known)
        for module, names in taken.items():
            result[module] |= names
        for found in _PATCHED.finditer(text):
            if found[1] in aliases:
                result[aliases[found[1]]].add(found[2])
            elif found[3]:
                result[found[3]].add(found[4])
    return result


def bindings(tree: ast.Module) -> Iterator[str]:
    """Yield every name that a module binds anywhere, as often as it does."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
            yield node.id
        elif isinstance(node, ast.arg):
            yield node.arg
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.Import | ast.ImportFrom):
            for alias in node.names:
                yield (alias.asname or alias.name).split(".")[0]
        elif isinstance(node, ast.ExceptHandler | ast.MatchAs | ast.MatchStar) and node.name:
            yield node.name


def exported(path: Path) -> set[str]:
    """Return the names that the stub beside a package's file exports."""
    stub = path.with_suffix(".pyi")
    if path.name != "__init__.py" or not stub.exists():
        return set()
    statements = [node for node in ast.parse(stub.read_text()).body if isinstance(node, ast.ImportFrom)]
    return {alias.asname or alias.name for node in statements for alias in node.names}


def quoted_words(tree: ast.Module) -> set[str]:
    """Return the words in texts that may be types: arguments of ``cast``, annotations in quotes."""
    words: set[str] = set()
    for node in ast.walk(tree):
        texts: list[ast.expr | None] = []
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Name)
            and node.func.id in {"cast", "TypeVar"}
        ):
            texts = [*node.args[:1], *(keyword.value for keyword in node.keywords)]
        elif isinstance(node, ast.arg | ast.AnnAssign):
            texts = [node.annotation]
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            texts = [node.returns]
        for text in texts:
            for inner in ast.walk(text) if text is not None else ():
                if isinstance(inner, ast.Constant) and isinstance(inner.value, str):
                    words.update(re.findall(r"\w+", inner.value))
    return words


@dataclass
class Module:
    """One product module before the change."""

    name: str
    source: str
    known: dict[str, Path]
    taken: set[str]
    """Names that other files take from it, or patch in it."""

    def __post_init__(self) -> None:
        """Parse it."""
        self.tree = ast.parse(self.source)
        self.lines = self.source.split("\n")
        self.bound = list(bindings(self.tree))
        self.quoted = quoted_words(self.tree)

    def targets(self) -> dict[str, list[ast.ImportFrom]]:
        """Return the top-level statements by the module whose names they import."""
        chosen: dict[str, list[ast.ImportFrom]] = defaultdict(list)
        for node in self.tree.body:
            if not isinstance(node, ast.ImportFrom) or node.module not in self.known or node.level:
                continue
            excepted = any("noqa" in line for line in self.lines[node.lineno - 1 : node.end_lineno])
            if not excepted and all(f"{node.module}.{alias.name}" not in self.known for alias in node.names):
                chosen[node.module].append(node)
        return chosen

    def may_change(self, target: str, names: Sequence[ast.alias]) -> bool:
        """Return True if the module can import ``target`` itself in place of these names."""
        parent, _, short = target.rpartition(".")
        local = {alias.asname or alias.name for alias in names}
        within = unit(target) == unit(self.name) and len(names) < LEAST
        clash = hasattr(builtins, short) or short in self.bound or short.startswith("_")
        hidden = parent not in self.known or short in exported(self.known[parent])
        kept = any(self.bound.count(name) > 1 or name in self.taken | self.quoted for name in local)
        return not (target in VOCABULARY or within or clash or hidden or kept)

    def rewritten(self) -> tuple[str, dict[str, str]]:
        """Return the new source, and the dotted name of each name that is replaced."""
        dotted: dict[str, str] = {}
        raw = [line.encode() for line in self.lines]
        edits: list[tuple[int, int, int, bytes]] = []
        shorts: set[str] = set()
        order = sorted(self.targets().items(), key=lambda pair: -sum(len(node.names) for node in pair[1]))
        for target, nodes in order:
            parent, _, short = target.rpartition(".")
            names = [alias for node in nodes for alias in node.names]
            if short in shorts or not self.may_change(target, names):
                continue
            shorts.add(short)
            dotted |= {alias.asname or alias.name: f"{short}.{alias.name}" for alias in names}
            for node in nodes:
                edits += [(line, 0, -1, b"\0") for line in range(node.lineno + 1, (node.end_lineno or 0) + 1)]
                edits.append((node.lineno, 0, -1, f"from {parent} import {short}".encode()))
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Name) and node.id in dotted:
                end = node.end_col_offset or 0
                edits.append((node.lineno, node.col_offset, end, dotted[node.id].encode()))
        for number, start, end, text in sorted(edits, reverse=True):
            line = raw[number - 1]
            raw[number - 1] = line[:start] + text + (b"" if end < 0 else line[end:])
        return "\n".join(line.decode() for line in raw if line != b"\0"), dotted


def follow(text: str, dotted: dict[str, str]) -> str:
    """Replace names in a piece of code that need not parse."""
    names = "|".join(sorted(map(re.escape, dotted), key=len, reverse=True))
    pattern = re.compile(rf"(?<![\w.\"'])({names})(?![\w\"'])(?!=[^=])")
    return pattern.sub(lambda found: dotted[found[1]], text) if dotted else text


def as_written(text: str, source: str) -> str | None:
    """Return the one piece of ``source`` that equals ``text`` but for white space and trailing commas."""
    parts = re.findall(r"\w+|[^\w\s]", text)
    between = r"(?:\s|,(?=\s*[)\]}]))*"
    found = re.findall("(" + between.join(map(re.escape, parts)) + ")", source)
    return found[0] if len(found) == 1 else None


def rewrite_mutants(dotted: dict[str, dict[str, str]]) -> None:
    """Let the search and replacement texts of mutants follow; print those that need a person."""
    for path in sorted((ROOT / "tests" / "mutants").glob("*.toml")):
        text = path.read_text()
        for mutant in tomllib.loads(text)["mutant"]:
            source = (ROOT / mutant["file"]).read_text()
            names = dotted.get(mutant["file"], {})
            search, replace = follow(mutant["search"], names), follow(mutant["replace"], names)
            if source.count(search) != 1:
                found = as_written(search, source)
                if found is None:
                    print(f"{path.name}: {mutant['name']}: search text occurs {source.count(search)} times")
                    continue
                search = found
            for old, new in ((mutant["search"], search), (mutant["replace"], replace)):
                text = replaced_value(text, old, new, mutant["name"])
        path.write_text(text)


def replaced_value(text: str, old: str, new: str, name: str) -> str:
    """Replace one value in the TOML text of the mutant called ``name``."""
    if old == new:
        return text
    start = text.index(f'name = "{name}"')
    end = text.find("[[mutant]]", start)
    block = text[start : end if end > 0 else len(text)]
    for quote in ("'''\n", "'''", '"""\n', '"""', "'", '"'):
        close = quote.strip()
        for former, later in ((old, new), (old.replace("\\", "\\\\").replace('"', '\\"'), new)):
            if f"= {quote}{former}{close}" in block:
                mark = quote if len(close) == 3 or "\n" not in later else "'''"
                shut = mark.strip()
                block = block.replace(f"= {quote}{former}{close}", f"= {mark}{later}{shut}", 1)
                return text[:start] + block + (text[end:] if end > 0 else "")
    print(f"{name}: its text was not found in the file")
    return text


def main() -> int:
    """Rewrite the product and the mutants; print what needs a person."""
    known = modules()
    taken = taken_elsewhere(known)
    dotted = {}
    for name, path in known.items():
        if path.name != "__init__.py":
            source, changed = Module(name, path.read_text(), known, taken[name]).rewritten()
            path.write_text(source)
            dotted[str(path.relative_to(ROOT))] = changed
    ruff = str(ROOT / ".venv" / "bin" / "ruff")
    subprocess.run([ruff, "check", "--select", "I", "--fix", "-q", "securefl"], cwd=ROOT, check=False)
    subprocess.run([ruff, "format", "-q", "securefl"], cwd=ROOT, check=False)
    rewrite_mutants(dotted)
    return 0


if __name__ == "__main__":
    sys.exit(main())
