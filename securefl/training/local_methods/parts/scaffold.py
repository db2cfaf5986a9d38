"""SCAFFOLD: control variates against the drift of parties whose data differ."""

from typing import ClassVar

from securefl import scenario


class Scaffold(scenario.LocalMethod, tag="scaffold", frozen=True, kw_only=True):
    """Each gradient has c - c_i added: everybody's mean gradient less the party's own, of the last time.

    In the source c_i+ = c_i - c + (x - y_i) / (K eta) (option II), which is the mean of the K gradients
    before their correction; that is what a party keeps here, whatever its optimiser makes of gradients.

    The source sends c_i+ - c_i, so that c stays the mean of all c_i. One upload that is lost, left out by
    the rule or by a restart breaks that for good. A party sends ``share`` (c_i+ - c) here: with everybody
    there and ``share`` 1 the same numbers, and c is a mean of gradients whatever was lost.

    Source: Karimireddy et al. 2020, "SCAFFOLD: stochastic controlled averaging for federated learning"
    (arXiv 1910.06378), algorithm 1.
    """

    controls: ClassVar[bool] = True

    share: scenario.Fraction = 1.0
    """How far c moves towards the mean c_i+ of a round's participants: |S| / N in the source."""

    def correct(
        self,
        slope: scenario.Tensor,
        weight: scenario.Tensor,
        begun: scenario.Tensor,
        shift: scenario.Tensor | None,
    ) -> scenario.Tensor:
        return slope if shift is None else slope + shift

    def reported(self, control: scenario.Tensor, own: scenario.Tensor) -> scenario.Tensor:
        return control + self.share * (own - control)
