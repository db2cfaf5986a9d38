"""Adversaries of task groups, which choose a group and any vector."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from securefl.base.arrays import F64
from securefl.methods.task_groups import problem

Craft = Callable[[F64], F64]
"""Attack: from vectors of a group's honest members, f64 ``(h, d)``, h >= 1, to one vector f64 ``(d,)``."""


@dataclass(frozen=True, slots=True, eq=False)
class Turn:
    """One iteration, as an omniscient adversary sees it."""

    models: F64
    """Broadcast models, f64 ``(k, d)``."""
    byzantine: problem.Problem
    honest_choice: problem.Choice
    honest_vectors: F64
    """Vectors of the honest machines, f64 ``(h, d)``."""
    pinned: problem.Choice | None = None
    """Fixed groups of the Byzantine machines (Three-Stage's last stage)."""


class Adversary(Protocol):
    """Joint decision for all Byzantine machines."""

    def send(self, turn: Turn) -> tuple[problem.Choice, F64]:
        """Return groups ``(b,)`` and vectors ``(b, d)`` of the Byzantine machines, in their order."""
        ...


@dataclass(frozen=True, slots=True)
class Outlier:
    """Loss and gradient at ``factor`` times the models: the paper's experiment (Section 6)."""

    factor: float = 3.0

    def send(self, turn: Turn) -> tuple[problem.Choice, F64]:
        """Return groups and vectors as :class:`Adversary` does."""
        look = turn.byzantine.look(self.factor * turn.models)
        # False losses may be anything; argmin treats NaN as the minimum.
        choice = look.losses.argmin(axis=1) if turn.pinned is None else turn.pinned
        return choice, look.gradients(choice)


@dataclass(frozen=True, slots=True)
class SmallestGroup:
    """Attack on the group with the fewest honest members, at least one: the worst case (Section 5.1)."""

    craft: Craft

    def send(self, turn: Turn) -> tuple[problem.Choice, F64]:
        """Return groups and vectors as :class:`Adversary` does, ignoring fixed groups.

        A Byzantine machine could have sent a minimiser of any group.
        """
        members = np.bincount(turn.honest_choice, minlength=len(turn.models))
        smallest = int(np.where(members > 0, members, members.max() + 1).argmin())
        choice = np.full(turn.byzantine.machines, smallest, dtype=np.intp)
        return choice, _craft_vector(
            self.craft, turn, choice, turn.byzantine.look(turn.models).gradients(choice)
        )


def _craft_vector(craft: Craft, turn: Turn, choice: problem.Choice, own: F64) -> F64:
    vectors = own.copy()
    for group in np.unique(choice):
        known = turn.honest_vectors[turn.honest_choice == group]
        if len(known):
            vectors[choice == group] = craft(known)
    return vectors


def reversed_mean(factor: float) -> Craft:
    """Return an attack that sends minus ``factor`` times the honest mean."""

    def craft(known: npt.NDArray[np.float64]) -> F64:
        found: F64 = -factor * known.mean(axis=0)
        return found

    return craft
