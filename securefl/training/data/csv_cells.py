"""Cells of CSV files (RFC 4180): UTF-8, the names of the columns in the first line, gzipped or not."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from securefl.base.errors import ConfigError
from securefl.training.data import files
from securefl.training.data.cells import Cells, others_in, positions


def read_csv(path: Path, names: Sequence[str], delimiter: str = ",") -> Cells:
    """The columns ``names`` of the file ``path``, as text.

    Raises:
        ConfigError: the file is missing, too large, not UTF-8, has no rows, lacks a column, or has a row
            with more or fewer cells than the first line; names file and line.
    """
    raw = files.read_unpacked(path, files.OWN)
    with _cells_up_to(len(raw)):
        return _cells_of(path, raw, names, delimiter)


@contextmanager
def _cells_up_to(length: int) -> Iterator[None]:
    """Let cells be as long as a file, whose size is bounded; the csv module has one limit for the process."""
    before = csv.field_size_limit()
    csv.field_size_limit(max(before, length))
    try:
        yield
    finally:
        csv.field_size_limit(before)


def _cells_of(path: Path, raw: bytes, names: Sequence[str], delimiter: str) -> Cells:
    text = io.TextIOWrapper(io.BytesIO(raw), encoding="utf-8-sig", newline="")
    reader = csv.reader(text, delimiter=delimiter, strict=True)
    try:
        header = next(reader, [])
        if not header:
            raise ConfigError(str(path), "begins with no line of column names", "one, such as age,sex,ill")
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
                    f"has {len(cells)} cells, the first line has {len(header)}",
                    f"quote cells that contain {delimiter!r}, or declare the delimiter",
                )
            for place, column in zip(places, columns, strict=True):
                column.append(cells[place])
            lines.append(line)
    except csv.Error as error:
        remedy = "save it as CSV with quotes around cells that contain quotes"
        raise ConfigError(f"{path}, line {reader.line_num}", f"is no CSV: {error}", remedy) from error
    except UnicodeDecodeError:
        raise _not_utf8(path, raw) from None
    if not lines:
        raise ConfigError(str(path), "has no rows below its first line", "a row for each sample")
    return Cells(path, dict(zip(names, columns, strict=True)), lines, "line", others_in(header, names))


def _not_utf8(path: Path, raw: bytes) -> ConfigError:
    try:
        raw.decode("utf-8")
        start = len(raw)
    except UnicodeDecodeError as error:
        start = error.start
    line = raw.count(b"\n", 0, start) + 1
    return ConfigError(f"{path}, line {line}", "is not UTF-8 text", "save the file as CSV in UTF-8")
