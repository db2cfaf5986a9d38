"""Shrinking a list that breaks something to fewer items that do: delta debugging (Zeller, Hildebrandt 2002).

Runs are not deterministic: a list counts as one that breaks if it breaks once in so many tries as the caller
spends, and the number of runs is bounded. What is left is a list that did break, not the smallest there is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import TypeVar

ItemT = TypeVar("ItemT")


class _SpentError(Exception):
    """No run is left."""


def ddmin(
    items: Sequence[ItemT], breaks: Callable[[tuple[ItemT, ...]], bool], most: int
) -> tuple[tuple[ItemT, ...], int]:
    """A part of ``items`` that breaks, and the number of calls that it took.

    Args:
        items: which break.
        breaks: whether these do; never called with all of them.
        most: calls.
    """
    calls = 0
    left = tuple(items)

    def tried(part: tuple[ItemT, ...]) -> bool:
        nonlocal calls
        if calls >= most:
            raise _SpentError
        calls += 1
        return breaks(part)

    pieces = 2
    try:
        if tried(()):
            return (), calls
        while len(left) > 1:
            smaller = _smaller(left, pieces, tried)
            if smaller is not None:
                left, pieces = smaller, max(2, pieces - 1) if len(smaller) > 1 else 2
            elif pieces >= len(left):
                break
            else:
                pieces = min(len(left), 2 * pieces)
    except _SpentError:
        pass
    return left, calls


def _smaller(
    items: tuple[ItemT, ...], pieces: int, breaks: Callable[[tuple[ItemT, ...]], bool]
) -> tuple[ItemT, ...] | None:
    """One of so many pieces, or all but one, that still breaks."""
    bounds = [len(items) * number // pieces for number in range(pieces + 1)]
    parts = [items[start:end] for start, end in pairwise(bounds)]
    rest = [items[:start] + items[end:] for start, end in pairwise(bounds)]
    candidates = parts if pieces == 2 else [*parts, *rest]
    return next((part for part in candidates if part and part != items and breaks(part)), None)
