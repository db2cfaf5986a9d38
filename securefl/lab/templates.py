"""Templates beside the modules of a package, rendered by Jinja2."""

from collections.abc import Callable
from importlib.resources.abc import Traversable
from typing import Any


def render(template: Traversable, *, escape: Callable[[object], object] | None = None, **values: Any) -> str:
    """Return a template's text with its values.

    Args:
        template: a file ``.html``, whose values are escaped as HTML, or of another kind.
        escape: applied to each value of another kind.
        values: by name; the template may use no others.
    """
    from jinja2 import Environment, StrictUndefined  # noqa: PLC0415 - 50 ms, for commands with templates

    environment = Environment(
        autoescape=template.name.endswith(".html"),
        finalize=escape,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    return environment.from_string(template.read_text(encoding="utf-8")).render(**values)
