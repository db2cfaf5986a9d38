"""A measure, and the list of all of them."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Final

import tools.cuda.measures
from tools.cuda.unit import Result, Task

DEVICES: Final = ("cuda", "cpu")


@dataclass(frozen=True, kw_only=True)
class Measure:
    """Something to measure on a device.

    ``main`` yields results, each with ``part``, a name within the measure; it leaves out the parts in
    ``task.done``. A result with ``complete = False`` is measured again by the next run.
    """

    name: str
    title: str
    main: Callable[[Task], Iterable[Result]]
    worth: int
    """Place in the order on the device that was asked for; smaller ones come first."""
    baseline_worth: int | None
    """Place in the order of its run on the CPU beside a GPU; None: there is none."""
    seconds: Mapping[str, float]
    """Estimate by device; the measure is not run on a device that is missing here."""
    limit: float
    """Seconds after which it is taken to hang."""
    refused: Mapping[str, str]
    """Reason by device, for devices on which it is not run."""
    needs_data: bool = False
    """True if it reads Fashion-MNIST."""


@cache
def measures() -> Mapping[str, Measure]:
    """Return all measures by name.

    Raises:
        ValueError: two measures have one name, or one has neither an estimate nor a reason for a device.
    """
    found: dict[str, Measure] = {}
    names = (module.name for module in pkgutil.iter_modules(tools.cuda.measures.__path__))
    for name in names:
        if name == "__main__":
            continue
        module = importlib.import_module(f"{tools.cuda.measures.__name__}.{name}")
        for measure in getattr(module, "MEASURES", ()):
            if measure.name in found:
                raise ValueError(f"two measures are named {measure.name}")
            if {*measure.seconds, *measure.refused} != set(DEVICES):
                raise ValueError(f"{measure.name}: each device needs an estimate or a reason")
            found[measure.name] = measure
    return found
