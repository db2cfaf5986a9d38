"""Writes docs/api.md and docs/fields.md from docstrings; ``--check`` only compares."""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import securefl

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from tools import fields  # noqa: E402 - from this checkout

DOCS = ROOT / "docs"


def entry(name: str, found: object, level: int = 2) -> Iterator[str]:
    """Yield the lines of one name; of a module also those of its members, a level down."""
    if isinstance(found, str):
        return
    yield f"{'#' * level} `{name}`"
    yield ""
    if inspect.isfunction(found):
        yield from ("```python", f"{name}{signature(found)}", "```", "")
    yield from (inspect.getdoc(found) or "").splitlines()
    yield ""
    if inspect.ismodule(found):
        for member in found.__all__:
            yield from entry(f"{name}.{member}", getattr(found, member), level + 1)
    if inspect.isclass(found):
        for member, value in vars(found).items():
            inner = value.fget if isinstance(value, property) else value
            if member.startswith("_") or not inspect.isfunction(inner) or not inspect.getdoc(inner):
                continue
            shown = f"{member}{signature(inner)}" if inspect.isfunction(value) else member
            yield f"**`{shown}`** {(inspect.getdoc(inner) or '').splitlines()[0]}"
            yield ""


def signature(function: object) -> str:
    """Parameters with their types, as in the source, without ``self``."""
    made = inspect.signature(function)  # type: ignore[arg-type]
    kept = [
        each.replace(annotation=_Written(each.annotation)) if isinstance(each.annotation, str) else each
        for each in made.parameters.values()
        if each.name != "self"
    ]
    returned = made.return_annotation
    bare = _Written(returned) if isinstance(returned, str) else returned
    return str(made.replace(parameters=kept, return_annotation=bare))


_MODULES = sorted(
    path.stem for path in Path(securefl.__file__).parent.rglob("[a-z]*") if path.suffix in {"", ".py"}
)


class _Written(str):
    """An annotation shown without quotes, and without the modules of the product that its types are from."""

    __slots__ = ()

    def __repr__(self) -> str:
        return re.sub(rf"(?<![\w.])(?:{'|'.join(_MODULES)})\.(?=[A-Z])", "", self)


def page() -> str:
    """The whole page."""
    lines = [
        "# Reference of the Python API",
        "",
        "Made from the docstrings by `python tools/reference.py`.",
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
