"""JSON with one spelling per value, so that a hash over it means something.

Keys are sorted, there is no white space, everything outside ASCII is escaped (a transcript is safe to print),
and NaN and infinities, which JSON does not have, are refused.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TypeAlias

from securefl.base.errors import UsageError

JsonValue: TypeAlias = "bool | int | float | str | Sequence[JsonValue] | Mapping[str, JsonValue] | None"


def canonical(value: JsonValue) -> bytes:
    """The one spelling of ``value``, without a newline.

    Raises:
        UsageError: bytes, objects, numbers that are not finite: nothing is turned into JSON by guessing.
    """
    try:
        text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise UsageError(f"no JSON value: {error}") from error
    return text.encode("ascii")


def parse(line: bytes) -> dict[str, JsonValue]:
    """The object in one canonical line (without its newline).

    Raises:
        ValueError: no JSON object, or not spelled canonically.
    """
    try:
        value = json.loads(line)
        if isinstance(value, dict) and canonical(value) == line:
            return value
    except (UsageError, RecursionError) as error:
        raise ValueError("not in canonical spelling") from error
    raise ValueError("not an object in canonical spelling")
