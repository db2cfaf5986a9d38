"""Parts of the page: sections, and the blocks in them. The template renders each kind of block."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal, Protocol

from securefl.base.text import count

_NUMBER: Final = re.compile(r"-|-?[\d.,e+-]+( (s|min|h|B|kB|MB|GB|%))?")
_MOST_OPEN: Final = 16
"""Rows of a table above which it opens on request."""
_NARROW: Final = 36
"""Characters across a table that fits a chart's width."""
Tone = Literal["good", "note", "warning", "bad"]
"""Judgement of a number or a sentence, shown by a colour and a word."""


class PageBlock(Protocol):
    """Block of a section. ``kind`` names its macro in the template."""

    @property
    def kind(self) -> str:
        """Name of the macro."""
        ...


@dataclass(frozen=True, slots=True)
class Tile:
    """One number with its label, as a tile."""

    label: str
    value: str
    detail: str = ""
    tone: Tone = "note"


@dataclass(frozen=True, slots=True)
class Tiles:
    """Tiles side by side."""

    tiles: tuple[Tile, ...]
    kind: str = "tiles"


@dataclass(frozen=True, slots=True)
class Paragraph:
    """One paragraph."""

    text: str
    tone: Tone = "note"
    kind: str = "paragraph"


@dataclass(frozen=True, slots=True)
class PageTable:
    """Table. Columns of numbers are aligned at the right."""

    title: str
    columns: tuple[str, ...]
    rows: Sequence[Sequence[str]]
    folded: bool = False
    """True if the table opens on request."""
    kind: str = "table"

    @property
    def folds(self) -> bool:
        """True if the table opens on request, as a long one always does."""
        return self.folded or len(self.rows) > _MOST_OPEN

    @property
    def length(self) -> str:
        """Number of rows, with its noun."""
        return count(len(self.rows), "row")

    @property
    def narrow(self) -> bool:
        """True if the table fits beside a chart."""
        widths = (max(map(len, column)) for column in zip(self.columns, *self.rows, strict=True))
        return sum(widths) <= _NARROW

    @property
    def numeric(self) -> tuple[bool, ...]:
        """True for each column whose cells are all numbers, perhaps with a unit, or a dash."""
        cells = zip(*self.rows, strict=True) if self.rows else ((),) * len(self.columns)
        return tuple(bool(column) and all(map(_NUMBER.fullmatch, column)) for column in cells)


@dataclass(frozen=True, slots=True)
class Chart:
    """Drawing with a caption and the same numbers as a table."""

    title: str
    svg: str
    """Trusted markup of :mod:`securefl.lab.run_page.charts`."""
    text: str
    """Description for readers who do not see the drawing."""
    table: PageTable | None = None
    note: str = ""
    wide: bool = False
    kind: str = "chart"


@dataclass(frozen=True, slots=True)
class CodeBlock:
    """Preformatted text, opened on request."""

    title: str
    text: str
    kind: str = "code"


@dataclass(frozen=True, slots=True)
class PageSection:
    """Section of the page, with a link in its navigation."""

    key: str
    title: str
    blocks: tuple[PageBlock, ...] = ()
    tone: Tone | None = None
    """Worst judgement in the section; None if it judges nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """Content of the page."""

    name: str
    subtitle: str
    verdict: str
    tone: Tone
    tiles: Tiles
    sections: tuple[PageSection, ...]
    version: str
    reload_seconds: int | None = None
    """Period of reloading while the run is unfinished."""
