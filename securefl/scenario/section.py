"""Bases of tables; those of a scenario are also checked when Python makes them."""

import math
import re
import typing
from collections.abc import Mapping
from functools import cache
from types import MappingProxyType
from typing import Annotated, Any, Union

import msgspec
from msgspec import Meta, Struct, StructMeta

from securefl.base.errors import ConfigError
from securefl.base.text import closest

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
    """Return an error of msgspec in plain words, without the found type; ``forms`` describes patterns.

    An example is ``Expected `object`, got `int```.
    """
    text = text.partition(", got ")[0]
    pattern = re.search(r" matching regex '(.*)'$", text)
    if pattern:
        return f"expected {(_FORMS | dict(forms)).get(pattern[1], pattern[1])}"
    text = re.sub(r"`([\w |]+)`", _word_kinds, text)
    return text[:1].lower() + text[1:]


def _word_kinds(kinds: re.Match[str]) -> str:
    return " or ".join(_WORDS.get(word, word) for word in kinds[1].split(" | "))


def short(value: Any) -> str:
    """Return a value in at most 60 characters."""
    text = f'"{value}"' if isinstance(value, str) else repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


class CheckedMeta(StructMeta):
    """Metaclass that checks fields in Python; msgspec checks those of files only."""

    def __call__(cls, *args: Any, **fields: Any) -> Any:  # noqa: N805 - of a metaclass
        """Make a table.

        Raises:
            ConfigError: a value is invalid; the error names class and field.
        """
        table: Any = cls
        known = msgspec.structs.fields(table)
        names = [one.name for one in known]
        for name in fields.keys() - set(names):
            hint = closest(name, names)
            remedy = f"did you mean {hint}?" if hint else f"fields: {', '.join(names)}"
            raise ConfigError(f"{cls.__name__}.{name}", "is not a field", remedy)
        missing = [one.name for one in known[len(args) :] if one.required and one.name not in fields]
        if missing:
            raise ConfigError(f"{cls.__name__}.{missing[0]}", "is missing", f"pass {missing[0]}=")
        made = super().__call__(*args, **fields)
        for name, value in fields.items():
            checked = _check_value(cls, name, value)
            if checked is not value:
                msgspec.structs.force_setattr(made, name, checked)
        return made


class FileTable(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, omit_defaults=False):
    """Base of tables of files: immutable, without unknown fields."""


class Section(FileTable, metaclass=CheckedMeta, frozen=True, kw_only=True):
    """Base of tables of a scenario, checked in files and in Python."""


class _Declared(typing.NamedTuple):
    """Type of a field, taken apart."""

    plain: Any
    """Type of values that are not tables, or None."""
    tables: tuple[type, ...]
    many: bool
    """True if the value is a tuple of tables."""


def _check_value(cls: type, name: str, value: Any) -> Any:
    """Return a valid value with the types of a file: a tuple for a list, a float for an int."""
    declared = _fields(cls)[name]
    if type(value).__module__ == "numpy" and hasattr(value, "item") and not getattr(value, "shape", ()):
        value = value.item()
    many = declared.many and isinstance(value, list | tuple)
    if declared.tables and all(isinstance(one, declared.tables) for one in (value if many else (value,))):
        return tuple(value) if many else value
    wanted = " or ".join(table.__name__ for table in declared.tables)
    if declared.plain is None:
        raise ConfigError(
            f"{cls.__name__}.{name}",
            f"expected {f'a tuple of {wanted}' if declared.many else wanted}, found {short(value)}",
            "pass instances; names and tables work in files, with securefl.load",
        )
    if isinstance(value, float) and not math.isfinite(value):
        raise ConfigError(f"{cls.__name__}.{name}", f"must be a finite number, found {value}")
    try:
        return msgspec.convert(value, declared.plain, strict=True)
    except msgspec.ValidationError as error:
        reason = plain(str(error).partition(" - at ")[0])
        if "enum value" in reason:
            reason = f"expected {_one_of(declared.plain)}"
        reason += f" or {wanted}" if wanted else ""
        raise ConfigError(f"{cls.__name__}.{name}", f"{reason}, found {short(value)}") from None


def _one_of(declared: Any) -> str:
    """Return the allowed words of a type in quotes, and its numbers."""
    words = [f'"{word}"' for one in (declared, *typing.get_args(declared)) for word in _literals(one)]
    numbers = ["a whole number"] if int in {declared, *typing.get_args(declared)} else []
    return " or ".join((*words, *numbers))


def _literals(declared: Any) -> tuple[Any, ...]:
    return typing.get_args(declared) if typing.get_origin(declared) is typing.Literal else ()


@cache
def _fields(cls: type) -> dict[str, _Declared]:
    found = {}
    for one in msgspec.structs.fields(cls):
        tables = tuple(leaf for leaf in _leaves(one.type) if issubclass(leaf, Section))
        many = typing.get_origin(one.type) is tuple
        members = typing.get_args(one.type) if tables and not many else ()
        others = tuple(member for member in members if not (set(_leaves(member)) & set(tables)))
        plain_type = (Union[others] if others else None) if tables else one.type  # noqa: UP007 - a tuple of types
        found[one.name] = _Declared(plain_type, tables, many)
    return found


def _leaves(declared: Any) -> typing.Iterator[type]:
    inner = typing.get_args(declared)
    if isinstance(declared, type) and not inner:
        yield declared
    for one in inner:
        yield from _leaves(one)
