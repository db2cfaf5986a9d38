"""Rules written down a second time: from their definitions, slow, exact where that is possible."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable
from fractions import Fraction

import numpy as np

from securefl.base.arrays import F64
from securefl.methods.robust.rules.centred_clipping import CentredClipping
from securefl.methods.robust.rules.geometric_median import GeometricMedian

Rows = list[list[Fraction]]
Reference = Callable[[Rows, list[Fraction]], list[Fraction]]


def naive_mean(rows: Rows, weights: list[Fraction]) -> list[Fraction]:
    return [
        sum((w * x for w, x in zip(weights, column, strict=True)), Fraction(0)) / sum(weights)
        for column in zip(*rows, strict=True)
    ]


def naive_median(rows: Rows, weights: list[Fraction]) -> list[Fraction]:
    """The middle of the interval of minimisers of sum_i w_i |x - x_i|, which is another definition of it."""
    result = []
    for column in zip(*rows, strict=True):
        costs = {
            x: sum((w * abs(x - y) for w, y in zip(weights, column, strict=True)), Fraction(0))
            for x in column
        }
        best = [x for x, cost in costs.items() if cost == min(costs.values())]
        result.append((min(best) + max(best)) / 2)
    return result


def naive_sign_majority(rows: Rows, weights: list[Fraction]) -> list[Fraction]:
    """The heavier camp of each coordinate, steps of 1."""
    result = []
    for column in zip(*rows, strict=True):
        up = sum((w for w, x in zip(weights, column, strict=True) if x > 0), Fraction(0))
        down = sum((w for w, x in zip(weights, column, strict=True) if x < 0), Fraction(0))
        result.append(Fraction((up > down) - (up < down)))
    return result


def naive_trimmed_mean(trim: int) -> Reference:
    """The average over all orders of equal values, which is what sharing their places means."""

    def reference(rows: Rows, weights: list[Fraction]) -> list[Fraction]:
        result = []
        for column in zip(*rows, strict=True):
            place_weight: dict[Fraction, list[Fraction]] = {}
            for x, w in zip(column, weights, strict=True):
                place_weight.setdefault(x, []).append(w)
            ranked = [
                (x, sum(tied, Fraction(0)) / len(tied))
                for x, tied in sorted(place_weight.items())
                for _ in tied
            ]
            left = ranked[trim : len(ranked) - trim]
            result.append(sum((w * x for x, w in left), Fraction(0)) / sum(w for _, w in left))
        return result

    return reference


def naive_weight_trimmed_mean(beta: Fraction) -> Reference:
    """The mean of the weighted quantile function between beta and 1 - beta, as an integral of steps."""

    def reference(rows: Rows, weights: list[Fraction]) -> list[Fraction]:
        total, result = sum(weights), []
        low, high = beta * total, (1 - beta) * total
        for column in zip(*rows, strict=True):
            upto, area = Fraction(0), Fraction(0)
            for x, w in sorted(zip(column, weights, strict=True)):
                area += x * max(Fraction(0), min(upto + w, high) - max(upto, low))
                upto += w
            result.append(area / (high - low))
        return result

    return reference


def squared(a: list[Fraction], b: list[Fraction]) -> Fraction:
    return sum(((x - y) ** 2 for x, y in zip(a, b, strict=True)), Fraction(0))


def krum_score(index: int, rows: Rows, neighbours: int) -> Fraction:
    distances = sorted(squared(rows[index], other) for k, other in enumerate(rows) if k != index)
    return sum(distances[:neighbours], Fraction(0))


def by_score(rows: Rows, weights: list[Fraction], neighbours: int) -> list[int]:
    return sorted(range(len(rows)), key=lambda i: (krum_score(i, rows, neighbours), rows[i], weights[i]))


def naive_krum(byzantine: int) -> Reference:
    def reference(rows: Rows, weights: list[Fraction]) -> list[Fraction]:
        return rows[by_score(rows, weights, len(rows) - byzantine - 2)[0]]

    return reference


def naive_multi_krum(byzantine: int, keep: int | None) -> Reference:
    def reference(rows: Rows, weights: list[Fraction]) -> list[Fraction]:
        best = by_score(rows, weights, len(rows) - byzantine - 2)[: keep or len(rows) - byzantine]
        return naive_mean([rows[i] for i in best], [weights[i] for i in best])

    return reference


def nearest_to_median(rows: Rows, weights: list[Fraction], keep: int) -> list[Fraction]:
    """Values at one distance take the average of their places, in value and in weight."""
    result = []
    for column in zip(*rows, strict=True):
        ordered = sorted(column)
        median = (ordered[(len(ordered) - 1) // 2] + ordered[len(ordered) // 2]) / 2
        tied: dict[Fraction, list[tuple[Fraction, Fraction]]] = {}
        for x, w in zip(column, weights, strict=True):
            tied.setdefault(abs(x - median), []).append((w * x, w))
        places = [
            (naive_sum(p for p, _ in group) / len(group), naive_sum(w for _, w in group) / len(group))
            for _, group in sorted(tied.items())
            for _ in group
        ][:keep]
        result.append(naive_sum(p for p, _ in places) / naive_sum(w for _, w in places))
    return result


def naive_sum(values: Iterable[Fraction]) -> Fraction:
    return sum(values, Fraction(0))


def naive_mean_around_median(byzantine: int) -> Reference:
    return lambda rows, weights: nearest_to_median(rows, weights, len(rows) - byzantine)


def naive_bulyan(byzantine: int) -> Reference:
    def reference(rows: Rows, weights: list[Fraction]) -> list[Fraction]:
        left, selected = list(zip(rows, weights, strict=True)), []
        for _ in range(len(rows) - 2 * byzantine):
            first = by_score([r for r, _ in left], [w for _, w in left], max(1, len(left) - byzantine - 2))[0]
            selected.append(left.pop(first))
        keep = len(selected) - 2 * byzantine
        return nearest_to_median([r for r, _ in selected], [w for _, w in selected], keep)

    return reference


def naive_minimum_diameter(byzantine: int) -> Reference:
    def reference(rows: Rows, weights: list[Fraction]) -> list[Fraction]:
        ranked = sorted(zip(rows, weights, strict=True))
        apart = [[squared(a, b) for b, _ in ranked] for a, _ in ranked]
        chosen = min(
            itertools.combinations(range(len(rows)), len(rows) - byzantine),
            key=lambda some: max(apart[a][b] for a in some for b in some),
        )
        return naive_mean([ranked[i][0] for i in chosen], [ranked[i][1] for i in chosen])

    return reference


def naive_geometric_median(rule: GeometricMedian) -> Reference:
    """Plain Weiszfeld on the points, from the mean: its sum of distances is what counts."""

    def reference(rows: Rows, weights: list[Fraction]) -> list[Fraction]:
        points, w = as_floats(rows), np.array([float(x) for x in weights])
        v = w @ points / w.sum()
        for _ in range(400):
            pull = w / np.maximum(np.linalg.norm(points - v, axis=1), rule.smoothing)
            v = pull @ points / pull.sum()
        return [Fraction(x) for x in v.tolist()]

    return reference


def naive_centred_clipping(rule: CentredClipping) -> Reference:
    def reference(rows: Rows, weights: list[Fraction]) -> list[Fraction]:
        v = [0.0] * len(rows[0])
        for _ in range(rule.iterations):
            pulls = []
            for row, weight in zip(as_floats(rows).tolist(), weights, strict=True):
                length = math.dist(row, v)
                factor = float(weight / sum(weights)) * min(1.0, rule.radius / length if length else 1.0)
                pulls.append([factor * (x - y) for x, y in zip(row, v, strict=True)])
            v = [y + sum(column) for y, column in zip(v, zip(*pulls, strict=True), strict=True)]
        return [Fraction(x) for x in v]

    return reference


def as_floats(rows: Rows) -> F64:
    return np.array([[float(x) for x in row] for row in rows])
