"""The heap of a process that goes on for very many rounds.

CPython looks for garbage among all objects only once those that came since are a quarter of them. Libraries
bring half a million, so that would be after ten thousand rounds, and by then its lists of free objects and
what is in cycles have grown by a kilobyte a round.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

_OBJECTS: Final = 700
"""New objects before a collection, at most: Python 3.13 waits for 2,000."""
_YOUNG: Final = 5
_OLD: Final = 1
"""Collections of younger objects before one of older ones, 10 and 10 unless said: now that these are few."""


@contextmanager
def settled() -> Iterator[None]:
    """Inside, what is there already is no garbage, and all that comes is looked at often."""
    before, frozen = gc.get_threshold(), gc.get_freeze_count()
    gc.freeze()
    gc.set_threshold(min(before[0], _OBJECTS), _YOUNG, _OLD)
    # From here on it counts how many objects there are.
    gc.collect()
    try:
        yield
    finally:
        gc.set_threshold(*before)
        if not frozen:
            gc.unfreeze()
