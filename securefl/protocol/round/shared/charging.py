"""Steps of a machine that end in a refusal: what convicts the culprit is reported with it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from securefl.protocol import kernel
from securefl.protocol.round.shared import reports
from securefl.protocol.round.shared.blame import ConvictedError

PhaseT = TypeVar("PhaseT")


def charged(
    handler: Callable[[], tuple[PhaseT, reports.Effects]], phase: PhaseT, round_: int
) -> tuple[PhaseT, reports.Effects]:
    """Run a step as :func:`securefl.protocol.kernel.guarded` does, and report who is convicted by it."""
    found: list[reports.Convicted] = []

    def noted() -> tuple[PhaseT, reports.Effects]:
        try:
            return handler()
        except ConvictedError as error:
            found.append(reports.Convicted(round_, *error.conviction, error.charge))
            raise

    after, effects = kernel.guarded(noted, phase)
    return after, (*effects, *map(kernel.Report, found))
