"""Writes docs/api.md from the docstrings of the public names; ``--check`` only compares."""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import securefl

PAGE = Path(__file__).parents[1] / "docs" / "api.md"


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
    if "--check" in sys.argv:
        sys.exit(0 if PAGE.read_text() == page() else f"{PAGE} is stale: python tools/reference.py")
    PAGE.write_text(page())
