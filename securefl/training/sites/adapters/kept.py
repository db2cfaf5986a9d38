"""Arrays of an app at its site: those that travel, in the app's own order, and those that stay."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from .offer import Refused

KEY = "securefl"
"""Of the file's metadata: JSON with the names in the app's order, and the arrays that stay."""


class AppArrays:
    """The arrays that an app expects: what comes from the federation, and what stayed here.

    Args:
        path: of a safetensors file as ``securefl site weights`` writes it.
    """

    def __init__(self, path: str) -> None:
        self.first, self._order, self._local = _read(Path(path))

    @property
    def names(self) -> list[str]:
        """All names, in the app's order; arrays that were in no file stand behind."""
        known = set(self._order)
        return [*self._order, *(name for name in self._local if name not in known)]

    def complete(self, parameters: Mapping[str, Any]) -> dict[str, Any]:
        """The parameters and what stayed, in the app's order; the app's own to write to."""
        held = {name: np.array(array) for name, array in {**self._local, **parameters}.items()}
        return {name: held[name] for name in self.names}

    def keep(self, arrays: Mapping[str, Any]) -> dict[str, Any]:
        """Put aside what does not travel, for the next time; the rest."""
        local = {name: np.array(array) for name, array in arrays.items() if name not in self.first}
        self._local.update(local)
        return {name: array for name, array in arrays.items() if name in self.first}

    def add(self, changes: Mapping[str, Any]) -> dict[str, Any]:
        """As :meth:`keep`, of changes: what does not travel is added to what stayed."""
        local = {name: change for name, change in changes.items() if name not in self.first}
        known = {name: self._local.get(name, 0) + np.asarray(change) for name, change in local.items()}
        return self.keep({**changes, **known})

    def arrays_by_name(self, arrays: Iterable[Any], said: str) -> dict[str, Any]:
        """A list of arrays by name.

        Raises:
            Refused: more or fewer than there are names.
        """
        found, names = list(arrays), self.names
        if len(found) != len(names):
            raise Refused(f"{said} {len(found)} arrays, expected {len(names)}: {', '.join(names[:4])} ...")
        return dict(zip(names, found))  # noqa: B905 - Python 3.9


def _read(path: Path) -> tuple[dict[str, Any], list[str], dict[str, Any]]:
    """Arrays that travel, all names in order, arrays that stay. The party has checked the file."""
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
        told = json.loads(head)
        local = {
            name: np.array(values, dtype).reshape(shape)
            for name, (dtype, shape, values) in told.get("local", {}).items()
        }
        order = list(told.get("order", arrays))
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
