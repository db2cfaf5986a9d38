"""TOML files as tables, with errors that name file and field."""

import re
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from securefl import scenario
from securefl.base.errors import ConfigError
from securefl.lab.experiments.claims import AnyClaim, labels_of

_WHERE = re.compile(r" - at `\$\.?(?P<path>.*)`$")
_Table = TypeVar("_Table", bound=scenario.FileTable)


def read_section(path: Path, kind: type[_Table]) -> _Table:
    """Read a TOML file as a table.

    Raises:
        ConfigError: the file or a field is invalid.
    """
    table = read_toml(path)
    try:
        return scenario.decode_table(table, kind)
    except ConfigError as error:
        raise ConfigError(f"{path}, {error.path}", error.reason, error.remedy) from error
    except msgspec.ValidationError as error:
        where = _WHERE.search(str(error))
        reason = _WHERE.sub("", str(error))
        field = f", {where['path']}" if where and where["path"] else ""
        raise ConfigError(f"{path}{field}", reason[:1].lower() + reason[1:]) from error


def check_labels(path: Path, labels: Sequence[str], claims: Sequence[AnyClaim]) -> None:
    """Refuse ambiguous labels, and claims about unknown cells.

    Raises:
        ConfigError: it names file and claim.
    """
    if len(set(labels)) < len(labels):
        raise ConfigError(f"{path}, curves", "two curves have the same label", "rename one of them")
    for index, claim in enumerate(claims):
        unknown = sorted(labels_of(claim) - set(labels))
        if unknown:
            remedy = f"name one of {', '.join(labels)}"
            raise ConfigError(f"{path}, claims.{index}", f"there is no curve {unknown[0]!r}", remedy)


def name_error(path: Path, field: str, name: str) -> ConfigError:
    """Return the error for a file whose name differs from a field."""
    reason = f"is {name!r}, but the file is named {path.name}"
    return ConfigError(f"{path}, {field}", reason, "change one of them")


def read_toml(path: Path) -> dict[str, Any]:
    """Return the content of a TOML file.

    Raises:
        ConfigError: unreadable, or not TOML.
    """
    try:
        return tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise ConfigError(
            str(path), f"cannot be read: {error.strerror}", "name a file that you may read"
        ) from error
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ConfigError(str(path), f"is not TOML: {error}") from error
