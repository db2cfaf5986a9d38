"""What ``securefl reproduce PAPER --list`` prints: a line a figure, or all of those that are named."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from rich.table import Table
from rich.text import Text

from parties.console import say
from securefl.report.console import Terminal
from securefl.reproduce.judging import Verdict, in_short

_GAP = 2
"""Between two columns."""
_LEAST = 12
"""Characters of a title, however narrow the terminal is."""


@dataclass(frozen=True, slots=True)
class Listed:
    """A figure at one scale."""

    panel: str
    title: str
    claim: str
    """What the paper says of it."""
    scale: str
    verdicts: Sequence[Verdict] | None
    """None: it was not run."""
    time: str
    """What the last run took; empty without one."""
    outdated: bool = False
    """Whether its file has changed since."""
    mark: str = ""
    """What a check of the result found, in a word behind the verdict."""

    @property
    def verdict(self) -> str:
        """The last one, in a few words."""
        if self.verdicts is None:
            return "not run"
        return in_short(self.verdicts) + (" (of an older figure file)" if self.outdated else "") + self.mark


def print_list(listed: Iterable[Listed]) -> None:
    """One line each; where the terminal is too narrow, titles are cut."""
    heads = ("figure", "what", "scale", "last verdict", "time")
    rows = [(one.panel, " ".join(one.title.split()), one.scale, one.verdict, one.time) for one in listed]
    widths = [max(map(len, column)) for column in zip(heads, *rows, strict=True)]
    terminal = Terminal()
    widths[1] = max(
        _LEAST, min(widths[1], terminal.width - sum(widths) + widths[1] - _GAP * (len(heads) - 1))
    )
    table = Table(box=None, pad_edge=False, show_edge=False)
    for head, width in zip(heads, widths, strict=True):
        table.add_column(head, no_wrap=True, overflow="ellipsis", width=width)
    for cells in rows:
        table.add_row(*map(Text, cells))
    terminal.print(table)


def print_details(listed: Iterable[Listed]) -> None:
    """Title, claim and every verdict with its numbers."""
    shown = ""
    for one in listed:
        if one.panel != shown:
            say(f"figure {one.panel}: {' '.join(one.title.split())}")
            say(f"  claim: {' '.join(one.claim.split())}")
            shown = one.panel
        say(f"  {one.scale} scale: {one.verdict}" + (f", {one.time}" if one.time else ""))
        for verdict in one.verdicts or ():
            say(f"    {verdict}")
