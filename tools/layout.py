"""Checks the layout of ``securefl``: wings, units, and what units take from each other (docs/adr/0040).

A wing is a package directly in ``securefl``; a unit a package or module directly in a wing, or one of
the wings that are one: ``cli`` and ``scenario``. Four rules, three of them for every import in
product code, also those in functions and under ``TYPE_CHECKING``:

1. Wings import downward: cli > lab > runtime > training > protocol > methods > scenario > base.
2. Units of one wing import each other without a circle, and so do the modules of a unit.
3. Of another unit that is a package only what its stub ``__init__.pyi`` exports.
4. A public class has a name of its own; ``SHARED`` holds the exceptions.

A fifth rule is about calls: ``protocol`` and ``methods`` do without builtin ``sum``, whose result for floats
depends on the version of Python (docs/adr/0059).

``python tools/layout.py`` checks; ``--table`` prints who imports whom, with numbers of imports.
"""

from __future__ import annotations

import argparse
import ast
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

ROOT = Path(__file__).parents[1]
WINGS = ("cli", "lab", "runtime", "training", "protocol", "methods", "scenario", "base")
WHOLE = ("cli", "scenario")
"""Wings that are one unit."""
SHARED = {
    **dict.fromkeys(("Advertised", "Ended", "Step", "Submitted"), "phases"),
    "SecureSum": "table and port",
}
"""Class names that may stand twice. Phases of several machines (client, member, party, server, dealer) are
named alike where they mean the same step of the protocol; no module has two machines."""
SAME_BITS = ("securefl.protocol", "securefl.methods")
"""Wings that several machines repeat: their results must not depend on the version of Python."""
FACES = (
    "securefl",
    "securefl.__main__",
    "securefl._api",
    "securefl._runs",
    "securefl._result",
    "securefl.rules",
    "securefl.sections",
    "securefl.attacks",
)
"""The package itself, and the program. They may take from any wing, and no wing from them."""


@dataclass(frozen=True)
class Import:
    """``name`` (None: the module itself) of ``target``, imported by ``consumer``; all dotted."""

    consumer: str
    target: str
    name: str | None
    line: int


def modules(root: Path) -> dict[str, Path]:
    """Product modules by dotted name."""
    found = {}
    for path in sorted((root / "securefl").rglob("*.py")):
        parts = path.relative_to(root).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def imports(known: dict[str, Path]) -> Iterator[Import]:
    """Yield the imports between product modules, in functions and for types only, too.

    A unit that is a package and is imported itself counts once for each of its names that the consumer uses.
    """
    for consumer, path in known.items():
        tree = ast.parse(path.read_text())
        packages: dict[str, Import] = {}
        for local, each in _statements(consumer, tree, known):
            if each.name is None and each.target == unit_of(each.target) and _is_package(each.target, known):
                packages[local] = each
            else:
                yield each
        for node in ast.walk(tree):
            if (
                isinstance(node, ast.Attribute)
                and isinstance(node.value, ast.Name)
                and node.value.id in packages
            ):
                target, name = packages[node.value.id].target, node.attr
                inner = f"{target}.{name}"
                found = (inner, None) if inner in known else (target, name)
                yield Import(consumer, found[0], found[1], node.lineno)


def _statements(consumer: str, tree: ast.Module, known: dict[str, Path]) -> Iterator[tuple[str, Import]]:
    """Yield each import of one module, as written, with the name that it binds."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name in known:
                    yield alias.asname or alias.name, Import(consumer, alias.name, None, node.lineno)
        elif isinstance(node, ast.ImportFrom) and node.module in known:
            for alias in node.names:
                full, local = f"{node.module}.{alias.name}", alias.asname or alias.name
                target, name = (full, None) if full in known else (node.module, alias.name)
                yield local, Import(consumer, target, name, node.lineno)


def _is_package(module: str, known: dict[str, Path]) -> bool:
    return known[module].name == "__init__.py"


def unit_of(module: str) -> str:
    """Return the unit that ``module`` belongs to."""
    parts = module.split(".")
    return ".".join(parts[:2] if parts[1:2] and parts[1] in WHOLE else parts[:3])


def exported(unit: str, known: dict[str, Path]) -> dict[str, str]:
    """Return the names of a unit's stub, and the module of each; empty without a stub."""
    stub = known[unit].with_suffix(".pyi")
    if known[unit].name != "__init__.py" or not stub.exists():
        return {}
    return {
        alias.asname or alias.name: f"{unit}.{node.module}" if node.module else f"{unit}.{alias.name}"
        for node in ast.parse(stub.read_text()).body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }


def complaints(known: dict[str, Path]) -> Iterator[str]:
    """Yield a line for each import that breaks a rule, and for each export that nobody can have or takes."""
    exports = {unit: exported(unit, known) for unit in set(map(unit_of, known))}
    siblings: dict[str, set[str]] = defaultdict(set)
    insides: dict[str, dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    taken: set[tuple[str, str]] = set()
    for each in imports(known):
        source, unit = unit_of(each.consumer), each.target if each.target in exports else unit_of(each.target)
        if each.consumer in FACES:
            taken.add((unit, each.name or ""))
        if source == unit_of(each.target):
            # A name of the unit itself stands for the module that its stub takes it from.
            insides[source][each.consumer].add(exports[source].get(each.name or "", each.target))
        if source == unit or each.consumer in FACES:
            continue
        where = f"{known[each.consumer].relative_to(ROOT)}:{each.line}"
        if height(unit) < height(source):
            yield f"{where}: {source} imports upward, from {unit}"
        elif height(unit) == height(source):
            siblings[source].add(unit)
        if known[unit].name == "__init__.py":
            name = each.name if each.target == unit else _named_like_its_module(each, unit)
            taken.add((unit, name or ""))
            if name not in exports[unit]:
                yield f"{where}: {each.target}{f'.{each.name}' if each.name else ''} is private to {unit}"
    yield from _circles("units", siblings)
    for inside in insides.values():
        yield from _circles("modules", inside)
    yield from _idle(exports, taken, known)
    yield from _namesakes(known)
    yield from sum_complaints(known)


def builtin_sums(source: str) -> Iterator[int]:
    """Yield the lines that use the builtin ``sum``, as a call or as a value, or import ``builtins``."""
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Name(id="sum", ctx=ast.Load()) | ast.ImportFrom(module="builtins"):
                yield node.lineno
            case ast.Import() if any(alias.name == "builtins" for alias in node.names):
                yield node.lineno
            case _:
                pass


def sum_complaints(known: dict[str, Path]) -> Iterator[str]:
    """Yield a line for each builtin ``sum`` of the wings whose results must have the same bits everywhere."""
    for module, path in known.items():
        if module.startswith(SAME_BITS):
            for line in builtin_sums(path.read_text()):
                yield (
                    f"{path.relative_to(ROOT)}:{line}: builtin sum depends on the version of Python:"
                    " math.fsum for floats, securefl.base.sums.exact_sum for integers"
                )


def _namesakes(known: dict[str, Path]) -> Iterator[str]:
    """Yield a line for each public class whose name another module's class has."""
    homes: dict[str, list[str]] = defaultdict(list)
    for module, path in known.items():
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                homes[node.name].append(module)
    for name, modules_ in homes.items():
        if len(modules_) > 1 and name not in SHARED:
            yield f"{modules_[1]}: a class {name} is in {modules_[0]}, too"
    for name in SHARED.keys() - {name for name, modules_ in homes.items() if len(modules_) > 1}:
        yield f"tools/layout.py: no two classes are called {name}"


def _idle(
    exports: dict[str, dict[str, str]], taken: set[tuple[str, str]], known: dict[str, Path]
) -> Iterator[str]:
    """Yield a line for each export that is not there, or that nobody takes; users take those of the face."""
    wanted = taken | {(unit_of(module), name) for name, module in exports["securefl"].items()}
    for unit, names in exports.items():
        for name, module in names.items():
            if module not in known:
                yield f"{unit}: its stub takes {name} from {module}, which is not there"
            elif f"{unit}.{name}" in known and module != f"{unit}.{name}":
                yield f"{unit}: {name} of {module} has another module's name, and would be hidden by it"
            elif (unit, name) not in wanted and unit != "securefl":
                yield f"{unit}: nobody takes {name}, which its stub exports"


def _named_like_its_module(each: Import, unit: str) -> str | None:
    """Return the meaning in the stub of a name that is a module's, too; None for a private module."""
    package, _, leaf = each.target.rpartition(".")
    return leaf if package == unit and each.name is None else None


def _circles(kind: str, imported: dict[str, set[str]]) -> Iterator[str]:
    """Yield a line if units or modules (``kind``) import each other in a circle."""
    try:
        TopologicalSorter(imported).prepare()
    except CycleError as error:
        yield f"{kind} import each other in a circle: {' < '.join(error.args[1])}"


def height(unit: str) -> int:
    """Return the number of the unit's wing, from the top; -1 for the package itself and what is no wing's."""
    wing = (*unit.split("."), "")[1]
    return WINGS.index(wing) if wing in WINGS else -1


def table(known: dict[str, Path]) -> Iterator[str]:
    """Yield rows of Markdown: each unit, its modules and exports, and the units that it takes from."""
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for each in imports(known):
        if unit_of(each.consumer) != unit_of(each.target):
            counts[unit_of(each.consumer)][unit_of(each.target)] += 1
    sizes = Counter(map(unit_of, known))
    yield "| unit | modules | exports | takes from (imports) |"
    yield "| --- | ---: | ---: | --- |"
    for unit in sorted(sizes, key=lambda name: (height(name), name)):
        from_ = ", ".join(f"{other.removeprefix('securefl.')} {n}" for other, n in counts[unit].most_common())
        names = len(exported(unit, known)) or ""
        yield f"| {unit.removeprefix('securefl.')} | {sizes[unit]} | {names} | {from_} |"
    edges = sum(len(row) for row in counts.values())
    yield f"\n{len(sizes)} units, {edges} pairs, {sum(sum(row.values()) for row in counts.values())} imports."


def main() -> int:
    """Check, or print the table; exit code 1 where a rule is broken."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--table", action="store_true", help="print who imports whom")
    known = modules(ROOT)
    if parser.parse_args().table:
        print("\n".join(table(known)))
        return 0
    found = sorted(set(complaints(known)))
    for line in found:
        print(line)
    print(f"layout: {len(known)} modules, {len(found)} complaints")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
