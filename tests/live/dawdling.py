"""Parties whose training takes a second or two in each round."""

from __future__ import annotations

from collections.abc import Callable

from securefl.runtime.launch import process
from securefl.runtime.process.settings import ProcessSettings
from securefl.runtime.report.witness import News
from tests.live.slow import slow_down

_MAIN = process.party
QUICK = ("p04", "p05")


def main(settings: ProcessSettings, tell: Callable[[News], None]) -> object:
    """In place of ``securefl.runtime.launch.process.party``, in a party's process."""
    slow_down(1.5)
    return _MAIN(settings, tell)


def for_two_seconds(settings: ProcessSettings, tell: Callable[[News], None]) -> object:
    """The same, a little longer."""
    slow_down(2.0)
    return _MAIN(settings, tell)


def all_but_two(settings: ProcessSettings, tell: Callable[[News], None]) -> object:
    """The same for all but :data:`QUICK`."""
    return (_MAIN if settings.name in QUICK else main)(settings, tell)
