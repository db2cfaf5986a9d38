"""One trial: a drawn problem, and every method on it."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from msgspec import Struct

from securefl.arrays import F64
from securefl.behaviours.attacks.alie import alie
from securefl.groups.adversary import Adversary, Outlier, SmallestGroup, reversed_mean
from securefl.groups.descent import Settings, descend
from securefl.groups.generate import Drawn, Setup, draw, random_models
from securefl.groups.recovery import matched_distance, nearest_distance, recovery_rate
from securefl.groups.rule import TrimmedShare
from securefl.groups.starts import halves, near_truth, split
from securefl.groups.three_stage import three_stage
from securefl.reproduce.groups.sheet import Common, Method

REVERSED = 10.0
"""How many times the honest mean the plain attack on the smallest group sends, the other way."""
ALIE_Z = 1.0


class Outcome(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What one method came to in one trial."""

    nearest: float
    """Mean distance to the nearest truth: the paper's metric as its authors compute it."""
    matched: float
    """Mean distance under the best one-to-one matching."""
    recovered: float
    """Share of honest machines in their own group."""
    seconds: float

    @property
    def numbers(self) -> tuple[float, ...]:
        """What was measured, time apart."""
        return self.nearest, self.matched, self.recovered


@dataclass(frozen=True, slots=True)
class Trial:
    """One seed at one point."""

    setup: Setup
    common: Common
    number: int

    def run(self, methods: Sequence[Method]) -> Iterator[tuple[Method, Outcome]]:
        """Run them one after the other, all on the same data and, where they start near the truth, there."""
        setup = self.setup
        key = (self.number, setup.groups, setup.machines, setup.dimension, setup.points)
        drawn = draw(setup, np.random.default_rng((*key, 0)))
        near = near_truth(drawn, self.common.near, np.random.default_rng((*key, 1)))
        minimisers: F64 | None = None
        for method in methods:
            rng = np.random.default_rng((*key, 2))
            begun = time.perf_counter()
            if method.stages != "one" and minimisers is None:
                minimisers = drawn.problem.minimisers()
            models, choice = self._models(method, drawn, near, minimisers, rng)
            yield (
                method,
                Outcome(
                    nearest=round(nearest_distance(models, drawn.truth), 5),
                    matched=round(matched_distance(models, drawn.truth), 5),
                    recovered=round(recovery_rate(choice, drawn.labels, ~drawn.byzantine, setup.groups), 5),
                    seconds=round(time.perf_counter() - begun, 2),
                ),
            )

    def _models(
        self, method: Method, drawn: Drawn, near: F64, minimisers: F64 | None, rng: np.random.Generator
    ) -> tuple[F64, np.ndarray[tuple[int, ...], np.dtype[np.intp]]]:
        common, groups = self.common, self.setup.groups
        settings = Settings(
            rule=TrimmedShare(common.trim) if method.rule is None else method.rule,
            rate=common.rate,
            iterations=common.iterations,
        )
        problem, liars, adversary = drawn.problem, drawn.byzantine, _adversary(method)
        if method.stages != "one":
            oracle = drawn.truth if method.stages == "three-oracle" else None
            staged = three_stage(
                problem, groups, common.trim, settings, rng, liars, adversary, oracle, minimisers
            )
            return staged.descent.models, staged.groups
        start = near
        if method.start == "random":
            start = random_models(self.setup, rng)
        elif method.start == "split":
            start = split(problem, groups, settings, rng, liars, adversary, cluster=method.cluster)
        elif method.start == "halves":
            start = halves(problem, groups, settings, rng, liars, adversary, cluster=method.cluster)
        done = descend(problem, start, settings, liars, adversary)
        return done.models, done.choice


def _adversary(method: Method) -> Adversary | None:
    match method.against:
        case "outliers":
            return Outlier()
        case "smallest-group":
            return SmallestGroup(reversed_mean(REVERSED))
        case "alie":
            return SmallestGroup(lambda known: alie(known, ALIE_Z))
        case "nobody":
            return None
