"""Scenario with all defaults: as TOML, and as a digest for signatures."""

import hashlib
import json
from collections.abc import Iterator
from typing import Any, Final

import msgspec

from securefl.scenario import retired
from securefl.scenario.scenario import Scenario

_DIGEST_DOMAIN = b"securefl/1 scenario\n"
NOT_AGREED_UPON: Final = ("description", "expect", "behaviours", "observer", "statistics")
"""Fields that honest parties do not know and that do not affect them."""
OF_EACH_MACHINE: Final = (("training", "device"),)
"""Table and field of each machine's own choices."""

ONLY_GIVEN: Final = (("stop", "min_gain"), ("privacy", "clip"))
"""Fields that enter the digest only if given."""


def to_toml(scenario: Scenario) -> str:
    """Return TOML with every default; loading it gives an equal scenario."""
    return "\n".join(_table(msgspec.to_builtins(scenario), "")) + "\n"


def scenario_digest(scenario: Scenario) -> bytes:
    """Return the SHA-256 (32 bytes) of all settings that the parties agree on and sign.

    It leaves out :data:`NOT_AGREED_UPON` and :data:`OF_EACH_MACHINE`. All other fields count with their
    defaults, so a program with other defaults cannot join. :mod:`securefl.scenario.retired` and
    :data:`ONLY_GIVEN` keep the digests of earlier versions.
    """
    agreed = msgspec.to_builtins(scenario)
    for field in NOT_AGREED_UPON:
        del agreed[field]
    for table, field in OF_EACH_MACHINE:
        del agreed[table][field]
    for table, field in ONLY_GIVEN:
        if agreed[table][field] is None:
            del agreed[table][field]
    retired.restore(agreed)
    return hashlib.sha256(_DIGEST_DOMAIN + msgspec.json.encode(agreed, order="sorted")).digest()


def _table(table: dict[str, Any], path: str) -> Iterator[str]:
    """Yield the lines of a table, values first: lines after a header belong to it."""
    present = {key: value for key, value in table.items() if value is not None}
    nested = {key: value for key, value in present.items() if _is_nested(value)}
    for key, value in present.items():
        if key not in nested:
            yield f"{key} = {_value(value)}"
    for key, value in nested.items():
        full = f"{path}.{key}" if path else key
        for entry in value if isinstance(value, list | tuple) else (value,):
            yield ""
            yield f"[{full}]" if isinstance(value, dict) else f"[[{full}]]"
            yield from _table(entry, full)


def _is_nested(value: Any) -> bool:
    return isinstance(value, dict) or (
        isinstance(value, list | tuple) and any(isinstance(v, dict) for v in value)
    )


def _value(value: Any) -> str:
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(_value(item) for item in value) + "]"
    return repr(value)
