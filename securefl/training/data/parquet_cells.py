"""Cells of Parquet files. Needs pyarrow."""

import importlib.util
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np

from securefl.base import narrowing
from securefl.base.arrays import F64
from securefl.base.errors import ConfigError
from securefl.training.data import cells
from securefl.training.data.files import MAX_BYTES

PARQUET: Final = (".parquet", ".pq")
_DIGITS: Final = 15
"""Digits of a whole number that f64 always represents."""
_DEFECTS: Final = (OSError, ValueError, TypeError, KeyError, MemoryError, NotImplementedError)
"""Exceptions of pyarrow on damaged files, besides its own."""


def read_parquet(path: Path, names: Sequence[str]) -> cells.Cells:
    """Read the columns ``names`` of the file ``path``: numbers and booleans as f64, text as words.

    Raises:
        ConfigError: pyarrow or the file is missing, damaged or too large; or a column is missing or of
            another type.
    """
    if importlib.util.find_spec("pyarrow") is None:
        raise ConfigError(
            str(path), "Parquet needs pyarrow, which is not installed", "pip install 'securefl[tables]'"
        )
    import pyarrow as pa  # noqa: PLC0415 - an optional extra
    import pyarrow.parquet as pq  # noqa: PLC0415

    if not path.is_file():
        raise ConfigError(str(path), "file not found", "paths are relative to the working directory")
    try:
        with pq.ParquetFile(path) as file:
            schema = file.schema_arrow
            places = cells.positions(path, schema.names, names)
            types = {name: schema.types[at] for name, at in zip(names, places, strict=True)}
            for name, type_ in types.items():
                if not _kind(pa, type_):
                    reason = f"has type {type_}, which is neither numbers nor text"
                    raise ConfigError(f"{path}, column {name!r}", reason, "store it as one of them")
            _check_size(path, file.metadata, len(names))
        text = [name for name, type_ in types.items() if _kind(pa, type_) == "text"]
        with pq.ParquetFile(path, read_dictionary=text) as file:
            read = file.read(columns=list(names), use_threads=False)
            read.validate(full=True)
            columns = {name: _column(pa, read.column(name), f"{path}, column {name!r}") for name in names}
    except (*_DEFECTS, pa.ArrowException) as error:
        lines = str(error).strip().splitlines() or [type(error).__name__]
        raise ConfigError(
            str(path), f"is not a readable Parquet file: {lines[0]}", "write it again"
        ) from error
    rows = next(iter(columns.values()))
    count = len(rows.codes if isinstance(rows, cells.Words) else rows)
    if not count:
        raise ConfigError(str(path), "has no rows", "add one row for each sample")
    return cells.Cells(path, columns, range(1, count + 1), "row", cells.others_in(schema.names, names))


def _kind(pa: Any, type_: Any) -> str:
    """Return ``numbers``, ``text``, or an empty string for any other type."""
    types = pa.types
    if types.is_dictionary(type_):
        return "text" if _kind(pa, type_.value_type) == "text" else ""
    numbers = (types.is_integer, types.is_floating, types.is_boolean, types.is_decimal, types.is_null)
    if any(is_one(type_) for is_one in numbers):
        return "numbers"
    return "text" if types.is_string(type_) or types.is_large_string(type_) else ""


def _check_size(path: Path, metadata: Any, columns: int) -> None:
    """Check the unpacked size that the file's header claims.

    All columns count: pyarrow aborts the process if asked for the size of a column with damaged metadata.
    """
    size = sum(metadata.row_group(index).total_byte_size for index in range(metadata.num_row_groups))
    most = max(size, 8 * metadata.num_rows * columns)
    if most > MAX_BYTES:
        remedy = "split the file, or leave out unused columns"
        raise ConfigError(
            str(path), f"unpacks to {most:,} bytes, more than the limit of {MAX_BYTES:,}", remedy
        )


def _check_exact(pa: Any, column: Any, where: str) -> None:
    """Raise a ConfigError if f64 does not represent a whole number; fractions are rounded."""
    try:
        if pa.types.is_integer(column.type):
            narrowing.exact_f64(column.drop_null().to_numpy())
        elif pa.types.is_decimal(column.type) and column.type.precision - column.type.scale > _DIGITS:
            for one in column.drop_null().to_pylist():
                if one == one.to_integral_value():
                    narrowing.check_whole(one)
    except narrowing.NarrowingError as error:
        raise ConfigError(where, f"holds {error}", "store it as text if it is an identifier") from error


def _column(pa: Any, column: Any, where: str) -> F64 | cells.Words:
    kind = _kind(pa, column.type)
    if kind == "numbers":
        _check_exact(pa, column, where)
        numbers = column.cast(pa.float64(), safe=False).to_numpy()
        return np.array(numbers, dtype=np.float64)
    encoded = column if pa.types.is_dictionary(column.type) else column.dictionary_encode()
    whole = encoded.unify_dictionaries().combine_chunks()
    if isinstance(whole, pa.ChunkedArray):
        whole = whole.chunk(0) if whole.num_chunks else pa.array([], encoded.type)
    codes = whole.indices.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64)
    words = whole.dictionary.to_pylist()
    none = [at for at, word in enumerate(words) if word is None]  # null may be a word of the dictionary
    return cells.Words(np.where(np.isin(codes, none), -1, codes), [str(word) for word in words])
