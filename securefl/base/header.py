"""Header of a run: at most eight lines, and an explanation with all sentences.

Features and scenario tables state the sentences. A short form that begins with a word in capitals is a
warning.
"""

from collections.abc import Iterator
from functools import partial
from typing import Final, NamedTuple

from securefl.base import text

WIDTH: Final = 100
"""Longest header line, characters."""
LINES: Final = ("run", "server", "tolerance", "faults", "privacy", "limits", "seed", "end")
"""Header lines, in order."""


class Sentence(NamedTuple):
    """Fact about a run."""

    line: str
    """One of :data:`LINES`."""
    short: str = ""
    """At most 12 words; empty if only the explanation has the fact."""
    more: str = ""
    """Continuation in the explanation."""

    @property
    def whole(self) -> str:
        """Sentence for the explanation."""
        return ": ".join(filter(None, self[1:]))

    @property
    def warns(self) -> bool:
        """True if a reader must act on the fact or know it."""
        return self.short[:2].isupper()


run, server, tolerance, faults, privacy, limits, seed, end = (partial(Sentence, at) for at in LINES)


class RunHeader(NamedTuple):
    """Facts about a run before its first round."""

    sentences: tuple[Sentence, ...] = ()
    name: str = ""
    """Run id; empty before there is one."""
    rounds: int = 1
    done: int = 0
    """Rounds that ended before a resume."""

    @property
    def lines(self) -> tuple[str, ...]:
        """At most eight lines of at most :data:`WIDTH` characters, warnings first in each."""
        shown = ((label, _shorts(found)) for label, found in self._by_line())
        return tuple(_fit_line(label, shorts) for label, shorts in shown if shorts)

    @property
    def explanation(self) -> tuple[str, ...]:
        """All sentences, by line."""
        rows = ((label, *(f"  {one.whole}" for one in found)) for label, found in self._by_line())
        return tuple(row for of_line in rows for row in of_line)

    def _by_line(self) -> Iterator[tuple[str, list[Sentence]]]:
        for line in LINES:
            found = [one for one in self.sentences if one.line == line]
            if found:
                yield f"run {self.name}" if self.name and line == "run" else line, found


def _shorts(found: list[Sentence]) -> list[str]:
    return [one.short for one in sorted(found, key=lambda one: not one.warns) if one.short]


def _fit_line(label: str, shorts: list[str]) -> str:
    for left in range(len(shorts)):
        rest = [f"{left} more (--explain)"] if left else []
        line = f"{label}: {'; '.join((*shorts[: len(shorts) - left], *rest))}"
        if len(line) <= WIDTH:
            break
    return text.printable(line, WIDTH)
