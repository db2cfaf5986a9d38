"""Initial model from a torch module, or arrays by name."""

from __future__ import annotations

import fnmatch
import inspect
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from .offer import Refused

MOST_LOCAL = 100_000
"""Most values that stay at the sites; they are text in the file's head."""


class AppModel:
    """Substitute for a site that is asked for parameters only.

    Arrays whose names match ``patterns`` are not sent, nor are integers.

    Raises:
        Refused: no array is sent, too many numbers stay, or a pattern matches no name.
    """

    samples = 1
    fit = None

    def __init__(self, arrays: Mapping[str, Any], patterns: tuple[str, ...]) -> None:
        for pattern in patterns:
            if not fnmatch.filter(arrays, pattern):
                raise Refused(f"--local {pattern!r} fits none of {', '.join(list(arrays)[:4])} ...")
        stays = {
            name
            for name, array in arrays.items()
            if array.dtype.kind != "f" or any(fnmatch.fnmatch(name, one) for one in patterns)
        }
        self._travelling = {name: array for name, array in arrays.items() if name not in stays}
        if not self._travelling:
            raise Refused("has no array of floating-point numbers that travels")
        count = sum(int(arrays[name].size) for name in stays)
        if count > MOST_LOCAL:
            reason = f"has {count:,} numbers that do not travel, more than {MOST_LOCAL:,}"
            raise Refused(reason, "leave out of it what the app can make by itself")
        local = {
            name: [str(array.dtype), list(array.shape), array.reshape(-1).tolist()]
            for name, array in arrays.items()
            if name in stays
        }
        self.state_head = {"order": list(arrays), "local": local}

    def parameters(self) -> dict[str, Any]:
        """Return the arrays that are sent."""
        return self._travelling


def first_model(named: Any, party: str, patterns: tuple[str, ...]) -> Any:
    """Return the initial model that ``named`` is or makes; a site is returned unchanged.

    ``named`` is a maker of sites, called with ``party``; a module; arrays by name or in a list; or a function
    that returns these.

    Raises:
        Refused: it makes something else.
    """
    found = named if _holds(named) else _call_maker(named, party)
    if hasattr(found, "parameters") and hasattr(found, "samples"):
        return found
    if hasattr(found, "state_dict"):
        found = found.state_dict()
    if isinstance(found, (list, tuple)):
        found = {f"{place:04d}": array for place, array in enumerate(found)}
    if not isinstance(found, Mapping):
        reason = f"makes {type(found).__name__}, expected a site, a torch module, or arrays by name"
        raise Refused(reason)
    return AppModel({str(name): array_of(value, str(name)) for name, value in found.items()}, patterns)


def array_of(value: Any, name: str) -> Any:
    """Return an array or a torch tensor, bfloat16 included, as an array of numbers.

    Raises:
        Refused: it is neither.
    """
    if hasattr(value, "detach"):
        value = value.detach().cpu()
        value = value.float() if value.is_floating_point() and value.element_size() < 4 else value
    found = np.asarray(value)
    if found.dtype.kind not in "fiub":
        raise Refused(f"{name} has dtype {found.dtype}, expected numbers")
    return found


def _holds(named: Any) -> bool:
    is_module = hasattr(named, "state_dict") and not isinstance(named, type)
    return is_module or isinstance(named, (Mapping, list, tuple))


def _call_maker(named: Any, party: str) -> Any:
    if not isinstance(named, Callable):  # type: ignore[arg-type]
        raise Refused(f"is {type(named).__name__}, expected something that makes a model")
    wanted = [
        one
        for one in inspect.signature(named).parameters.values()
        if one.default is one.empty and one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD)
    ]
    if len(wanted) > 1:
        reason = f"takes {', '.join(one.name for one in wanted)}"
        raise Refused(reason, "name a function without arguments that returns the model")
    return named(party) if wanted else named()
