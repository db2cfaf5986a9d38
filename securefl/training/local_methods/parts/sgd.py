"""Plain SGD, as FedAvg has it."""

from __future__ import annotations

from securefl.scenario import LocalMethod, Tensor


class LocalSgd(LocalMethod, tag="sgd", frozen=True, kw_only=True):
    """Gradients as they are (McMahan et al. 2017)."""

    @property
    def plain(self) -> bool:
        return True

    def correct(self, slope: Tensor, weight: Tensor, begun: Tensor, shift: Tensor | None) -> Tensor:
        return slope
