"""Which refusals get a line of their own in a transcript: a flood of frames must not fill the disk."""

from __future__ import annotations

from collections import Counter
from typing import Final

MOST_OF_ONE: Final = 32
"""Lines a round about one culprit ..."""
MOST: Final = 512
"""... and about all of them. The others are counted, and get a line together when the round ends."""
_CULPRITS: Final = 256
"""Culprits told apart among those that are counted: who delivers a frame may call itself anything."""
_OTHERS: Final = "others"


class RefusalLines:
    """The refusals of a round: the first ones are written, the rest is counted."""

    def __init__(self) -> None:
        self._written: Counter[str] = Counter()
        self._counted: dict[str, tuple[str, int]] = {}

    def take(self, culprit: str, reason: str) -> bool:
        """Whether this one is to be written; otherwise it is counted."""
        if self._written.total() < MOST and self._written[culprit] < MOST_OF_ONE:
            self._written[culprit] += 1
            return True
        known = culprit in self._counted or len(self._counted) < _CULPRITS
        name = culprit if known else _OTHERS
        _, times = self._counted.get(name, ("", 0))
        self._counted[name] = reason, times + 1
        return False

    def settle(self) -> list[tuple[str, str, int]]:
        """End the round: culprit, last reason and number of what was counted and not written."""
        counted = [(culprit, reason, times) for culprit, (reason, times) in self._counted.items()]
        self._written.clear()
        self._counted.clear()
        return counted
