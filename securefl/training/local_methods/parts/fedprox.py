"""FedProx: a pull back to the round's model."""

from securefl import scenario


class FedProx(scenario.LocalMethod, tag="fedprox", frozen=True, kw_only=True):
    """The loss has ``mu`` / 2 times the squared distance to the round's model added to it.

    Source: Li et al. 2020, "Federated optimization in heterogeneous networks" (arXiv 1812.06127), equation 2.
    """

    mu: scenario.PositiveReal

    def correct(
        self,
        slope: scenario.Tensor,
        weight: scenario.Tensor,
        begun: scenario.Tensor,
        shift: scenario.Tensor | None,
    ) -> scenario.Tensor:
        return slope + self.mu * (weight - begun)
