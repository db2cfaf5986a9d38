"""A dealer that is killed in the middle of a run. Its process imports nothing else of the tests."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable

from securefl.kernel.machine import Event
from securefl.launch import process
from securefl.messages.union import AnyMessage
from securefl.report.witness import News
from securefl.rounds.dealer import DealerMachine, DealerPhase, Dealing
from securefl.rounds.party_draw import Effects
from securefl.runtime import dealer_process
from securefl.runtime.settings import ProcessSettings

_MAIN = process.dealer


class Dying(DealerMachine):
    """It is killed when round 1 asks for triples."""

    def step(self, phase: DealerPhase, event: Event[AnyMessage]) -> tuple[DealerPhase, Effects]:
        after, effects = super().step(phase, event)
        if isinstance(after, Dealing) and any(place.round for place in after.dealt):
            os.kill(os.getpid(), signal.SIGKILL)
        return after, effects


def main(settings: ProcessSettings, tell: Callable[[News], None]) -> object:
    """In place of ``securefl.launch.process.dealer``, in the dealer's process."""
    vars(dealer_process)["DealerMachine"] = Dying
    return _MAIN(settings, tell)
