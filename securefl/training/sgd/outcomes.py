"""Outcomes of training and evaluation, without torch."""

from __future__ import annotations

from dataclasses import dataclass

from securefl.base.arrays import F32
from securefl.base.errors import SecureflError


class TrainingDivergedError(SecureflError):
    """Parameters that are not finite after local training; no part of them may be sent."""


class GradientNotFiniteError(SecureflError):
    """Loss without a finite gradient on some samples; no rule can use it."""


class NoTestSet:
    """Evaluator of a server without data."""

    def evaluate(self, params: F32) -> Evaluation | None:
        """Return None: the server cannot evaluate a model."""
        del params
        return None


@dataclass(frozen=True)
class Evaluation:
    """Accuracy in [0, 1], and mean cross-entropy in nats, ``inf`` if any output is not finite."""

    accuracy: float
    loss: float
    backdoor_success: float | None = None
    """Share of patched test samples of other classes with the target class as result, or None."""
