"""FedProx: a pull back to the round's model."""

from __future__ import annotations

from securefl.scenario import LocalMethod, PositiveReal, Tensor


class FedProx(LocalMethod, tag="fedprox", frozen=True, kw_only=True):
    """The loss has ``mu`` / 2 times the squared distance to the round's model added to it.

    Source: Li et al. 2020, "Federated optimization in heterogeneous networks" (arXiv 1812.06127), equation 2.
    """

    mu: PositiveReal

    def correct(self, slope: Tensor, weight: Tensor, begun: Tensor, shift: Tensor | None) -> Tensor:
        return slope + self.mu * (weight - begun)
