"""Algorithm 1 once more, with loops and nothing shared: the oracle of these tests."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

F64 = npt.NDArray[np.float64]
Points = tuple[F64, F64]
"""x (n, d) and y (n,)."""


def loss(points: Points, theta: F64) -> float:
    total = 0.0
    for x, y in zip(*points, strict=True):
        total += (y - sum(a * b for a, b in zip(x, theta, strict=True))) ** 2
    return total / len(points[1])


def gradient(points: Points, theta: F64) -> F64:
    total = np.zeros(len(theta))
    for x, y in zip(*points, strict=True):
        total += 2 * (float(x @ theta) - y) * x
    return total / len(points[1])


def coordinate_median(vectors: Sequence[F64]) -> F64:
    return np.array([float(np.median([v[i] for v in vectors])) for i in range(len(vectors[0]))])


def coordinate_mean(vectors: Sequence[F64]) -> F64:
    return np.array([sum(v[i] for v in vectors) / len(vectors) for i in range(len(vectors[0]))])


def coordinate_trimmed(share: float) -> Callable[[Sequence[F64]], F64]:
    def rule(vectors: Sequence[F64]) -> F64:
        cut = 0
        while cut < share * len(vectors) - 1e-9 and 2 * cut + 2 < len(vectors):
            cut += 1
        out = []
        for i in range(len(vectors[0])):
            values = sorted(v[i] for v in vectors)[cut : len(vectors) - cut]
            out.append(sum(values) / len(values))
        return np.array(out)

    return rule


@dataclass
class Run:
    models: list[F64]
    groups: list[int]


def run(
    machines: Sequence[Points],
    liars: set[int],
    start: F64,
    rule: Callable[[Sequence[F64]], F64],
    rate: float,
    iterations: int,
    radius: float,
) -> Run:
    """Honest machines as in Algorithm 1; liars look at three times the models, as in the experiment."""
    models = [row.copy() for row in start]
    groups: list[int] = []
    for _ in range(iterations):
        groups, sent = [], []
        for number, points in enumerate(machines):
            seen = [3 * model if number in liars else model for model in models]
            losses = [loss(points, model) for model in seen]
            group = losses.index(min(losses))
            groups.append(group)
            sent.append(gradient(points, seen[group]))
        for j in range(len(models)):
            members = [g for g, group in zip(sent, groups, strict=True) if group == j]
            if members:
                stepped = models[j] - rate * rule(members)
                length = float(np.sqrt((stepped**2).sum()))
                models[j] = stepped if length <= radius else stepped * radius / length
    return Run(models, groups)
