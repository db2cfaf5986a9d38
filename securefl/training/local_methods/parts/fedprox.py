"""FedProx."""

from securefl import scenario


class FedProx(scenario.LocalMethod, tag="fedprox", frozen=True, kw_only=True):
    """FedProx: add ``mu`` / 2 times the squared distance from the round's model to the loss.

    Source: Li et al. 2020, "Federated optimization in heterogeneous networks" (arXiv 1812.06127), equation 2.

    >>> import securefl
    >>> securefl.FedProx(mu=0.5).correct(slope=1.0, weight=3.0, begun=1.0, shift=None)
    2.0
    """

    mu: scenario.PositiveReal
    """Factor of the proximal term, which adds ``mu`` (weight - the round's weight) to the gradient."""

    def correct(
        self,
        slope: scenario.Tensor,
        weight: scenario.Tensor,
        begun: scenario.Tensor,
        shift: scenario.Tensor | None,
    ) -> scenario.Tensor:
        return slope + self.mu * (weight - begun)
