"""Loading of a ``Scenario`` from TOML and ``--set`` overrides."""

import math
import re
import tomllib
from collections.abc import Iterator, Mapping
from copy import deepcopy
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple, TypeVar

import msgspec
from msgspec import inspect
from msgspec.structs import replace

from securefl.base.errors import ConfigError
from securefl.scenario.explain import explain, explain_part
from securefl.scenario.overrides import apply_override
from securefl.scenario.parts import OWN_NAME, Part, find, own_parts_from
from securefl.scenario.retired import without_retired
from securefl.scenario.scenario import Scenario
from securefl.scenario.section import FileTable
from securefl.scenario.sum_defaults import with_derived_sums

S = TypeVar("S", bound=FileTable)
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_TOML_PLACE = re.compile(r" \(at line (?P<line>\d+), column (?P<column>\d+)\)$")


def load_scenario(path: Path, overrides: tuple[str, ...] = ()) -> Scenario:
    """Read, override and decode a scenario file (UTF-8 TOML).

    Fields are checked one by one; :func:`securefl.methods.feasibility.limits.check` checks them together.

    Overrides are ``"path=value"`` each (:func:`apply_override`).

    Raises:
        ConfigError: the file is unreadable or not TOML, or a field is unknown, missing, of the wrong type or
            out of range. It names file and line, or the field's dotted path.
    """
    try:
        # Some Windows editors begin a file with a byte order mark.
        text = path.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        raise ConfigError(
            str(path), "file not found", "name a scenario file, or a bundled scenario such as quickstart"
        ) from None
    except OSError as error:
        raise ConfigError(
            str(path),
            f"cannot be read: {error.strerror}",
            "name a scenario file, or a bundled scenario such as quickstart",
        ) from None
    except UnicodeDecodeError as error:
        raise ConfigError(str(path), f"is not UTF-8 text (byte {error.start})", "save it as UTF-8") from None
    own_parts_from(path.parent)
    return parse_scenario(text, overrides, source=str(path))


def parse_scenario(text: str, overrides: tuple[str, ...] = (), source: str = "scenario") -> Scenario:
    """Load a scenario from text; ``source`` names it in errors.

    Raises:
        ConfigError: as for :func:`load_scenario`.
    """
    return scenario_of(parse_table(text, source), overrides)


def parse_table(text: str, source: str = "scenario") -> dict[str, Any]:
    """Return the table of a scenario's text, without checks of its fields and without imports.

    Raises:
        ConfigError: it is not TOML.
    """
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise _syntax_error(source, str(error), text) from None
    except (RecursionError, ValueError) as error:
        raise ConfigError(
            source, f"is not valid TOML: {error}", "use fewer levels and smaller numbers"
        ) from None


def scenario_of(
    table: Mapping[str, Any],
    overrides: tuple[str, ...] = (),
    at_hand: Mapping[str, type[Part]] = MappingProxyType({}),
) -> Scenario:
    """Load a scenario from a copy of a table of :mod:`tomllib`.

    ``at_hand`` has classes of users' parts by name, which are not imported.

    Raises:
        ConfigError: as for :func:`load_scenario`.
    """
    raw = deepcopy(dict(table))
    for override in overrides:
        apply_override(raw, override)
    for field, value in _scalars(raw, ""):
        if isinstance(value, float) and not math.isfinite(value):
            raise ConfigError(field, f"must be a finite number, found {value}")
        if isinstance(value, str) and field != "description" and _CONTROL.search(value):
            raise ConfigError(field, f"must not hold control characters, found {value!r}")
    without_retired(raw)
    try:
        scenario = decode_table(raw, Scenario, at_hand)
    except msgspec.ValidationError as error:
        raise explain(error, raw) from None
    if scenario.privacy.clip is not None and scenario.encoding.clip == "none":
        scenario = replace(scenario, encoding=replace(scenario.encoding, clip=1.0))
    return with_derived_sums(scenario, raw.get("secure_sum", {}))


def decode_table(
    raw: dict[str, Any], kind: type[S], at_hand: Mapping[str, type[Part]] = MappingProxyType({})
) -> S:
    """Decode a table, and each of its parts by the part's class.

    Raises:
        ConfigError: a part is unknown or invalid.
        msgspec.ValidationError: another field is invalid.
    """
    parts: list[tuple[tuple[str, ...], Any]] = []
    rest = _lift(_describe_type(kind), raw, (), parts, _Source(raw, at_hand))
    table = msgspec.convert(rest, kind, strict=True)
    for path, part in parts:
        table = _put(table, path, part)
    return table


class _Source(NamedTuple):
    """Table of a whole scenario, and classes of users' parts that are not imported."""

    raw: dict[str, Any]
    at_hand: Mapping[str, type[Part]]


@cache
def _describe_type(kind: type) -> inspect.Type:
    """Return the fields of a table; cached, since it takes ten times as long as decoding."""
    return inspect.type_info(kind)


def _lift(
    node: inspect.Type,
    value: Any,
    path: tuple[str, ...],
    parts: list[tuple[tuple[str, ...], Any]],
    source: _Source,
) -> Any:
    """Return ``value`` without parts; append the resolved parts with their paths to ``parts``."""
    if isinstance(node, inspect.VarTupleType) and isinstance(value, list):
        below = enumerate(value)
        return [_lift(node.item_type, one, (*path, str(i)), parts, source) for i, one in below]
    if not (isinstance(node, inspect.StructType) and isinstance(value, dict)):
        return value
    left = dict(value)
    for field in node.fields:
        name = field.encode_name
        if name not in left:
            continue
        declared, at = field.type, (*path, name)
        many = isinstance(declared, inspect.VarTupleType)
        kind = _kind_of(declared.item_type if isinstance(declared, inspect.VarTupleType) else declared)
        if kind is None:
            left[name] = _lift(declared, left[name], at, parts, source)
        elif not many:
            parts.append((at, _resolve_part(kind, left.pop(name), at, source)))
        elif isinstance(left[name], list):
            tables = enumerate(left.pop(name))
            parts.append((at, tuple(_resolve_part(kind, one, (*at, str(i)), source) for i, one in tables)))
    return left


def _kind_of(node: inspect.Type) -> type[Part] | None:
    """Return the kind of parts in a field, or None."""
    members = node.types if isinstance(node, inspect.UnionType) else (node,)
    structs = (one.cls for one in members if isinstance(one, inspect.StructType))
    return next((one for one in structs if issubclass(one, Part)), None)


def _resolve_part(kind: type[Part], table: Any, path: tuple[str, ...], source: _Source) -> Part:
    usual = kind.usual if kind.implied else None
    name = table.get(kind.__struct_config__.tag_field, usual) if isinstance(table, dict) else None
    if not isinstance(name, str) or (":" in name and not OWN_NAME.fullmatch(name)):
        raise explain_part(kind, table, path)
    try:
        part = find(kind, name, source.at_hand)
    except LookupError:
        raise explain_part(kind, table, path) from None
    except ConfigError as error:
        where = f"{'.'.join(path)}.{kind.__struct_config__.tag_field}"
        raise ConfigError(where, f"{name} {error.reason}", error.remedy) from error
    try:
        return msgspec.convert(table, part, strict=True)
    except msgspec.ValidationError as error:
        raise explain(error, source.raw, part, path) from None


def _put(table: Any, path: tuple[str, ...], part: Any) -> Any:
    name, *below = path
    if isinstance(table, tuple):
        at = int(name)
        return (*table[:at], _put(table[at], tuple(below), part), *table[at + 1 :])
    return replace(table, **{name: _put(getattr(table, name), tuple(below), part) if below else part})


def _syntax_error(source: str, message: str, text: str) -> ConfigError:
    place = _TOML_PLACE.search(message)
    line = int(place["line"]) if place else text.count("\n") + 1
    reason = re.sub(r" \(at .*\)$", "", message)
    return ConfigError(f"{source}:{line}", f"is not valid TOML: {reason[:1].lower()}{reason[1:]}")


def _scalars(value: Any, path: str) -> Iterator[tuple[str, Any]]:
    """Yield all leaves with dotted paths; msgspec does not refuse infinities."""
    if isinstance(value, dict | list):
        for key, item in value.items() if isinstance(value, dict) else enumerate(value):
            yield from _scalars(item, f"{path}.{key}" if path else str(key))
    else:
        yield path, value
