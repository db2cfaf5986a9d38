"""The ``[server_optimiser]`` table: what the server makes of a round's aggregated update.

The base class holds what every optimiser states; each is a file in
:mod:`securefl.methods.server_optimisers.parts`, with formula and source.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from securefl.base.arrays import F64
from securefl.scenario.parts import Part
from securefl.scenario.section import PositiveReal


class ServerOptimiser(Part, tag_field="type", frozen=True, kw_only=True):
    """A step of the model from aggregated updates; a subclass is one optimiser with its parameters.

    It acts on weights only: the server averages buffers and control variates as FedAvg does.

    Verifiers repeat the step and compare bits: use operations that IEEE 754 rounds in one way (+, -, *, /,
    square root), coordinate by coordinate, and neither powers nor logarithms nor sums over coordinates.
    """

    homes: ClassVar[tuple[str, ...]] = ("securefl.methods.server_optimisers.parts",)
    usual: ClassVar[str] = "sgd"
    implied: ClassVar[bool] = True
    required: ClassVar[tuple[str, ...]] = ("step",)
    moments: ClassVar[int] = 1
    """s: vectors that it carries from round to round, besides the model."""
    scales_updates: ClassVar[bool] = True
    """Whether twice the update makes twice the step; then the step over the learning rate is an update."""

    learning_rate: PositiveReal = 1.0

    def begin(self, length: int) -> F64:
        """Moments before the first round, f64 ``(s, length)``."""
        return np.zeros((self.moments, length))

    def step(self, moments: F64, update: F64, round_: int) -> tuple[F64, F64]:
        """What is added to the parameters, f64 ``(d,)``, and the new moments, f64 ``(s, d)``.

        Args:
            moments: f64 ``(s, d)``; it must not be changed.
            update: the round's aggregated update, f64 ``(d,)``.
            round_: its number, from 0.
        """
        raise NotImplementedError

    def past(self, moments: F64) -> F64:
        """A mean of past aggregates, f64 ``(d,)``, for rules with a memory; zero before the first.

        Unless a subclass says otherwise: the first moment.
        """
        past: F64 = moments[0]
        return past
