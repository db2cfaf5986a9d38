"""Parties whose training takes a second or two in each round."""

from __future__ import annotations

from collections.abc import Callable

from parties import client
from securefl.report.witness import News
from securefl.runtime.settings import ProcessSettings
from tests.live.slow import slow_down

_MAIN = client.main


def main(settings: ProcessSettings, tell: Callable[[News], None]) -> object:
    """In place of ``parties.client.main``, in a party's process."""
    slow_down(1.5)
    return _MAIN(settings, tell)
