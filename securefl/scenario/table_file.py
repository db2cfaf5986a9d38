"""TOML files other than scenarios, decoded strictly into tables; an error names file, field and remedy."""

import tomllib
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from securefl.base.errors import ConfigError
from securefl.base.files import reading
from securefl.scenario.explain import explain
from securefl.scenario.section import FileTable

TableT = TypeVar("TableT", bound=FileTable)
_LARGEST = 4 * 2**20


def read_table(path: Path, kind: type[TableT], remedy: str) -> TableT:
    """Read a UTF-8 TOML file as a table without unknown fields.

    Args:
        path: of the file.
        kind: of the table.
        remedy: for a file that is missing, unreadable or not TOML, and for a field without one of its own.

    Raises:
        ConfigError: the file cannot be read, is not TOML, or has a field that is unknown, missing or invalid.
    """
    with reading(path, remedy):
        with path.open("rb") as file:
            raw = file.read(_LARGEST + 1)
        text = raw.decode("utf-8-sig")
    if len(raw) > _LARGEST:
        raise ConfigError(str(path), "is larger than 4 MiB", remedy)
    try:
        table = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise ConfigError(str(path), f"is not valid TOML: {str(error).lower()}", remedy) from None
    return table_of(table, kind, str(path), remedy)


def table_of(table: dict[str, Any], kind: type[TableT], source: str, remedy: str = "") -> TableT:
    """Return a table of :mod:`tomllib` as ``kind``; errors begin with ``source``.

    ``remedy`` is for a field without one of its own.

    Raises:
        ConfigError: a field is unknown, missing or invalid.
    """
    try:
        return msgspec.convert(table, kind, strict=True)
    except msgspec.ValidationError as error:
        found = explain(error, table, kind)
        # The page of all fields is about scenarios only.
        own = "" if found.remedy.startswith("docs/fields.md") else found.remedy
        raise ConfigError(f"{source}: {found.path}", found.reason, own or remedy) from None


def write_value(value: str | int) -> str:
    """Return a text or a whole number as TOML.

    A TOML basic string has the escapes of JSON, and no control characters.
    """
    if isinstance(value, int):
        return str(value)
    return msgspec.json.encode(value).decode().replace("\x7f", "\\u007f")
