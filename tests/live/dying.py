"""A dealer that is killed in the middle of a run. Its process imports nothing else of the tests."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable

from securefl.protocol.kernel.machine import Event
from securefl.protocol.messages.union import AnyMessage
from securefl.protocol.round.dealer.machine import DealerMachine, DealerPhase, Dealing
from securefl.protocol.round.shared.reports import Effects
from securefl.runtime.launch import process
from securefl.runtime.process import dealer_process
from securefl.runtime.process.settings import ProcessSettings
from securefl.runtime.report.witness import News

_MAIN = process.dealer


class Dying(DealerMachine):
    """It is killed when round 1 asks for triples."""

    def step(self, phase: DealerPhase, event: Event[AnyMessage]) -> tuple[DealerPhase, Effects]:
        after, effects = super().step(phase, event)
        if isinstance(after, Dealing) and any(place.round for place in after.served_attempts):
            os.kill(os.getpid(), signal.SIGKILL)
        return after, effects


def main(settings: ProcessSettings, tell: Callable[[News], None]) -> object:
    """In place of ``securefl.runtime.launch.process.dealer``, in the dealer's process."""
    vars(dealer_process)["DealerMachine"] = Dying
    return _MAIN(settings, tell)
