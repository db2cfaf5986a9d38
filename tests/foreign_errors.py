"""Every class of exception that code of others may raise."""

from __future__ import annotations

import builtins
from asyncio import CancelledError
from collections.abc import Callable, Iterator

import numpy as np

import securefl
from securefl.base.errors import UsageError


class PanicError(BaseException):
    """As extension modules in Rust raise: no subclass of Exception."""


class MuteError(Exception):
    """Has no text."""

    def __str__(self) -> str:
        raise RuntimeError("no text either")


def builtin_errors() -> Iterator[BaseException]:
    """One of each exception class of Python."""
    arguments: dict[type[BaseException], tuple[object, ...]] = {
        UnicodeDecodeError: ("utf-8", b"x", 0, 1, "reason"),
        UnicodeEncodeError: ("utf-8", "x", 0, 1, "reason"),
        UnicodeTranslateError: ("x", 0, 1, "reason"),
        BaseExceptionGroup: ("several", [GeneratorExit()]),
        ExceptionGroup: ("several", [ValueError()]),
    }
    classes = {
        one for one in vars(builtins).values() if isinstance(one, type) and issubclass(one, BaseException)
    }
    for cls in sorted(classes, key=lambda one: one.__name__):
        yield cls(*arguments.get(cls, ()))


def our_errors() -> Iterator[BaseException]:
    """Those of this library that a site meets when it calls it."""
    yield UsageError("whatever")
    yield securefl.ConfigError("field", "reason", "remedy")
    calls: list[Callable[[], object]] = [
        lambda: securefl.score_histogram(np.array([np.nan]), np.array([1])),
        lambda: securefl.score_histogram(np.array([0.5]), np.array([7])),
        lambda: securefl.confusion(np.array([0]), np.array([1, 2]), 2),
    ]
    for call in calls:
        try:
            call()
        except BaseException as error:
            yield error
        else:
            raise AssertionError("it took what it cannot take")


def all_errors() -> list[BaseException]:
    """Return one exception of each class."""
    return [*builtin_errors(), *our_errors(), CancelledError(), PanicError("panic"), MuteError()]
