"""Trained updates of a round: made once where used once, kept where attackers ask for them as well."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence

from securefl.base.arrays import F64
from securefl.base.ids import PartyId
from securefl.protocol.round import Occasion
from securefl.runtime.simulation.trainers import NO_CARRY, Carries, Trainers, TrainingTask


def _nobody(_party: PartyId) -> bool:
    return False


class Trainings:
    """Local training on demand.

    It holds the updates of one round, 8 d bytes for each party that ``keeps`` names.

    Args:
        trainers: does it.
        keeps: whether others than the sum ask for what a party trained: then it is kept for the round.
    """

    def __init__(self, trainers: Trainers, keeps: Callable[[PartyId], bool] = _nobody) -> None:
        self._trainers = trainers
        self._keeps = keeps
        self._round = -1
        self._carries = NO_CARRY
        self._samples: int | None = None
        self._kept: dict[tuple[PartyId, int], F64 | None] = {}
        self._failed: dict[PartyId, int] = {}

    def failed(self, round_: int) -> Collection[PartyId]:
        """Return the parties whose last training failed in this round."""
        return [party for party, last in self._failed.items() if last == round_]

    def carry(self, carries: Carries) -> None:
        """Say what per-example momentum goes on from, until it is said anew."""
        self._carries = carries

    def limit(self, samples: int | None) -> None:
        """Say how many of its samples a party uses at most, until it is said anew; None for all of them."""
        self._samples = samples

    def of(self, occasion: Occasion, names: Sequence[PartyId]) -> Iterator[tuple[PartyId, F64 | None]]:
        """Yield every party of ``names`` with its update f64 ``(d,)``, in any order; None for a failure.

        Those that are kept come first, all trained before the first of them is handed out.
        """
        if occasion.round != self._round:
            self._round, self._kept = occasion.round, {}
        kept = [name for name in names if self._keeps(name)]
        missing = [name for name in kept if (name, occasion.work) not in self._kept]
        for name, update in self._train(occasion, missing):
            self._kept[name, occasion.work] = update
        for name in kept:
            yield name, self._kept[name, occasion.work]
        yield from self._train(occasion, [name for name in names if not self._keeps(name)])

    def _train(self, occasion: Occasion, names: list[PartyId]) -> Iterator[tuple[PartyId, F64 | None]]:
        if names:
            task = TrainingTask(
                occasion.round, occasion.work, occasion.before, names, self._carries, self._samples
            )
            for name, update in self._trainers.train(task):
                if update is None:
                    self._failed[name] = occasion.round
                yield name, update
