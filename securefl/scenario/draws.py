"""Digest that seeds the draw of clusters.

Only fields away from their default count, so that a new field changes no draw and earlier figures stay
reproducible.
"""

import hashlib
from functools import cache
from typing import Any, Final

import msgspec
from msgspec import NODEFAULT, Struct
from msgspec.structs import FieldInfo

from securefl.scenario import resolved
from securefl.scenario.parts import Part
from securefl.scenario.scenario import Scenario, Stop
from securefl.scenario.secure_sum import SecureSum

DEFAULTS_VERSION: Final = 1
"""Version of the defaults in ``tests/vectors/defaults.json``, raised with any change."""
_DOMAIN: Final = b"securefl/1 draw\n"
_HOW_SUMS_ARE_MADE: Final = ("kind", "validate", "verify")
_REQUIRED_ONCE: Final = (
    (Scenario, "secure_sum"),
    (Scenario, "stop"),
    (SecureSum, "threshold"),
    (SecureSum, "min_survivors"),
    (Stop, "rounds"),
)
"""Fields that had no default when draws were first made: they always count."""


def drawn_digest(scenario: Scenario) -> bytes:
    """Return the SHA-256 (32 bytes) of the fields away from their default.

    It leaves out fields that :func:`securefl.scenario.resolved.scenario_digest` leaves out, and how sums are
    made and verified. So a masked run has the clusters of its twins with CrypTen sums or verified rounds.
    """
    chosen = chosen_fields(scenario)
    for field in resolved.NOT_AGREED_UPON:
        chosen.pop(field, None)
    for table, field in (*resolved.OF_EACH_MACHINE, *(("secure_sum", field) for field in _HOW_SUMS_ARE_MADE)):
        chosen.get(table, {}).pop(field, None)
    drawn = {name: value for name, value in chosen.items() if value != {}}
    return hashlib.sha256(_DOMAIN + msgspec.json.encode([DEFAULTS_VERSION, drawn], order="sorted")).digest()


def chosen_fields(table: Struct) -> dict[str, Any]:
    """Return the fields of a table away from their default, as built-in types."""
    config = table.__struct_config__
    unsaid = isinstance(table, Part) and table.implied and table.name == table.usual
    named = {config.tag_field: config.tag} if config.tag_field and not unsaid else {}
    always = {name for owner, name in _REQUIRED_ONCE if isinstance(table, owner)}
    fields = (
        (field, default, getattr(table, field.name)) for field, default in _declared_fields(type(table))
    )
    return named | {
        field.encode_name: _plain(one)
        for field, default, one in fields
        if field.name in always or one != default
    }


@cache
def _declared_fields(kind: type[Struct]) -> tuple[tuple[FieldInfo, object], ...]:
    """Return the fields of a table with their defaults.

    Cached: msgspec compiles all annotations at each call.
    """
    return tuple((field, _default(field)) for field in msgspec.structs.fields(kind))


def _default(field: FieldInfo) -> object:
    return field.default if field.default_factory is NODEFAULT else field.default_factory()


def _plain(value: object) -> object:
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    return chosen_fields(value) if isinstance(value, Struct) else value
