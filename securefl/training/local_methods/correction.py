"""A local method at work in one training, with the control variates that a party keeps for the next."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from securefl.scenario import LocalMethod


class KeptControls:
    """A party's own control variates, from training to training; zeros before the first."""

    def __init__(self) -> None:
        self.own: list[torch.Tensor] | None = None


class Correction:
    """Corrects the gradients of one training.

    Args:
        method: of the scenario, or of a site.
        weights: that are trained, with the values of the round's model.
        controls: the server's control variates, one of each weight, as they came; empty without.
        kept: the party's own; replaced by :meth:`end`.
    """

    def __init__(
        self,
        method: LocalMethod,
        weights: Sequence[torch.Tensor],
        controls: Sequence[torch.Tensor],
        kept: KeptControls,
    ) -> None:
        self._method, self._weights, self._kept = method, weights, kept
        self._begun = [weight.detach().clone() for weight in weights]
        self._controls = [control.detach().clone() for control in controls]
        self._sums: list[torch.Tensor] = []
        self._shifts: list[torch.Tensor | None] = [None] * len(weights)
        self._steps = 0
        if method.controls:
            own = kept.own or [torch.zeros_like(control) for control in self._controls]
            self._sums = [torch.zeros_like(control) for control in self._controls]
            self._shifts = [c - mine.to(c) for c, mine in zip(self._controls, own, strict=True)]

    def correct(self, slopes: Sequence[torch.Tensor | None]) -> list[torch.Tensor | None]:
        """The gradients of a batch, corrected; None stays None, where a weight had no part in the loss."""
        self._steps += 1
        for total, slope in zip(self._sums, slopes, strict=False):
            if slope is not None:
                total.add_(slope)
        return [
            None if slope is None else self._method.correct(slope, weight.detach(), begun, shift)
            for slope, weight, begun, shift in zip(
                slopes, self._weights, self._begun, self._shifts, strict=True
            )
        ]

    def end(self) -> list[torch.Tensor]:
        """Keep the party's new control variates; what it returns for the server's. Empty without.

        Those of a training that diverged are not kept: every later one would begin with them.
        """
        if not self._method.controls:
            return []
        steps = max(1, self._steps)
        means = [total / steps for total in self._sums]
        if bool(torch.stack([mean.isfinite().all() for mean in means]).all()):  # one wait for a GPU
            self._kept.own = means
        return [
            self._method.reported(control, own) for control, own in zip(self._controls, means, strict=True)
        ]
