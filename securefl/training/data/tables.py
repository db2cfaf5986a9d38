"""Tables from CSV and Parquet files, checked against the declarations."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal, get_args

import numpy as np
import numpy.typing as npt

from securefl import scenario
from securefl.base import narrowing, text
from securefl.base.arrays import F32, F64, I64, BoolArray
from securefl.base.errors import ConfigError
from securefl.training.data import parquet_cells
from securefl.training.data.cells import Cells, Words, read_csv, show_cell

_NUMBER: Final = re.compile(r"\s*[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?\s*", re.ASCII)
Incomplete = Literal["refuse", "drop", "keep"]


@dataclass(frozen=True, eq=False, repr=False)
class DataTable:
    r"""Columns of a file, in the requested order. See :func:`securefl.read_table`.

    Attributes:
        columns: by name; numbers as f64 ``(n,)``, categories as indices into the declared list, i64 ``(n,)``.
            Missing values that are kept are NaN, or -1.
        samples: number of rows, n.
        dropped: number of rows with a missing value that were left out.
        others: columns of the file that were not requested.

    >>> import pathlib, securefl
    >>> _ = pathlib.Path("ward.csv").write_text("age\n70\n50\n")
    >>> table = securefl.read_table("ward.csv", [securefl.Column(name="age", mean=60.0, deviation=10.0)])
    >>> table.matrix("age").tolist()
    [[1.0], [-1.0]]
    """

    columns: Mapping[str, F64 | I64]
    samples: int
    dropped: int
    others: tuple[str, ...]
    declared: Mapping[str, scenario.Column]
    source: str

    def __repr__(self) -> str:
        return f"DataTable(samples={self.samples}, columns={', '.join(self.columns)})"

    def __getitem__(self, name: str) -> F64 | I64:
        """Return the column ``name``.

        Raises:
            ConfigError: it was not requested.
        """
        if name not in self.columns:
            known = ", ".join(self.columns)
            raise ConfigError(self.source, f"has no column {name!r}", f"one of {known}")
        return self.columns[name]

    def matrix(self, *names: str) -> F32:
        """Return model inputs, f32 ``(n, k)``, of the columns ``names`` (all by default), in this order.

        Numbers are standardised by the declared constants. A column of k categories becomes k columns of 0
        and 1, all 0 for a missing value.

        Raises:
            ConfigError: no such column, or a number too large for 32 bits.
        """
        parts: list[npt.NDArray[np.floating]] = []
        for name in names or tuple(self.columns):
            values, column = self[name], self.declared[name]
            if column.categories:
                parts.append((values[:, None] == np.arange(len(column.categories))).astype(np.float32))
                continue
            with np.errstate(over="ignore"):
                scaled = ((values - column.mean) / column.deviation).astype(np.float32)
            if np.isinf(scaled).any():
                reason = "holds a number beyond the range of 32 bits"
                raise ConfigError(f"{self.source}, column {name!r}", reason, "declare mean and deviation")
            try:
                narrowing.check_f32((values - column.mean) / column.deviation, scaled)
            except narrowing.NarrowingError as error:
                where = f"{self.source}, column {name!r}"
                raise ConfigError(where, f"holds {error}", "declare mean and deviation") from error
            parts.append(scaled[:, None])
        return np.concatenate(parts, axis=1, dtype=np.float32)


def read_table(
    path: str | Path,
    columns: Iterable[str | scenario.Column],
    *,
    missing: Sequence[str] = ("",),
    incomplete: Incomplete = "refuse",
    delimiter: str = ",",
) -> DataTable:
    r"""Read the requested columns of a CSV or Parquet file; other columns are ignored.

    Args:
        path: ends in ``.parquet`` or ``.pq``; any other file is CSV in UTF-8 whose first line has the names,
            ``.gz`` compressed.
        columns: :class:`Column` objects, or names of columns of numbers.
        missing: words for a missing value in CSV; in Parquet it is null or NaN.
        incomplete: treatment of rows without a value for which no ``fill`` is declared: ``refuse`` the file,
            ``drop`` the row, or ``keep`` it with NaN or -1.
        delimiter: of CSV, one character or ``"tab"``.

    Raises:
        ConfigError: one line with file, row and column, reason and remedy.

    >>> import pathlib, securefl
    >>> _ = pathlib.Path("ward.csv").write_text("age,dose\n70,1.5\n50,2.5\n")
    >>> securefl.read_table("ward.csv", ["age"]).columns["age"].tolist()
    [70.0, 50.0]
    """
    if isinstance(columns, str | scenario.Column):
        columns = (columns,)
    declared = tuple(scenario.Column(name=one) if isinstance(one, str) else one for one in columns)
    scenario.check_columns(declared)
    if incomplete not in get_args(Incomplete):
        listed = ", ".join(get_args(Incomplete))
        raise ConfigError("incomplete", f"{incomplete!r} is not a choice", f"one of {listed}")
    character = "\t" if delimiter == "tab" else delimiter
    if len(character) != 1 or character in '"\r\n':
        raise ConfigError(
            "delimiter", f"{delimiter!r} is not a delimiter", 'set one character such as ";", or "tab"'
        )
    path, names = Path(path), tuple(column.name for column in declared)
    cells = (
        parquet_cells.read_parquet(path, names)
        if path.suffix in parquet_cells.PARQUET
        else read_csv(path, names, character)
    )
    return table_of(cells, declared, missing, incomplete)


def table_of(
    cells: Cells, declared: tuple[scenario.Column, ...], missing: Sequence[str], incomplete: Incomplete
) -> DataTable:
    """Check the columns of the cells and return them as a table.

    Raises:
        ConfigError: as for :func:`read_table`.
    """
    columns: dict[str, F64 | I64] = {}
    lacking = np.zeros(len(cells.rows), dtype=np.bool_)
    for column in declared:
        read = _categories if column.categories else _numbers
        values = read(cells, column, frozenset(missing))
        absent = np.isnan(values) if values.dtype == np.float64 else values < 0
        if incomplete == "refuse" and absent.any():
            raise ConfigError(
                cells.place(int(np.flatnonzero(absent)[0]), column.name),
                f"has no value, as have {absent.sum():,} of {len(absent):,} rows"
                if absent.sum() > 1
                else "has no value",
                'declare fill for the column, incomplete = "drop", or complete the file',
            )
        lacking |= absent
        columns[column.name] = values
    if incomplete == "drop" and lacking.any():
        columns = {name: values[~lacking] for name, values in columns.items()}
        if lacking.all():
            raise ConfigError(str(cells.path), "has a missing value in each row", "declare fill")
    dropped = int(lacking.sum()) if incomplete == "drop" else 0
    samples = len(lacking) - dropped
    by_name = {column.name: column for column in declared}
    return DataTable(columns, samples, dropped, cells.others, by_name, str(cells.path))


def _numbers(cells: Cells, column: scenario.Column, missing: frozenset[str]) -> F64:
    """Return a column as f64 ``(n,)``, NaN for a missing value without a declared fill."""
    read = cells.columns[column.name]
    if isinstance(read, Words):
        reason = f"holds text such as {show_cell(read.vocabulary[0])}" if read.vocabulary else "holds text"
        remedy = "declare categories, or store numbers"
        raise ConfigError(
            f"{cells.path}, column {column.name!r}", f"{reason}, but is declared as numbers", remedy
        )
    if isinstance(read, np.ndarray):
        values, absent = read.copy(), np.isnan(read)
    else:
        absent = np.array([cell in missing for cell in read], dtype=np.bool_)
        values = np.full(len(read), np.nan)
        for row in np.flatnonzero(~absent).tolist():
            if not _NUMBER.fullmatch(read[row]):
                raise ConfigError(
                    cells.place(row, column.name),
                    f"holds {show_cell(read[row])}, which is not a number",
                    "correct it, or declare categories (for words) or missing (for absent values)",
                )
            try:
                values[row] = _number(read[row])
            except narrowing.NarrowingError as error:
                remedy = "declare categories if it is an identifier, or round it"
                raise ConfigError(cells.place(row, column.name), f"holds {error}", remedy) from error
    _check_range(cells, column, values, ~absent)
    if column.fill is not None:
        values[absent] = float(column.fill)
    return values


def _number(written: str) -> float:
    """Return the number nearest to a decimal.

    Raises:
        NarrowingError: a whole number that f64 does not represent, or a number that it rounds to 0.
    """
    value = float(written)
    if abs(value) >= narrowing.EXACT_INTEGERS and written.strip().lstrip("+-").isdecimal():
        narrowing.check_whole(int(written))
    if value == 0 and any(digit in "123456789" for digit in re.split("[eE]", written)[0]):
        raise narrowing.NarrowingError(f"{written.strip()}, which 64 bits round to 0")
    return value


def _check_range(cells: Cells, column: scenario.Column, values: F64, present: BoolArray) -> None:
    infinite = np.flatnonzero(np.isinf(values))
    if len(infinite):
        where = cells.place(int(infinite[0]), column.name)
        raise ConfigError(where, "holds a number that is not finite", "correct the file")
    lower = -np.inf if column.lower is None else column.lower
    upper = np.inf if column.upper is None else column.upper
    beyond = np.flatnonzero(present & ~((values >= lower) & (values <= upper)))
    if len(beyond):
        raise ConfigError(
            cells.place(int(beyond[0]), column.name),
            f"holds {values[beyond[0]]:g}, outside {lower:g} to {upper:g}",
            "correct the file, or declare another range",
        )


def _categories(cells: Cells, column: scenario.Column, missing: frozenset[str]) -> I64:
    """Return a column as indices into its list of categories, i64 ``(n,)``, -1 for a missing value."""
    words = Words.of(cells.columns[column.name])
    place = {word: index for index, word in enumerate(column.categories)}
    unknown = len(place)
    as_text = not isinstance(cells.columns[column.name], Words | np.ndarray)
    missing = missing - place.keys() if as_text else frozenset()
    found = [place.get(word, -1 if word in missing else unknown) for word in words.vocabulary]
    values = np.array([*found, -1], dtype=np.int64)[words.codes]
    wrong = np.flatnonzero(values == unknown)
    if len(wrong):
        word = words.vocabulary[int(words.codes[wrong[0]])]
        close = text.closest(word, column.categories)
        listed = ", ".join(column.categories[:12]) + (", ..." if len(column.categories) > 12 else "")
        raise ConfigError(
            cells.place(int(wrong[0]), column.name),
            f"holds {show_cell(word)}, which is not one of the declared {listed}",
            f"did you mean {close}?" if close else "add it to the categories, or correct the file",
        )
    if column.fill is not None:
        values[values < 0] = column.categories.index(str(column.fill))
    return values
