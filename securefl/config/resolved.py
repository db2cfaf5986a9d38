"""A scenario with all defaults written out: as TOML for people, as a digest for signatures."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from typing import Any

import msgspec

from securefl.config.aggregation import InnerProduct
from securefl.config.scenario import Groups, Scenario

_DIGEST_DOMAIN = b"securefl/1 scenario\n"
_CRYPTEN_ONLY = ("mask_source", "validate")
"""Fields of ``secure_sum`` that mean nothing to masking."""
_NOT_AGREED_UPON = ("description", "expect", "behaviours", "observer")


def to_toml(scenario: Scenario) -> str:
    """The scenario as TOML, every default included; loading it again gives an equal scenario."""
    return "\n".join(_table(msgspec.to_builtins(scenario), "")) + "\n"


def scenario_digest(scenario: Scenario) -> bytes:
    """SHA-256 (32 bytes) of what all parties must agree on, for them to sign.

    It leaves out ``description``, ``expect``, ``observer`` and ``behaviours`` (honest parties do not know
    who misbehaves), and what each machine decides for itself (``training.device``, ``secure_sum.device``,
    ``secure_sum.spool_megabytes``).
    All other fields count, defaults included, whether the file spelled them out or not; but no task groups
    are as good as no table of them, and scores that nobody forgets as no half-life, so that what follows from
    a scenario without is what it always was.
    """
    agreed = msgspec.to_builtins(scenario)
    for field in _NOT_AGREED_UPON:
        del agreed[field]
    if scenario.groups == Groups():
        del agreed["groups"]
    elif not scenario.groups.sizes:
        # Draws of groups that are as large as they always were stay what they were.
        del agreed["groups"]["sizes"]
    rule = scenario.aggregation.rule
    if isinstance(rule, InnerProduct) and rule.half_life is None:
        del agreed["aggregation"]["rule"]["half_life"]
    del agreed["training"]["device"]
    sums = agreed["secure_sum"]
    del sums["spool_megabytes"], sums["device"]
    if scenario.secure_sum.kind == "masking":
        for field in _CRYPTEN_ONLY:
            del sums[field]
    return hashlib.sha256(_DIGEST_DOMAIN + msgspec.json.encode(agreed, order="sorted")).digest()


def drawn_digest(scenario: Scenario) -> bytes:
    """The digest that clusters are drawn under: the same however the sums of clusters are computed.

    So a masked run and its twin with CrypTen sums have the same clusters, and with seeded entropy the same
    bits.
    """
    sums = msgspec.structs.replace(scenario.secure_sum, kind="masking")
    return scenario_digest(msgspec.structs.replace(scenario, secure_sum=sums))


def _table(table: dict[str, Any], path: str) -> Iterator[str]:
    """Lines of one table: its values first, since TOML gives what follows a header to that header."""
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
