"""A server that trains the parties on a model of its choice, instead of the one that its rule made.

Everybody gets the same, so that nothing that parties tell each other shows it, and all of the server's
messages agree. What such a model is built for is up to the server: to lose what was learned, or to learn from
whom training fails (docs/threat-model.md). Only verified rounds refuse it (ADR 0044). This is a machine round
the server's machine, as in :mod:`.server_steering`.
"""

from __future__ import annotations

from dataclasses import replace

from securefl import scenario
from securefl.base.arrays import F32
from securefl.protocol import kernel, messages
from securefl.protocol.round import Evaluating, RunEffect, ServerPhase
from securefl.runtime.misbehaviour.seam import acts
from securefl.runtime.misbehaviour.server_dropping import ServerLike


class CraftsModel:
    """The server's machine, with another model put into some rounds before they begin.

    Where nobody trains on it, it goes back to the model that its rule made.

    Args:
        machine: the honest one.
        behaviour: rounds; the first has the model that the run begins with.
    """

    def __init__(self, machine: ServerLike, behaviour: scenario.ServerCraftsModel) -> None:
        self._machine = machine
        self._behaviour = behaviour
        self._replaced: tuple[F32, F32] | None = None
        """The model of its rule, and the one that it gave out in its place."""

    def start(self, now: float) -> tuple[ServerPhase, tuple[RunEffect, ...]]:
        """As the honest machine."""
        return self._machine.start(now)

    def step(
        self, phase: ServerPhase, event: kernel.Event[messages.AnyMessage]
    ) -> tuple[ServerPhase, tuple[RunEffect, ...]]:
        """As the honest machine, but for the model that a round begins with."""
        if isinstance(phase, Evaluating) and isinstance(event, kernel.Evaluated):
            phase = replace(phase, standing=replace(phase.standing, params=self._given(phase)))
        return self._machine.step(phase, event)

    def _given(self, phase: Evaluating) -> F32:
        made: F32 = phase.standing.params
        if self._replaced is not None and self._replaced[1] is made:
            made = self._replaced[0]
        self._replaced = None
        if not acts(self._behaviour, phase.standing.round + 1):
            return made
        crafted: F32 = -made
        crafted[-1] += 1  # it differs where all are 0, too
        self._replaced = made, crafted
        return crafted
