"""Formatting of lines for people: counts, percentages, plurals; paths that stay on a machine."""

from __future__ import annotations

import re
from typing import Final

_FOLDERS: Final = re.compile(r"(?<![\w:/])(?:~|\.{1,2})?/(?:[^\s/:;,'\"()]+/)*(?=[^\s/:;,'\"()]+)")
"""The folders of a path, up to the last part; not those of a URL."""


def count(number: int, noun: str) -> str:
    """``number`` of what ``noun`` names, with an s but for one."""
    return f"{number} {noun}" + ("" if number == 1 else "s")


def percent(probability: float) -> str:
    """Three digits near 0 and near 1, where the difference matters."""
    if 0 < probability < 1e-4:
        return f"{probability:.1e}"
    if 1 - 1e-4 < probability < 1:
        return f"1 - {1 - probability:.1e}"
    return f"{100 * probability:.3g} %"


def without_folders(text: str) -> str:
    """Return ``text`` with the last part of each path alone: folders are this machine's own affair."""
    return _FOLDERS.sub("", text)
