"""``module:function``: samples that a user's function returns, checked like untrusted data."""

import operator
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from securefl.base.errors import ConfigError
from securefl.scenario import Data, load_own
from securefl.training.data.npz import MAX_CLASSES
from securefl.training.data.source import Half, Labelled, SampleSource

_REMEDY = (
    "return the arrays x_train, y_train, x_test, y_test, or x, y; or one or two map-style data sets of torch"
)
_NAMES = {4: ("x_train", "y_train", "x_test", "y_test"), 2: ("x", "y")}


class OwnFunction(SampleSource):
    """User's function, called once without arguments."""

    def __init__(self, name: str) -> None:
        self.name, self.title = name, name.rpartition(":")[2]

    @cached_property
    def divided(self) -> bool:  # type: ignore[override]
        """True if it returned two halves."""
        return "x_train" in self._arrays

    def read(self, half: Half) -> Labelled:
        """Return a half of the function's result."""
        x, y = ("x", "y") if half == "all" else (f"x_{half}", f"y_{half}")
        return Labelled(self._arrays[x], self._arrays[y], f"{self.name}[{x}]", f"{self.name}[{y}]")

    @cached_property
    def _arrays(self) -> dict[str, npt.NDArray[Any]]:
        parts = self._call_function()
        if len(parts) <= 2 and parts and all(map(_is_map_style, parts)):
            arrays = tuple(array for index in range(len(parts)) for array in self._items(parts, index))
        elif len(parts) in _NAMES and all(isinstance(one, np.ndarray) for one in parts):
            arrays = parts
        else:
            found = ", ".join(type(one).__name__ for one in parts[:8]) or "nothing"
            raise ConfigError("data.set", f"{self.name} returned {found}", _REMEDY)
        return dict(zip(_NAMES[len(arrays)], arrays, strict=True))

    def _call_function(self) -> tuple[Any, ...]:
        try:
            function = load_own(self.name)
        except ConfigError as error:
            raise ConfigError("data.set", f"{error.path} {error.reason}", error.remedy) from error
        try:
            found = function()
            if isinstance(found, np.ndarray) or (hasattr(found, "__getitem__") and not _is_plain(found)):
                return (found,)
            return tuple(found)
        except (Exception, SystemExit) as error:  # any exception of the user's function
            reason = f"{self.name} failed: {type(error).__name__}: {error}"
            raise ConfigError("data.set", reason, "call the function in Python for the traceback") from error

    def _items(self, parts: tuple[Any, ...], index: int) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
        """Return all samples and labels of one data set."""
        dataset, samples, labels = parts[index], [], []
        which = self.name if len(parts) == 1 else f"{self.name}, {('train', 'test')[index]}"
        for number in range(len(dataset)):
            where = f"{which}, item {number}"
            try:
                item = dataset[number]
                x, y = item
            except (Exception, SystemExit) as error:
                reason = f"is not a pair of sample and label: {type(error).__name__}: {error}"
                raise ConfigError(where, reason, "return (sample, label)") from error
            samples.append(_sample(x, where))
            try:
                labels.append(operator.index(y))
            except TypeError:
                raise ConfigError(
                    where, f"has the label {y!r}", "return the number of a class, from 0"
                ) from None
            if not 0 <= labels[-1] < MAX_CLASSES:
                raise ConfigError(
                    where, f"has the label {labels[-1]}", f"labels must be in [0, {MAX_CLASSES})"
                )
            if samples[-1].shape != samples[0].shape or samples[-1].dtype != samples[0].dtype:
                now, first = (f"{one.dtype} {one.shape}" for one in (samples[-1], samples[0]))
                raise ConfigError(where, f"is {now}, and item 0 is {first}", "make all alike")
        if not samples:
            raise ConfigError(which, "has no items", "return one item for each sample")
        return np.stack(samples), np.array(labels, dtype=np.int64)


def _sample(value: Any, where: str) -> npt.NDArray[Any]:
    if not (isinstance(value, np.ndarray) or hasattr(value, "numpy")):
        remedy = "return a tensor or an array; for pictures, transform = torchvision.transforms.PILToTensor()"
        raise ConfigError(where, f"has a sample of type {type(value).__name__}", remedy)
    try:
        return np.asarray(value)
    except (TypeError, ValueError, RuntimeError) as error:
        raise ConfigError(
            where, f"is not an array: {error}", "return a detached tensor on the CPU"
        ) from error


def _is_map_style(found: Any) -> bool:
    return hasattr(found, "__getitem__") and hasattr(found, "__len__") and not _is_plain(found)


def _is_plain(found: Any) -> bool:
    return isinstance(found, np.ndarray | tuple | list | dict | str | bytes)


def source(place: Path, _config: Data) -> OwnFunction:
    """Return the source of the function named ``place``."""
    return OwnFunction(str(place))
