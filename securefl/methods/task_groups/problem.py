"""Clustered learning problems, and recovery of the truth."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
import numpy.typing as npt

from securefl.base.arrays import F64
from securefl.base.errors import UsageError

Choice = npt.NDArray[np.intp]
"""Model or group by machine, shape ``(m,)``."""


class Look(Protocol):
    """Losses and gradients of m machines when k models are broadcast."""

    @property
    def losses(self) -> F64:
        """F_i(theta_j), the mean over machine i's points, f64 ``(m, k)``."""
        ...

    def gradients(self, choice: Choice) -> F64:
        """Return the gradient of F_i at the model that machine i chose, f64 ``(m, d)``."""
        ...


class Problem(Protocol):
    """m machines with their own data, and a loss."""

    @property
    def machines(self) -> int:
        """Number of machines, m."""
        ...

    @property
    def dimension(self) -> int:
        """d, the parameters of one model."""
        ...

    @property
    def counts(self) -> npt.NDArray[np.int64]:
        """n_i, points by machine, shape ``(m,)``, each at least 1."""
        ...

    def look(self, models: F64) -> Look:
        """Evaluate k models, f64 ``(k, d)``, on all machines."""
        ...

    def minimisers(self) -> F64:
        """Return each machine's own minimiser of the mean loss, f64 ``(m, d)``."""
        ...

    def only(self, rows: npt.NDArray[np.bool_]) -> Problem:
        """Return the problem of some of the machines."""
        ...

    def part(self, number: int, parts: int) -> Problem:
        """Return part ``number`` of ``parts`` disjoint parts of every machine's points (Section 5).

        Raises:
            UsageError: a machine has fewer points than parts.
        """
        ...


def least(losses: F64, who: Sequence[str] | None = None) -> Choice:
    """Return the model of least loss by machine, the lowest index if equal (Algorithm 1, cluster estimate).

    ``losses`` are f64 ``(m, k)``; ``who`` names the machines in errors.

    Raises:
        UsageError: a loss is not finite.
    """
    wrong = ~np.isfinite(losses)
    if wrong.any():
        machine, model = (int(at) for at in np.argwhere(wrong)[0])
        name = who[machine] if who else f"machine {machine}"
        raise UsageError(
            f"the loss of {name} at model {model} must be finite, found {losses[machine, model]}; use"
            " a smaller learning rate or a parameter ball"
        )
    found: Choice = losses.argmin(axis=1)
    return found


def spans(counts: npt.NDArray[np.int64], number: int, parts: int) -> tuple[Choice, Choice]:
    """Return the first point and the end of part ``number`` for each machine; sizes differ by at most one.

    Raises:
        UsageError: a machine has fewer points than parts.
    """
    if not 0 <= number < parts:
        raise UsageError(f"number of a part must be from 0 to {parts - 1}, found {number}")
    if (counts < parts).any():
        machine = int((counts < parts).argmax())
        raise UsageError(
            f"machine {machine} must have at least {parts} points, one per part, found"
            f" {counts[machine]}; use fewer iterations or no re-sampling"
        )
    return counts * number // parts, counts * (number + 1) // parts


def nearest_distance(estimates: F64, truth: F64) -> float:
    """Return the mean distance of estimates to the nearest truth: the metric of the paper's authors.

    It does not detect two estimates of one group and none of another.
    """
    return float(_distances(estimates, truth).min(axis=1).mean())


def matched_distance(estimates: F64, truth: F64) -> float:
    """Return the mean distance under the best one-to-one matching of estimates and truths."""
    cost = _distances(estimates, truth)
    return float(cost[np.arange(len(cost)), matching(cost)].mean())


def recovery_rate(choice: Choice, labels: Choice, honest: npt.NDArray[np.bool_], groups: int) -> float:
    """Return the share of honest machines in their own group, under the best matching of groups.

    ``choice`` and ``labels`` are estimated and true groups by machine, 0 to k - 1; any other choice is none.
    """
    agreement = np.zeros((groups, groups))
    for estimated, true in zip(choice[honest], labels[honest], strict=True):
        if 0 <= estimated < groups:
            agreement[estimated, true] += 1
    matched = matching(-agreement)
    return float(agreement[np.arange(groups), matched].sum() / honest.sum())


def matching(cost: F64) -> Choice:
    """Return the column of each row in the one-to-one matching of least total cost, for a square matrix.

    Source: Kuhn 1955, in the O(k^3) form with potentials and shortest augmenting paths.
    """
    size = len(cost)
    row_of = np.full(size, -1, dtype=np.intp)
    rows, columns = np.zeros(size), np.zeros(size)
    for row in range(size):
        best, came = np.full(size, np.inf), np.full(size, -1, dtype=np.intp)
        done = np.zeros(size, dtype=bool)
        at, column = row, -1
        while at >= 0:
            reduced = cost[at] - rows[at] - columns
            better = ~done & (reduced < best)
            best[better], came[better] = reduced[better], column
            nearest = int(np.where(done, np.inf, best).argmin())
            step = best[nearest]
            rows[row] += step
            rows[row_of[done]] += step
            columns[done] -= step
            best[~done] -= step
            done[nearest] = True
            column, at = nearest, int(row_of[nearest])
        while column >= 0:
            previous = int(came[column])
            row_of[column] = row if previous < 0 else row_of[previous]
            column = previous
    found = np.empty(size, dtype=np.intp)
    found[row_of] = np.arange(size)
    return found


def _distances(estimates: F64, truth: F64) -> F64:
    found: F64 = np.linalg.norm(estimates[:, np.newaxis] - truth[np.newaxis], axis=2)
    return found
