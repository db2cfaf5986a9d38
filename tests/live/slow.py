"""Parties whose training takes long from a round on. Their processes import nothing else of the tests.

``python -c PROGRAM run ...`` is ``securefl run ...`` with such parties.
"""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Callable
from typing import Any, cast

from securefl.runtime.launch import process
from securefl.runtime.process.settings import ProcessSettings
from securefl.runtime.report.witness import News

PROGRAM = "from tests.live.slow import launch; launch()"
_MAIN = process.party


def slow_down(seconds: float, first: int = 0) -> None:
    """In this process, training takes so much longer from round ``first`` on, without the processor time."""
    from securefl.training.rounds import ShardTrainer  # noqa: PLC0415 - torch: not in a launcher

    update = ShardTrainer.update

    def slow(trainer: ShardTrainer, round_: int, *more: Any) -> Any:
        if round_ >= first:
            time.sleep(seconds)
        return update(trainer, round_, *more)

    cast("Any", ShardTrainer).update = slow


def main(settings: ProcessSettings, tell: Callable[[News], None]) -> object:
    """In place of ``process.party``: nobody is heard of for a minute after the first round."""
    slow_down(60, first=1)
    return _MAIN(settings, tell)


def launch() -> None:
    """``securefl`` with slow parties."""
    # As from a terminal, whatever started the tests: nohup has it ignored.
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    vars(process)["party"] = main
    from securefl.cli.app import main as securefl  # noqa: PLC0415 - after the change

    sys.argv[0] = "securefl"
    securefl()
