"""Bases of tables: of a file, and of a scenario, whose fields are also checked when Python makes them."""

import re
import typing
from collections.abc import Mapping
from functools import cache
from types import MappingProxyType
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct, StructMeta

from securefl.base.errors import ConfigError

Positive = Annotated[int, Meta(ge=1)]
NonNegative = Annotated[int, Meta(ge=0)]
Fraction = Annotated[float, Meta(gt=0, le=1)]
PositiveReal = Annotated[float, Meta(gt=0)]
NonNegativeReal = Annotated[float, Meta(ge=0)]
Seconds = Annotated[float, Meta(gt=0, le=86_400)]
Name = Annotated[str, Meta(pattern=r"^[a-z0-9][a-z0-9_-]{0,31}$")]


_WORDS = {"object": "table", "array": "list", "str": "string", "bool": "true or false", "null": "nothing"}
_FORMS = {
    r"^[a-z0-9][a-z0-9_-]{0,31}$": "1 to 32 of a-z, 0-9, _ and -, beginning with a letter or digit",
    r"^[\w.]+:\w+$": "module:function",
}


def plain(text: str, forms: Mapping[str, str] = MappingProxyType({})) -> str:
    """Return ``Expected `object`, got `int``` and its kin in plain words, without what was found.

    Args:
        text: of :class:`msgspec.ValidationError`.
        forms: descriptions of further patterns.
    """
    text = text.partition(", got ")[0]
    pattern = re.search(r" matching regex '(.*)'$", text)
    if pattern:
        return f"expected {(_FORMS | dict(forms)).get(pattern[1], pattern[1])}"
    text = re.sub(r"`([\w |]+)`", _worded, text)
    return text[:1].lower() + text[1:]


def _worded(kinds: re.Match[str]) -> str:
    return " or ".join(_WORDS.get(word, word) for word in kinds[1].split(" | "))


def short(value: Any) -> str:
    """Return a value for an error, at most 60 characters."""
    text = f'"{value}"' if isinstance(value, str) else repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


class CheckedMeta(StructMeta):
    """Checks the fields of a table that Python makes; msgspec itself checks those of files only."""

    def __call__(cls, *args: Any, **fields: Any) -> Any:  # noqa: N805 - of a metaclass
        """Make a table.

        Raises:
            ConfigError: a value is of the wrong type or outside its range; it names class and field.
        """
        made = super().__call__(*args, **fields)
        for name, value in fields.items():
            checked = _checked(cls, name, value)
            if checked is not value:
                msgspec.structs.force_setattr(made, name, checked)
        return made


class FileTable(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, omit_defaults=False):
    """Base of the tables of a file: immutable, and an unknown field is an error."""


class Section(FileTable, metaclass=CheckedMeta, frozen=True, kw_only=True):
    """Base of the tables of a scenario, which are checked whether a file or Python makes them."""


def _checked(cls: type, name: str, value: Any) -> Any:
    """Return the value of a field as a file would give it: a tuple for a list, a float for an int."""
    declared, tables = _fields(cls)[name]
    if not tables:
        try:
            return msgspec.convert(value, declared, strict=True)
        except msgspec.ValidationError as error:
            text = str(error).partition(" - at ")[0]
            raise ConfigError(f"{cls.__name__}.{name}", f"{plain(text)}, found {short(value)}") from None
    many = isinstance(value, list | tuple)
    for one in value if many else (value,):
        if not isinstance(one, tables):
            wanted = " or ".join(table.__name__ for table in tables if table is not type(None))
            raise ConfigError(
                f"{cls.__name__}.{name}",
                f"expected {wanted}, found {type(one).__name__}",
                "give an instance; securefl.load takes names and tables, as in a file",
            )
    return tuple(value) if many else value


@cache
def _fields(cls: type) -> dict[str, tuple[Any, tuple[type, ...]]]:
    """Return the declared type of each field, and the classes of tables (and of None) among it."""
    found = {}
    for one in msgspec.structs.fields(cls):
        leaves = tuple(_leaves(one.type))
        tables = any(issubclass(leaf, Section) for leaf in leaves)
        found[one.name] = one.type, leaves if tables else ()
    return found


def _leaves(declared: Any) -> typing.Iterator[type]:
    inner = typing.get_args(declared)
    if isinstance(declared, type) and not inner:
        yield declared
    for one in inner:
        yield from _leaves(one)
