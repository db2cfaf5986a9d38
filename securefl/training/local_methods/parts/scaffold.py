"""SCAFFOLD."""

from typing import ClassVar

from securefl import scenario


class Scaffold(scenario.LocalMethod, tag="scaffold", frozen=True, kw_only=True):
    """SCAFFOLD: add c - c_i to each gradient: the mean gradient of all parties minus the party's own.

    In the source c_i+ = c_i - c + (x - y_i) / (K eta) (option II), the mean of the K gradients before their
    correction. Here a party stores that mean, for any local optimiser.

    In the source a party sends c_i+ - c_i, so that c stays the mean of all c_i, until an upload is lost or
    left out by the rule. Here a party sends ``share`` (c_i+ - c). With all parties present and ``share`` 1
    the numbers are equal, and c stays a mean of gradients after any loss.

    Source: Karimireddy et al. 2020, "SCAFFOLD: stochastic controlled averaging for federated learning" (arXiv
    1910.06378), algorithm 1.

    >>> import securefl
    >>> securefl.Scaffold().correct(slope=1.0, weight=3.0, begun=1.0, shift=0.25)
    1.25
    """

    controls: ClassVar[bool] = True

    share: scenario.Fraction = 1.0
    """Share of parties in a round, |S| / N in the source: the step of c towards the mean c_i+ of the
    participants."""

    def correct(
        self,
        slope: scenario.Tensor,
        weight: scenario.Tensor,
        begun: scenario.Tensor,
        shift: scenario.Tensor | None,
    ) -> scenario.Tensor:
        return slope if shift is None else slope + shift

    def report_control(self, control: scenario.Tensor, own: scenario.Tensor) -> scenario.Tensor:
        return control + self.share * (own - control)
