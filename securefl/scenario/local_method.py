"""Bases of the ``training.method`` table and of the ``[server_optimiser]`` table."""

from typing import Any, ClassVar

import numpy as np

from securefl.base.arrays import F64
from securefl.scenario.parts import Part
from securefl.scenario.section import PositiveReal

Tensor = Any
"""A ``torch.Tensor``; tables are read without torch too."""


class LocalMethod(Part, tag_field="type", frozen=True, kw_only=True):
    """Base of corrections of local gradients. A subclass is one method with its parameters.

    >>> import securefl
    >>> class Shrink(securefl.LocalMethod, frozen=True, kw_only=True):
    ...     rate: float = 0.1
    ...     def correct(self, slope, weight, begun, shift):
    ...         return slope + self.rate * weight
    >>> Shrink().correct(slope=1.0, weight=2.0, begun=0.0, shift=None)
    1.2
    """

    homes: ClassVar[tuple[str, ...]] = ("securefl.training.local_methods.parts",)
    usual: ClassVar[str] = "sgd"
    implied: ClassVar[bool] = True
    required: ClassVar[tuple[str, ...]] = ("correct",)
    controls: ClassVar[bool] = False
    """True if control variates, as many numbers again, travel with the parameters."""

    @property
    def plain(self) -> bool:
        """True if gradients are unchanged."""
        return False

    def correct(self, slope: Tensor, weight: Tensor, begun: Tensor, shift: Tensor | None) -> Tensor:
        """Return the gradient to use in place of ``slope``; arguments must not be changed.

        All have one shape.

        Args:
            slope: gradient of a batch's loss.
            weight: current weight.
            begun: weight of the round's model.
            shift: server's control variate minus the party's; None without ``controls``.
        """
        raise NotImplementedError

    def report_control(self, control: Tensor, own: Tensor) -> Tensor:
        """Return the party's contribution to the server's control variate ``control``.

        Only methods with ``controls`` need it. ``own`` is its new control variate: the mean of its
        uncorrected gradients in this training.
        """
        del control
        return own


class ServerOptimiser(Part, tag_field="type", frozen=True, kw_only=True):
    """Base of optimisers that step the model by aggregated updates. A subclass is one optimiser.

    It acts on weights only; buffers and control variates are averaged.

    Verifiers repeat the step and compare bits: use operations that IEEE 754 rounds in one way (+, -, *, /,
    square root), coordinate by coordinate. Do not use powers, logarithms or sums over coordinates.

    >>> import numpy as np, securefl
    >>> class Half(securefl.ServerOptimiser, frozen=True, kw_only=True):
    ...     def step(self, moments, update, round_):
    ...         return update / 2, moments
    >>> Half().step(np.zeros((0, 2)), np.array([1.0, 3.0]), 0)[0]
    array([0.5, 1.5])
    """

    homes: ClassVar[tuple[str, ...]] = ("securefl.methods.server_optimisers.parts",)
    usual: ClassVar[str] = "sgd"
    implied: ClassVar[bool] = True
    required: ClassVar[tuple[str, ...]] = ("step",)
    moments: ClassVar[int] = 1
    """s, number of vectors carried between rounds besides the model."""
    scales_updates: ClassVar[bool] = True
    """True if the step is proportional to the update; step / learning rate is then an update."""

    learning_rate: PositiveReal = 1.0
    """Length of the server's step."""

    def begin(self, length: int) -> F64:
        """Return the moments before round 0, f64 ``(s, length)``."""
        return np.zeros((self.moments, length))

    def step(self, moments: F64, update: F64, round_: int) -> tuple[F64, F64]:
        """Return the change of the parameters, f64 ``(d,)``, and the new moments, f64 ``(s, d)``.

        ``moments`` f64 ``(s, d)`` must not be changed. ``update`` f64 ``(d,)`` is the round's aggregate,
        ``round_`` counts from 0.
        """
        raise NotImplementedError

    def past(self, moments: F64) -> F64:
        """Return a mean of past aggregates, f64 ``(d,)``, for rules with a memory; zero before round 0."""
        past: F64 = moments[0]
        return past
