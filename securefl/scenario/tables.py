"""Columns of CSV and Parquet tables: features and label (docs/data.md)."""

from collections import Counter
from typing import Annotated, Literal

from msgspec import Meta

from securefl.base.errors import ConfigError
from securefl.scenario import section

ColumnName = Annotated[str, Meta(min_length=1)]


class Column(section.Section, frozen=True, kw_only=True):
    """One column of a table: numbers, or words from a list. Its constants are declared, not computed.

    >>> import securefl
    >>> securefl.Column(name="age", mean=60.0, deviation=12.0).width
    1
    >>> securefl.Column(name="ward", categories=("north", "south", "west")).width
    3
    """

    name: ColumnName
    """Name in the file's first line or schema."""
    categories: tuple[str, ...] = ()
    """Words of the column; each becomes an input of 0 or 1. Empty: numbers."""
    mean: float = 0.0
    """Numbers become ``(value - mean) / deviation``."""
    deviation: section.PositiveReal = 1.0
    """Divisor of numbers; see ``mean``."""
    lower: float | None = None
    """Smallest number; a smaller one is an error."""
    upper: float | None = None
    """Largest number; a larger one is an error."""
    fill: float | str | None = None
    """Replacement of a missing value."""

    @property
    def width(self) -> int:
        """Number of model inputs of the column."""
        return len(self.categories) or 1


class TableSchema(section.Section, frozen=True, kw_only=True):
    """Columns of tables, the same for all parties.

    >>> from securefl.sections import TableSchema
    >>> from securefl import Column
    >>> TableSchema(label="died", features=(Column(name="age"),)).delimiter
    ','
    """

    label: ColumnName
    """Column of the class, one of ``data.classes``."""
    features: tuple[Column, ...]
    """Columns in the order of the model's inputs."""
    missing: tuple[str, ...] = ("",)
    """Words for a missing value in CSV."""
    incomplete: Literal["refuse", "drop"] = "refuse"
    """Treatment of a row with a missing value that has no ``fill``."""
    delimiter: Literal[",", ";", "|", "tab"] = ","
    """Delimiter of CSV."""


def check_columns(columns: tuple[Column, ...], where: str = "columns") -> None:
    """Check that columns do not contradict themselves or each other.

    Raises:
        ConfigError: they do; it names the column by its index in ``where``.
    """
    if not columns:
        raise ConfigError(
            where, "is empty: no column is declared", 'declare columns, as in [{ name = "age" }]'
        )
    name, times = Counter(column.name for column in columns).most_common(1)[0]
    if times > 1:
        raise ConfigError(where, f"{name!r} is declared {times} times", "name each column once")
    for index, column in enumerate(columns):
        _check(column, f"{where}.{index}")


def _check(column: Column, where: str) -> None:
    if column.categories:
        word, times = Counter(column.categories).most_common(1)[0]
        if times > 1:
            raise ConfigError(
                f"{where}.categories", f"{word!r} is listed {times} times", "list each word once"
            )
        if len(column.categories) < 2:
            raise ConfigError(
                f"{where}.categories", "has one word only, so the column is constant", "leave the column out"
            )
        numbers = Column(name=column.name, categories=column.categories, fill=column.fill)
        if column != numbers:
            reason = "has categories, and mean, deviation, lower or upper"
            raise ConfigError(where, reason, "leave them out")
        if column.fill is not None and column.fill not in column.categories:
            raise ConfigError(
                f"{where}.fill", f"{column.fill!r} is not one of the categories", "add it to them"
            )
        return
    if isinstance(column.fill, str):
        remedy = "set a number, or declare categories"
        raise ConfigError(f"{where}.fill", f"{column.fill!r} is text, and the column has numbers", remedy)
    lower = float("-inf") if column.lower is None else column.lower
    upper = float("inf") if column.upper is None else column.upper
    if lower >= upper:
        raise ConfigError(
            f"{where}.lower", f"is {lower:g}, not below upper = {upper:g}", "set a smaller lower"
        )
    if column.fill is not None and not lower <= column.fill <= upper:
        raise ConfigError(
            f"{where}.fill",
            f"{column.fill:g} is not in {lower:g} to {upper:g}",
            "choose a value in this range",
        )
