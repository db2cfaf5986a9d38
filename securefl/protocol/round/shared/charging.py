"""Steps of a machine that end in a refusal: what convicts the culprit is reported with it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from securefl.protocol.kernel import Report, guarded
from securefl.protocol.round.shared.blame import ConvictedError
from securefl.protocol.round.shared.reports import Convicted, Effects

PhaseT = TypeVar("PhaseT")


def charged(
    handler: Callable[[], tuple[PhaseT, Effects]], phase: PhaseT, round_: int
) -> tuple[PhaseT, Effects]:
    """Run a step as :func:`securefl.protocol.kernel.guarded` does, and report who is convicted by it."""
    found: list[Convicted] = []

    def noted() -> tuple[PhaseT, Effects]:
        try:
            return handler()
        except ConvictedError as error:
            found.append(Convicted(round_, *error.conviction, error.charge))
            raise

    after, effects = guarded(noted, phase)
    return after, (*effects, *map(Report, found))
