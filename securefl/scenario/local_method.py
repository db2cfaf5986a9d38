"""The ``training.method`` table: what local training changes in plain SGD.

The base class holds what every method states; each is a file in
:mod:`securefl.training.local_methods.parts`, with formula and source.

The ``[server_optimiser]`` table: what the server makes of a round's aggregated update.

The base class holds what every optimiser states; each is a file in
:mod:`securefl.methods.server_optimisers.parts`, with formula and source.
"""

from typing import Any, ClassVar

import numpy as np

from securefl.base.arrays import F64
from securefl.scenario.parts import Part
from securefl.scenario.section import PositiveReal

Tensor = Any
"""A ``torch.Tensor``; tables are read where there is no torch."""


class LocalMethod(Part, tag_field="type", frozen=True, kw_only=True):
    """A correction of each local gradient; a subclass is one method with its parameters."""

    homes: ClassVar[tuple[str, ...]] = ("securefl.training.local_methods.parts",)
    usual: ClassVar[str] = "sgd"
    implied: ClassVar[bool] = True
    required: ClassVar[tuple[str, ...]] = ("correct",)
    controls: ClassVar[bool] = False
    """Whether control variates travel beside the parameters, as many numbers again."""

    @property
    def plain(self) -> bool:
        """Whether it leaves gradients as they are."""
        return False

    def correct(self, slope: Tensor, weight: Tensor, begun: Tensor, shift: Tensor | None) -> Tensor:
        """The gradient to descend along, in place of ``slope``; nothing that is given may be changed.

        Args:
            slope: of the loss of a batch.
            weight: as it is.
            begun: the weight that the round's model has.
            shift: the server's control variate less the party's own; None without ``controls``.
        """
        raise NotImplementedError

    def reported(self, control: Tensor, own: Tensor) -> Tensor:
        """With ``controls``: what the party returns for the server's control variate.

        Args:
            control: the server's, as it came.
            own: the party's new one: the mean of its gradients in this training, uncorrected.
        """
        del control
        return own


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
