"""Outcomes of training and evaluation, apart from the code that needs torch, so anybody can name them."""

from __future__ import annotations

from dataclasses import dataclass

from securefl.base.arrays import F32
from securefl.base.errors import SecureflError


class TrainingDivergedError(SecureflError):
    """Local training ended in parameters that are not finite; nothing of it may be sent."""


class GradientNotFiniteError(SecureflError):
    """The loss of a model has no finite gradient on some samples; no rule can go by it."""


class NoTestSet:
    """Stands for the evaluator of a server without any data."""

    def evaluate(self, params: F32) -> Evaluation | None:
        """None: nobody here can say how good a model is."""
        del params
        return None


@dataclass(frozen=True)
class Evaluation:
    """``accuracy`` in [0, 1]; ``loss``: mean cross-entropy in nats, ``inf`` if any output is not finite."""

    accuracy: float
    loss: float
    backdoor_success: float | None = None
    """Share of the patched test samples that the model takes for the target class, of those that are not of
    it; None without a backdoor."""
