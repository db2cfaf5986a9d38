"""Extension of griffe: fences around the examples of docstrings; Markdown takes them for quotations."""

from __future__ import annotations

import re
from typing import Any

import griffe

EXAMPLE = re.compile(r"(?:^|(?<=\n))>>> .*(?:\n(?!\s*(?:\n|$)).*)*")
"""An example up to the next empty line; indented ones belong to a section of the docstring."""


class Doctests(griffe.Extension):
    """Fences the examples of each docstring."""

    def on_object(self, *, obj: griffe.Object, **kwargs: Any) -> None:
        """Rewrite the docstring of an object when it is loaded."""
        if obj.docstring is not None:
            obj.docstring.value = fenced(obj.docstring.value)


def fenced(text: str) -> str:
    """Return a docstring with fences around its examples."""
    return EXAMPLE.sub(lambda found: f"```python\n{found[0]}\n```", text)
