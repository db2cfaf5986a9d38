"""Trained updates of a round: made once where used once, kept where attackers ask for them as well."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence

from securefl.base.arrays import F64
from securefl.base.ids import PartyId
from securefl.protocol.round import Occasion
from securefl.runtime.simulation.trainers import NO_CARRY, Carries, TrainingTask, TrainParties


def _nobody(_party: PartyId) -> bool:
    return False


class Trainings:
    """Local training on demand.

    It holds the updates of one round, 8 d bytes for each party that ``keeps`` names.

    Args:
        train: trains the parties of a task.
        keeps: returns True for a party whose update is kept for the round, as attackers may ask for it.
    """

    def __init__(self, train: TrainParties, keeps: Callable[[PartyId], bool] = _nobody) -> None:
        self._train = train
        self._keeps = keeps
        self._round = -1
        self.carries: Carries = NO_CARRY
        """Start of per-example momentum in the next trainings."""
        self.samples: int | None = None
        """Number of samples that a party uses at most in the next trainings; None for all of them."""
        self._kept: dict[tuple[PartyId, int], F64 | None] = {}
        self._failed: dict[PartyId, int] = {}

    def failed(self, round_: int) -> Collection[PartyId]:
        """Return the parties whose last training failed in this round."""
        return [party for party, last in self._failed.items() if last == round_]

    def of(self, occasion: Occasion, names: Sequence[PartyId]) -> Iterator[tuple[PartyId, F64 | None]]:
        """Yield every party of ``names`` with its update f64 ``(d,)``, in any order; None for a failure.

        Those that are kept come first, all trained before the first of them is handed out.
        """
        if occasion.round != self._round:
            self._round, self._kept = occasion.round, {}
        kept = [name for name in names if self._keeps(name)]
        missing = [name for name in kept if (name, occasion.work) not in self._kept]
        for name, update in self._trained(occasion, missing):
            self._kept[name, occasion.work] = update
        for name in kept:
            yield name, self._kept[name, occasion.work]
        yield from self._trained(occasion, [name for name in names if not self._keeps(name)])

    def _trained(self, occasion: Occasion, names: list[PartyId]) -> Iterator[tuple[PartyId, F64 | None]]:
        if names:
            task = TrainingTask(
                occasion.round, occasion.work, occasion.before, names, self.carries, self.samples
            )
            for name, update in self._train(task):
                if update is None:
                    self._failed[name] = occasion.round
                yield name, update
