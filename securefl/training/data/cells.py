"""Cells of a table as a file has them, before anything is declared about them."""

from __future__ import annotations

import difflib
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np

from securefl.base.arrays import F64, I64
from securefl.base.errors import ConfigError

LONGEST = 40
"""Characters of a cell that an error shows."""


class Words(NamedTuple):
    """A column of text: the place of each row's word in ``vocabulary``, i64 ``(n,)``; -1 is none."""

    codes: I64
    vocabulary: list[str]

    @classmethod
    def of(cls, column: list[str] | F64 | Words) -> Words:
        """Any column as text; numbers without a fraction as integers, NaN as none."""
        if isinstance(column, Words):
            return column
        if isinstance(column, np.ndarray):
            values, codes = np.unique(column, return_inverse=True)
            words = [str(int(one)) if float(one).is_integer() else repr(float(one)) for one in values]
            return cls(np.where(np.isnan(column), -1, codes).astype(np.int64), words)
        place: dict[str, int] = {}
        codes = np.fromiter((place.setdefault(word, len(place)) for word in column), np.int64, len(column))
        return cls(codes, list(place))


@dataclass(frozen=True, eq=False, repr=False)
class Cells:
    """Columns of one file: text of each row, or numbers (NaN is none), or words."""

    path: Path
    columns: Mapping[str, list[str] | F64 | Words]
    rows: Sequence[int]
    """What people call each row: its line in a text file, its number from 1."""
    unit: str
    """``line`` or ``row``."""
    others: tuple[str, ...] = ()
    """Columns that were not asked for."""

    def place(self, row: int, column: str) -> str:
        """File, row and column, for an error."""
        return f"{self.path}, {self.unit} {self.rows[row]}, column {column!r}"


def shown(word: str) -> str:
    """A cell in an error, shortened."""
    return repr(word if len(word) <= LONGEST else word[: LONGEST - 3] + "...")


def positions(path: Path, header: Sequence[str], names: Sequence[str]) -> list[int]:
    """Where in ``header`` the columns ``names`` are.

    Raises:
        ConfigError: one is not there, or there twice.
    """
    for name in names:
        times = header.count(name)
        if times > 1:
            raise ConfigError(str(path), f"has {times} columns {name!r}", "rename one of them")
        if not times:
            raise ConfigError(str(path), f"has no column {name!r}", _remedy(name, header))
    return [header.index(name) for name in names]


def _remedy(name: str, header: Sequence[str]) -> str:
    """Return what to do about a column that is missing in a header."""
    alike = [one for one in header if unicodedata.normalize("NFC", one) == unicodedata.normalize("NFC", name)]
    if alike:
        # Both look the same on a screen; files from macOS have decomposed letters.
        return f"the file writes it {alike[0]!a}, other code points of the same letters: rename it"
    delimiter = next((one for one in ";\t|" if len(header) == 1 and one in header[0]), "")
    if delimiter:
        written = "tab" if delimiter == "\t" else delimiter
        return f'its first line is {shown(header[0])}: declare delimiter = "{written}"'
    close = difflib.get_close_matches(name, header, n=1, cutoff=0.5)
    there = ", ".join(map(shown, header[:20])) + (", ..." if len(header) > 20 else "")
    return f"did you mean {close[0]!r}?" if close else f"it has {there or 'none'}"


def others_in(header: Sequence[str], names: Sequence[str]) -> tuple[str, ...]:
    """The columns that are none of ``names``."""
    return tuple(name for name in header if name not in set(names))
