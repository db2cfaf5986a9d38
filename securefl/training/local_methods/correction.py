"""Application of a local method in one training."""

from collections.abc import Sequence
from typing import Final

import torch

from securefl import scenario

_HALVES: Final = (torch.float16, torch.bfloat16)


class KeptControls:
    """Control variates that a party keeps from training to training; None before the first."""

    def __init__(self) -> None:
        self.own: list[torch.Tensor] | None = None


class Correction:
    """Correction of the gradients of one training.

    Args:
        weights: with the values of the round's model.
        controls: the server's control variates, one for each weight, as received; empty without them.
        kept: the party's own; :meth:`end` replaces them.
    """

    def __init__(
        self,
        method: scenario.LocalMethod,
        weights: Sequence[torch.Tensor],
        controls: Sequence[torch.Tensor],
        kept: KeptControls,
    ) -> None:
        self._method, self._weights, self._kept = method, weights, kept
        self._begun = [weight.detach().clone() for weight in weights]
        self._controls = [_wide(control.detach().clone()) for control in controls]
        self._sums: list[torch.Tensor] = []
        self._shifts: list[torch.Tensor | None] = [None] * len(weights)
        self._steps = 0
        if method.controls:
            own = kept.own or [torch.zeros_like(control) for control in self._controls]
            self._sums = [torch.zeros_like(control) for control in self._controls]
            self._shifts = [c - mine.to(c) for c, mine in zip(self._controls, own, strict=True)]

    def correct(self, slopes: Sequence[torch.Tensor | None]) -> list[torch.Tensor | None]:
        """Return the gradients of a batch, corrected: dense, in the dtypes of the weights.

        A weight without a part in the loss has a gradient of zeros; a frozen one keeps None. Half precision
        is corrected in single precision: its smallest steps exceed ``mu`` times a small distance.
        """
        self._steps += 1
        if not self._sums:
            return [self._correct_slope(number, slope) for number, slope in enumerate(slopes)]
        dense = [None if slope is None else _wide(slope) for slope in slopes]
        for total, slope in zip(self._sums, dense, strict=True):
            if slope is not None:
                total.add_(slope)
        return [self._correct_slope(number, slope) for number, slope in enumerate(dense)]

    def _correct_slope(self, number: int, slope: torch.Tensor | None) -> torch.Tensor | None:
        weight, shift = self._weights[number], self._shifts[number]
        if slope is None and not weight.requires_grad:
            return None
        now = _wide(weight.detach())
        found = torch.zeros_like(now) if slope is None else _wide(slope)
        corrected: torch.Tensor = self._method.correct(found, now, _wide(self._begun[number]), shift)
        return corrected.to(weight.dtype)

    def end(self) -> list[torch.Tensor]:
        """Keep the party's new control variates; return its contribution to the server's, or an empty list.

        Those of a training that diverged are not kept.
        """
        if not self._method.controls:
            return []
        steps = max(1, self._steps)
        means = [total / steps for total in self._sums]
        if bool(torch.stack([mean.isfinite().all() for mean in means]).all()):  # one wait for a GPU
            self._kept.own = means
        return [
            self._method.report_control(control, own)
            for control, own in zip(self._controls, means, strict=True)
        ]


def _wide(tensor: torch.Tensor) -> torch.Tensor:
    """Return the tensor, dense and at least in single precision."""
    dense = tensor if tensor.layout == torch.strided else tensor.to_dense()
    return dense.to(torch.float32) if dense.dtype in _HALVES else dense
