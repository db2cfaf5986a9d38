"""Errors of msgspec as a ConfigError with field, reason and remedy."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeVar

import msgspec
from msgspec import inspect

from securefl.base import text
from securefl.base.errors import ConfigError
from securefl.scenario import data, parts
from securefl.scenario.scenario import Scenario
from securefl.scenario.section import FileTable, plain, short

S = TypeVar("S", bound=FileTable)
_WHERE = re.compile(r" - at `\$(?P<path>.*)`$")
_UNKNOWN = re.compile(r"^Object contains unknown field `(?P<name>.*)`$", re.DOTALL)
_MISSING = re.compile(r"^Object missing required field `(?P<name>.*)`$")
_BAD_CHOICE = re.compile(r"^Invalid (enum )?value ")
_FORMS = {data.DATA_PATTERN: data.DATA_FORMS}
_REFERENCE = "docs/fields.md lists all fields"


def explain(
    error: msgspec.ValidationError,
    raw: dict[str, Any],
    root: type[FileTable] = Scenario,
    above: Sequence[str] = (),
) -> ConfigError:
    """Return the ConfigError for an error of msgspec.

    Args:
        error: of ``msgspec.convert(table, root)``.
        raw: scenario as read, with overrides; quoted in the error.
        root: type of the table: scenario or part.
        above: path from the scenario to the table.
    """
    complaint = str(error)
    where = _WHERE.search(complaint)
    complaint = complaint[: where.start()] if where else complaint
    segments = [*above, *(re.findall(r"[^.\[\]]+", where["path"]) if where else [])]
    if unknown := _UNKNOWN.match(complaint):
        return _unknown_field(unknown["name"], segments, *_look_up(segments, raw, root, len(above)))
    if missing := _MISSING.match(complaint):
        return _missing_field(missing["name"], segments, _look_up(segments, raw, root, len(above))[0])
    node, value = _look_up(segments, raw, root, len(above))
    path = ".".join(segments) or "scenario"
    if _BAD_CHOICE.match(complaint):
        return not_a_choice(path, value, _choices(node))
    return ConfigError(
        path,
        f"{plain(complaint, _FORMS)}, found {short(value)}",
        _remedy_of(segments, raw, root, len(above), node),
    )


def _remedy_of(
    segments: Sequence[str], raw: dict[str, Any], root: type[FileTable], depth: int, node: inspect.Type
) -> str:
    """Return the remedy for a value of a wrong type or range: the one that its table states, if any."""
    if len(segments) > depth:
        table = _look_up(segments[:-1], raw, root, depth)[0]
        if isinstance(table, inspect.StructType) and (stated := _remedies(table).get(segments[-1])):
            return stated
    return _remedy_for_type(node)


def _remedies(table: inspect.StructType) -> Mapping[str, str]:
    found: Mapping[str, str] = getattr(table.cls, "remedies", {})
    return found


def explain_part(kind: type[parts.Part], value: Any, segments: Sequence[str]) -> ConfigError:
    """Return the error for a part that is not a table or has an unknown name; ``segments`` is its path."""
    path, tag = ".".join(segments), kind.__struct_config__.tag_field
    if not isinstance(value, dict):
        meant = text.closest(value, parts.names(kind)) if isinstance(value, str) else None
        remedy = f'write {{ {tag} = "{meant or kind.usual}" }}'
        return ConfigError(path, f"expected table, found {short(value)}", remedy)
    if tag not in value:
        other = next((name for name in ("type", "kind") if name in value), None)
        if other is not None:
            return ConfigError(f"{path}.{other}", "is not a field here", f"write {tag} in its place")
        return ConfigError(f"{path}.{tag}", "is missing", f"set it to one of {', '.join(parts.names(kind))}")
    if not isinstance(value[tag], str):
        return ConfigError(f"{path}.{tag}", f"expected string, found {short(value[tag])}")
    return not_a_choice(f"{path}.{tag}", value[tag], parts.names(kind))


def not_a_choice(path: str, value: Any, choices: Sequence[str]) -> ConfigError:
    """Return the error for a value that is not in ``choices``."""
    close = text.closest(str(value), choices)
    listed = "choose one of " + ", ".join(choices)
    remedy = f"did you mean {close}? {listed}" if close else listed
    return ConfigError(path, f"{short(value)} is not a choice", remedy)


def _unknown_field(name: str, segments: Sequence[str], section: inspect.Type, value: Any) -> ConfigError:
    """Suggest the closest field of the section, or else the sections with that field."""
    known = [field.encode_name for field in section.fields] if isinstance(section, inspect.StructType) else []
    path = ".".join([*segments, name])
    close = text.closest(name, known)
    if close:
        return ConfigError(path, "is not a field", f"did you mean {'.'.join([*segments, close])}?")
    elsewhere = sorted(full for full in _all_fields() if full.split(".")[-1] == name and full != path)
    if elsewhere:
        return ConfigError(path, "is not a field", f"did you mean {' or '.join(elsewhere)}?")
    tag = _tag_field(section)
    kind = f' of {tag} = "{value[tag]}"' if tag and isinstance(value, dict) and tag in value else ""
    fields = f"fields here: {', '.join(known)}" if known else f"the only field here is {tag}"
    return ConfigError(path, f"is not a field{kind}", fields)


def _missing_field(name: str, segments: Sequence[str], node: inspect.Type) -> ConfigError:
    path = ".".join([*segments, name])
    remedies: Mapping[str, str] = {}
    if isinstance(node, inspect.StructType):
        remedies = _remedies(node)
        node = next((f.type for f in node.fields if f.encode_name == name), node)
    if remedy := remedies.get(name):
        return ConfigError(path, "is missing", remedy)
    choices = _choices(node)
    return ConfigError(
        path, "is missing", f"set it to one of {', '.join(choices)}" if choices else _REFERENCE
    )


def _look_up(
    segments: Sequence[str], raw: dict[str, Any], root: type[FileTable], depth: int
) -> tuple[inspect.Type, Any]:
    """Return type and raw value at a path; of a tagged union the member of the raw tag.

    ``root`` is the type after the first ``depth`` segments.
    """
    node: inspect.Type = inspect.type_info(root)
    value: Any = raw
    for segment in segments[:depth]:
        value = value[int(segment)] if isinstance(value, list) else value[segment]
    for segment in segments[depth:]:
        if isinstance(node, inspect.StructType) and segment == node.tag_field:
            return node, value.get(segment) if isinstance(value, dict) else None
        if isinstance(node, inspect.StructType):
            node = next((f.type for f in node.fields if f.encode_name == segment), inspect.AnyType())
            value = value.get(segment) if isinstance(value, dict) else None
        elif isinstance(node, inspect.VarTupleType):
            node = node.item_type
            value = value[int(segment)] if isinstance(value, list) and segment.isdigit() else None
        elif isinstance(node, inspect.UnionType) and segment == _tag_field(node):
            return node, value.get(segment) if isinstance(value, dict) else None
        node = _member(node, value)
    return node, value


def _member(node: inspect.Type, value: Any) -> inspect.Type:
    if isinstance(node, inspect.UnionType) and isinstance(value, dict):
        structs = (t for t in node.types if isinstance(t, inspect.StructType))
        # A union has at most one table without a tag.
        return next((t for t in structs if t.tag is None or t.tag == value.get(t.tag_field)), node)
    return node


def _tag_field(node: inspect.Type) -> str | None:
    """Return the field with the kind of a table: ``type`` or ``kind``."""
    if isinstance(node, inspect.StructType):
        return node.tag_field
    members = node.types if isinstance(node, inspect.UnionType) else ()
    return next((t.tag_field for t in members if isinstance(t, inspect.StructType)), None)


def _choices(node: inspect.Type) -> list[str]:
    if isinstance(node, inspect.LiteralType):
        return [str(value) for value in node.values]
    if isinstance(node, inspect.UnionType):
        tags = [str(t.tag) for t in node.types if isinstance(t, inspect.StructType) and t.tag is not None]
        literals = [choice for t in node.types for choice in _choices(t)]
        numbers = ["a number" for t in node.types if isinstance(t, inspect.FloatType)]
        return tags + numbers + literals
    return []


def _all_fields() -> Iterator[str]:

    def walk(node: inspect.Type, prefix: str) -> Iterator[str]:
        if isinstance(node, inspect.StructType):
            for field in node.fields:
                yield prefix + field.encode_name
                for one in parts.expand_node(field.type):
                    yield from walk(one, f"{prefix}{field.encode_name}.")
        elif isinstance(node, inspect.UnionType):
            for member in node.types:
                yield from walk(member, prefix)

    yield from set(walk(inspect.type_info(Scenario), ""))


def _remedy_for_type(node: inspect.Type) -> str:
    structs = node.types if isinstance(node, inspect.UnionType) else ()
    table = next((t for t in structs if isinstance(t, inspect.StructType)), None)
    if table is not None and table.tag is None:
        return " or ".join([*_choices(node), f"a table of {', '.join(f.encode_name for f in table.fields)}"])
    if table is not None:
        return f'write {{ {table.tag_field} = "{_choices(node)[0]}" }}'
    return "" if isinstance(node, inspect.StrType) else _REFERENCE
