"""``--set path=value``: changes to raw tables before decoding."""

import re
import tomllib
from typing import Any

from securefl.base.errors import ConfigError

_SEGMENT = re.compile(r"[A-Za-z0-9_-]+")
_INDEX = re.compile(r"[0-9]{1,6}")
_NOT_BARE = re.compile(r"""[\[\]{}"'\x00-\x1f\x7f]""")


def apply_override(table: dict[str, Any], assignment: str) -> None:
    """Change one setting of ``table`` in place.

    ``assignment`` is ``"path=value"``. In the dotted path a number indexes a list; the list's length appends.
    A value that is not TOML and has no brackets or quotes is a string, so ``server=active`` needs no quotes.
    An empty value restores the default. Setting ``X.type`` to another type drops the old one's fields.

    Raises:
        ConfigError: no ``=``, a malformed path, or a path through a value that is not a table.
    """
    path, equals, text = assignment.partition("=")
    path = path.strip()
    segments = path.split(".")
    if not equals or not all(_SEGMENT.fullmatch(segment) for segment in segments):
        raise ConfigError(
            f"--set {assignment}", "is not of the form path=value", "write it as in --set clustering.size=4"
        )
    *parents, last = segments
    node: Any = table
    for depth, segment in enumerate(parents):
        following = segments[depth + 1]
        node = _descend(node, segment, [] if _INDEX.fullmatch(following) else {}, path)
    if text.strip():
        _assign(node, last, _value_of(path, text.strip()), path)
    else:
        _remove(node, last, path)


def _descend(node: Any, segment: str, fresh: Any, path: str) -> Any:
    if isinstance(node, dict):
        return node.setdefault(segment, fresh)
    index = _index(node, segment, path)
    if index == len(node):
        node.append(fresh)
    return node[index]


def _assign(node: Any, segment: str, value: Any, path: str) -> None:
    if not isinstance(node, dict):
        index = _index(node, segment, path)
        node[index : index + 1] = [value]
        return
    if segment == "type" and node.get("type") != value:
        node.clear()
    node[segment] = value


def _remove(node: Any, segment: str, path: str) -> None:
    if isinstance(node, dict):
        node.pop(segment, None)
        return
    index = _index(node, segment, path)
    del node[index : index + 1]


def _index(node: Any, segment: str, path: str) -> int:
    """Return ``segment`` as an index into the list ``node``, at most its length."""
    if not isinstance(node, list):
        raise ConfigError(
            path,
            f"cannot be set: {segment!r} is below a value that is neither a table nor a list",
            "set the whole table, as in --set 'secure_sum.validate={ norm = 4.0 }'",
        )
    if not _INDEX.fullmatch(segment) or int(segment) > len(node):
        raise ConfigError(
            path, f"cannot be set: the list has {len(node)} entries, and {segment!r} is not the number of one"
        )
    return int(segment)


def _value_of(path: str, text: str) -> Any:
    if "\n" in text or "\r" in text:
        raise ConfigError(path, "the value given with --set has a line break", "write it on one line")
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError as error:
        if _NOT_BARE.search(text):
            raise ConfigError(
                path,
                f"{text!r} is not a TOML value: {_lower_first(str(error))}",
                "quote strings, as in --set 'name=\"x\"'",
            ) from None
        return text


def _lower_first(text: str) -> str:
    return text[:1].lower() + text[1:]
