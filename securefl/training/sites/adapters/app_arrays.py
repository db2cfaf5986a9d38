"""Arrays of an app at its site: those that are sent, and those that stay."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from .offer import Refused

KEY = "securefl"
"""Key of the file's metadata: JSON with all names in order, and the arrays that stay."""


class AppArrays:
    """Arrays that an app expects: those of a file of ``securefl site weights``, and local ones."""

    def __init__(self, path: str) -> None:
        self.first, self._order, self._local = _read(Path(path))

    @property
    def names(self) -> list[str]:
        """Names in the app's order, then those of arrays that are not in the file."""
        known = set(self._order)
        return [*self._order, *(name for name in self._local if name not in known)]

    def complete(self, parameters: Mapping[str, Any]) -> dict[str, Any]:
        """Return copies of the parameters and the local arrays, in the app's order."""
        held = {name: np.array(array) for name, array in {**self._local, **parameters}.items()}
        return {name: held[name] for name in self.names}

    def keep(self, arrays: Mapping[str, Any]) -> dict[str, Any]:
        """Keep the arrays that are not sent, for the next round; return the others."""
        local = {name: np.array(array) for name, array in arrays.items() if name not in self.first}
        self._local.update(local)
        return {name: array for name, array in arrays.items() if name in self.first}

    def add(self, changes: Mapping[str, Any]) -> dict[str, Any]:
        """Add changes to local arrays; return the changes of the others."""
        local = {name: change for name, change in changes.items() if name not in self.first}
        known = {name: self._local.get(name, 0) + np.asarray(change) for name, change in local.items()}
        return self.keep({**changes, **known})

    def arrays_by_name(self, arrays: Iterable[Any], source: str) -> dict[str, Any]:
        """Return a list of arrays by name.

        Raises:
            Refused: more or fewer arrays than names.
        """
        found, names = list(arrays), self.names
        if len(found) != len(names):
            raise Refused(f"{source} {len(found)} arrays, expected {len(names)}: {', '.join(names[:4])} ...")
        return dict(zip(names, found))  # noqa: B905 - Python 3.9


def _read(path: Path) -> tuple[dict[str, Any], list[str], dict[str, Any]]:
    """Return sent arrays, all names in order, and local arrays, of a checked file."""
    raw = path.read_bytes()
    start = 8 + int.from_bytes(raw[:8], "little")
    described = json.loads(raw[8:start])
    head = described.pop("__metadata__", {}).get(KEY, "{}")
    arrays = {}
    for name in sorted(described):
        shape = described[name]["shape"]
        place = start + described[name]["data_offsets"][0]
        arrays[name] = np.frombuffer(raw, "<f4", math.prod(shape), place).reshape(shape)
    try:
        header = json.loads(head)
        local = {
            name: np.array(values, dtype).reshape(shape)
            for name, (dtype, shape, values) in header.get("local", {}).items()
        }
        order = list(header.get("order", arrays))
        numbers = all(array.dtype.kind in "fiub" for array in local.values())
        whole = sorted(order) == sorted([*arrays, *local])
    except (ValueError, TypeError, AttributeError) as error:
        raise _unread(path, f"{type(error).__name__}: {error}") from error
    if not (numbers and whole):
        raise _unread(path, "it does not list each array once")
    return arrays, order, local


def _unread(path: Path, why: str) -> Refused:
    return Refused(
        f"the head of {path.name} says nothing of an app: {why}", "securefl site weights writes it"
    )
