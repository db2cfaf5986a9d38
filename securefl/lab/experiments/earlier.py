"""Rulings of an earlier rule, which compared means without a test."""

from collections.abc import Mapping
from pathlib import Path

import msgspec
from msgspec import Struct

from securefl.base.errors import ConfigError


class EarlierRulings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Rulings on a paper's claims before the rule of ADR 0066."""

    commit: str = ""
    """Commit of the page that had them."""
    rulings: dict[str, dict[str, str]] = {}
    """By stem of the record, and text of the claim."""

    def of(self, stem: str) -> Mapping[str, str]:
        """Return the rulings on a record's claims."""
        return self.rulings.get(stem, {})


NO_EARLIER = EarlierRulings()


def read_earlier(results: Path) -> EarlierRulings:
    """Return the earlier rulings beside a results folder, or none.

    Raises:
        ConfigError: unreadable, or not a file of earlier rulings.
    """
    path = results.parent / f"{results.name}-earlier.json"
    try:
        return msgspec.json.decode(path.read_bytes(), type=EarlierRulings)
    except FileNotFoundError:
        return NO_EARLIER
    except (OSError, msgspec.DecodeError) as error:
        raise ConfigError(str(path), f"cannot be read: {error}", "restore the committed file") from error
