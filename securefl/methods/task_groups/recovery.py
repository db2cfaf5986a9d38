"""Recovery of the truth: distance of estimated models to the true ones, and machines in their own group."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from securefl.base.arrays import F64
from securefl.methods.task_groups.problem import Choice


def nearest_distance(estimates: F64, truth: F64) -> float:
    """The paper's metric as its authors compute it: mean over estimates of the distance to the nearest truth.

    Two estimates of one group, and none of another, are not seen by it.
    """
    return float(_distances(estimates, truth).min(axis=1).mean())


def matched_distance(estimates: F64, truth: F64) -> float:
    """Mean distance under the best one-to-one matching of estimates and truths."""
    cost = _distances(estimates, truth)
    return float(cost[np.arange(len(cost)), matching(cost)].mean())


def recovery_rate(choice: Choice, labels: Choice, honest: npt.NDArray[np.bool_], groups: int) -> float:
    """Share of honest machines that are in their own group, groups being matched so that most are.

    Args:
        choice: by machine its estimated group; any other number for none.
        labels: by machine its true group, 0 to k - 1; of the honest ones.
        honest: by machine.
        groups: k.
    """
    agreement = np.zeros((groups, groups))
    for estimated, true in zip(choice[honest], labels[honest], strict=True):
        if 0 <= estimated < groups:
            agreement[estimated, true] += 1
    matched = matching(-agreement)
    return float(agreement[np.arange(groups), matched].sum() / honest.sum())


def matching(cost: F64) -> Choice:
    """The column of each row in the one-to-one matching of least total cost, for a square matrix.

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
