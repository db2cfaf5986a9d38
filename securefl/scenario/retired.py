"""Fields of earlier versions with their fixed values, which the signed digest still holds.

Recorded runs may state these values; others are refused.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from securefl.base.errors import ConfigError


class Retired(NamedTuple):
    """Field of earlier versions."""

    value: object
    """Value in all runs."""
    reason: str
    remedy: str = "leave it out"
    agreed: bool = True
    """True if the digest holds the value."""


_SEED = Retired(0, "all runs have the same test set")
FIELDS: Final[Mapping[str, Retired]] = MappingProxyType(
    {
        "data.images.seed": _SEED,
        "data.test_seed": _SEED,
        "deadlines.least": Retired(None, "follows from the parties and the server"),
        "deadlines.rate": Retired(
            1.0, "steps allow for 1 MB a second", "a longer deadline for a slower network"
        ),
        "privacy.when_spent": Retired("leave", "the run goes on without parties whose budget is spent"),
        "secure_sum.committee": Retired(None, "follows from the colluders", "leave it out, or verify = all"),
        "secure_sum.device": Retired("auto", "shares are where training is", "training.device", agreed=False),
        "secure_sum.lost_clusters": Retired(
            0, "a verified step takes all certified sums", "a lower min_survivors, which loses fewer sums"
        ),
        "secure_sum.mask_source": Retired("pairwise", "CrypTen's own generators can be attacked"),
        "secure_sum.spool_megabytes": Retired(1024, "the server keeps 1 GiB in memory", agreed=False),
        "secure_sum.verify_megabytes": Retired(4096, "the header states the bytes of proofs", agreed=False),
        "stop.target_accuracy": Retired(None, "the target of a run is one field", "stop.target"),
    }
)
"""Retired fields by their dotted path."""


def without_retired(raw: dict[str, Any]) -> None:
    """Remove retired fields from a scenario as read.

    Raises:
        ConfigError: a field has another value.
    """
    for path, field in FIELDS.items():
        table, name = _find_field(raw, path)
        if name in table and table.pop(name) != field.value:
            raise ConfigError(path, f"was removed from scenarios: {field.reason}", field.remedy)


def restore(agreed: dict[str, Any]) -> None:
    """Add retired fields to a scenario as built-in types, for its digest."""
    for path, field in FIELDS.items():
        if field.agreed:
            table, name = _find_field(agreed, path)
            table[name] = field.value


def _find_field(raw: dict[str, Any], path: str) -> tuple[dict[str, Any], str]:
    """Return the table of a field, empty if missing, and the field's name."""
    *tables, name = path.split(".")
    table: Any = raw
    for one in tables:
        table = table.get(one) if isinstance(table, dict) else None
    return (table if isinstance(table, dict) else {}), name
