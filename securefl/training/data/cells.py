"""Cells of a table file, not yet checked."""

from __future__ import annotations

import csv
import io
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np

from securefl.base import text
from securefl.base.arrays import F64, I64
from securefl.base.errors import ConfigError
from securefl.training.data import files

LONGEST = 40
"""Characters of a cell that an error shows."""


class Words(NamedTuple):
    """Column of text: index of each row's word in ``vocabulary``, i64 ``(n,)``; -1 if missing."""

    codes: I64
    vocabulary: list[str]

    @classmethod
    def of(cls, column: list[str] | F64 | Words) -> Words:
        """Return any column as text: numbers without a fraction as integers, NaN as missing."""
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
    """Columns of one file: text, numbers (NaN if missing), or words."""

    path: Path
    columns: Mapping[str, list[str] | F64 | Words]
    rows: Sequence[int]
    """Line of each row in a text file, or its number from 1."""
    unit: str
    """``line`` or ``row``."""
    others: tuple[str, ...] = ()
    """Columns of the file that were not requested."""

    def place(self, row: int, column: str) -> str:
        """Return file, row and column, for an error."""
        return f"{self.path}, {self.unit} {self.rows[row]}, column {column!r}"


def show_cell(word: str) -> str:
    """Return a cell for an error, shortened."""
    return repr(word if len(word) <= LONGEST else word[: LONGEST - 3] + "...")


def positions(path: Path, header: Sequence[str], names: Sequence[str]) -> list[int]:
    """Return the indices of the columns ``names`` in ``header``.

    Raises:
        ConfigError: a column is missing or occurs twice.
    """
    for name in names:
        times = header.count(name)
        if times > 1:
            raise ConfigError(str(path), f"has {times} columns {name!r}", "rename one of them")
        if not times:
            raise ConfigError(str(path), f"has no column {name!r}", _remedy(name, header))
    return [header.index(name) for name in names]


def _remedy(name: str, header: Sequence[str]) -> str:
    alike = [one for one in header if unicodedata.normalize("NFC", one) == unicodedata.normalize("NFC", name)]
    if alike:
        # Files from macOS have decomposed letters, which look the same.
        return (
            f"the file writes it {alike[0]!a}, with other Unicode characters of the same letters: rename it"
        )
    delimiter = next((one for one in ";\t|" if len(header) == 1 and one in header[0]), "")
    if delimiter:
        written = "tab" if delimiter == "\t" else delimiter
        return f'the first line is {show_cell(header[0])}: declare delimiter = "{written}"'
    close = text.closest(name, header, 0.5)
    there = ", ".join(map(show_cell, header[:20])) + (", ..." if len(header) > 20 else "")
    return f"did you mean {close!r}?" if close else f"columns: {there or 'none'}"


def others_in(header: Sequence[str], names: Sequence[str]) -> tuple[str, ...]:
    """Return the columns that are not in ``names``."""
    return tuple(name for name in header if name not in set(names))


def read_csv(path: Path, names: Sequence[str], delimiter: str = ",") -> Cells:
    """Read the columns ``names`` as text from CSV, or ``.gz`` (RFC 4180, UTF-8, names in the first line).

    Raises:
        ConfigError: the file is missing, too large, not UTF-8, has no rows, lacks a column, or has a row of
            another length.
    """
    raw = files.read_unpacked(path, files.OWN)
    with _cells_up_to(len(raw)):
        return _cells_of(path, raw, names, delimiter)


@contextmanager
def _cells_up_to(length: int) -> Iterator[None]:
    """Allow cells up to the file's size; the csv module has one limit for the process."""
    before = csv.field_size_limit()
    csv.field_size_limit(max(before, length))
    try:
        yield
    finally:
        csv.field_size_limit(before)


def _cells_of(path: Path, raw: bytes, names: Sequence[str], delimiter: str) -> Cells:
    stream = io.TextIOWrapper(io.BytesIO(raw), encoding="utf-8-sig", newline="")
    reader = csv.reader(stream, delimiter=delimiter, strict=True)
    try:
        header = next(reader, [])
        if not header:
            raise ConfigError(str(path), "has no first line of column names", "add one, such as age,sex,ill")
        places = positions(path, header, names)
        columns: list[list[str]] = [[] for _ in names]
        lines: list[int] = []
        begins = reader.line_num + 1
        for row in reader:
            line, begins = begins, reader.line_num + 1
            if not row and len(header) > 1:
                continue  # an empty line
            cells = row or [""]
            if len(cells) != len(header):
                raise ConfigError(
                    f"{path}, line {line}",
                    f"has {len(cells)} cells, but the first line has {len(header)}",
                    f"quote cells that contain {delimiter!r}, or declare the delimiter",
                )
            for place, column in zip(places, columns, strict=True):
                column.append(cells[place])
            lines.append(line)
    except csv.Error as error:
        remedy = "save it as CSV with quotes around cells that contain quotes"
        raise ConfigError(f"{path}, line {reader.line_num}", f"is not valid CSV: {error}", remedy) from error
    except UnicodeDecodeError:
        raise _not_utf8(path, raw) from None
    if not lines:
        raise ConfigError(str(path), "has no rows below its first line", "add one row for each sample")
    return Cells(path, dict(zip(names, columns, strict=True)), lines, "line", others_in(header, names))


def _not_utf8(path: Path, raw: bytes) -> ConfigError:
    try:
        raw.decode("utf-8")
        start = len(raw)
    except UnicodeDecodeError as error:
        start = error.start
    line = raw.count(b"\n", 0, start) + 1
    return ConfigError(f"{path}, line {line}", "is not UTF-8 text", "save the file as CSV in UTF-8")
