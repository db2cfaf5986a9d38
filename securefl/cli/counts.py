"""Reader of declared sample counts."""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from securefl.base.errors import ConfigError
from securefl.methods import weighting
from securefl.runtime import report

SHOWN = 30
_NOTHING = {"n/a", "na", "none", "null", "-", "?"}
_OTHER_MARKS = {";": "semicolons", "\t": "tabs", ",": "commas"}
"""Separators, or marks in large numbers, of files other than CSV with commas."""


@dataclass(frozen=True, slots=True)
class Declared:
    """Declared counts of one party."""

    name: str
    count: int
    """Samples, 1 to 2^31."""
    loss: float | None = None
    """Mean loss of a model on them, at least 0."""


@dataclass(frozen=True, slots=True)
class CountsFile:
    """Content of a file of declared counts."""

    parties: tuple[Declared, ...]
    heading: str | None
    """First line, if taken for a heading: it may be a mistyped count."""


def read_counts(path: Path) -> CountsFile:
    """Read a CSV file with ``count``, ``name,count`` or ``name,count,loss`` on each line.

    Empty lines, lines that begin with # and a heading of words are skipped. Unnamed parties get their line's
    number.

    Raises:
        ConfigError: unreadable, not CSV, no party, differing numbers of fields, a repeated name, a count
            outside [1, 2^31], or a loss that is not >= 0.
    """
    try:
        text = path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise ConfigError(
            str(path),
            f"cannot be read: {error.strerror}",
            "name an existing CSV file, or the directory of a run",
        ) from error
    except UnicodeDecodeError as error:
        raise ConfigError(
            str(path), "is not UTF-8 text", "save it as CSV in UTF-8, one line per party"
        ) from error
    found: dict[str, Declared] = {}
    width, heading = 0, None
    for number, fields in _lines(path, text):
        if not width and _are_words(fields[min(len(fields), 2) - 1 :]) and heading is None:
            heading = ",".join(fields)
            continue
        where = f"{path}, line {number}"
        width = width or len(fields)
        if len(fields) != width or not 1 <= width <= 3:
            raise ConfigError(
                where, _misfit(len(fields), width), "write count, or name,count, or name,count,loss"
            )
        name = fields[0] if width > 1 else f"line {number}"
        if name in found:
            raise ConfigError(where, f"names {name!r} a second time", "keep one line per party")
        loss = _loss(where, fields[2]) if width == 3 else None
        found[name] = Declared(name, _count(where, fields[min(width, 2) - 1]), loss)
    if not found:
        raise ConfigError(str(path), "holds no sample counts", "write one line per party, as in p00,1200")
    return CountsFile(tuple(found.values()), heading)


def _lines(path: Path, text: str) -> Iterator[tuple[int, Sequence[str]]]:
    reader = csv.reader(text.splitlines(), strict=True)
    try:
        for fields in reader:
            bare = [field.strip() for field in fields]
            if not any(bare) or bare[0].startswith("#"):
                continue
            yield reader.line_num, bare
    except csv.Error as error:
        where = f"{path}, line {max(1, reader.line_num)}"
        raise ConfigError(
            where, f"is not valid CSV: {error}", "write one line per party, as in p00,1200"
        ) from error


def _misfit(fields: int, width: int) -> str:
    has = f"has {report.count_of(fields, 'field')}"
    if fields == width or fields > 3:
        return has
    what = "names" if 1 in {fields, width} else "losses"
    return f"{has}, and the lines before have {width}: {what} belong on all lines or on none"


def _are_words(fields: Sequence[str]) -> bool:
    """Return True if the fields name columns, rather than missing or mistyped counts."""
    return not any(
        not field
        or any(char.isdigit() for char in field)
        or _is_number(field)
        or field.casefold() in _NOTHING
        or any(mark in field for mark in _OTHER_MARKS)
        for field in fields
    )


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _count(where: str, text: str) -> int:
    remedy = f"a whole number of samples, 1 to {weighting.MAX_COUNT}"
    if re.fullmatch(r"[0-9]{16,}", text):
        raise ConfigError(where, f"has a sample count of {len(text)} digits, more than the maximum", remedy)
    if not re.fullmatch(r"[+-]?[0-9]{1,15}", text):
        shown = text if len(text) <= SHOWN else f"{text[:SHOWN]}..."
        for mark, named in _OTHER_MARKS.items():
            if mark in text:
                raise ConfigError(
                    where, f"{shown!r} has {named} in it", "use commas between fields only: p00,1200"
                )
        raise ConfigError(
            where, f"{shown!r} is not a {'whole number' if _is_number(text) else 'number'}", remedy
        )
    count = int(text)
    if count < 1:
        raise ConfigError(where, f"declares {count} samples", remedy)
    if count > weighting.MAX_COUNT:
        raise ConfigError(where, f"declares {count:,} samples, more than the maximum", remedy)
    return count


def _loss(where: str, text: str) -> float:
    loss = float(text) if _is_number(text) else math.nan
    if not (math.isfinite(loss) and loss >= 0):
        raise ConfigError(where, f"has the loss {text!r}", "write a number of at least 0")
    return loss
