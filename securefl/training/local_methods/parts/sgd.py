"""Plain SGD."""

from securefl import scenario


class LocalSgd(scenario.LocalMethod, tag="sgd", frozen=True, kw_only=True):
    """Uncorrected gradients (McMahan et al. 2017)."""

    @property
    def plain(self) -> bool:
        return True

    def correct(
        self,
        slope: scenario.Tensor,
        weight: scenario.Tensor,
        begun: scenario.Tensor,
        shift: scenario.Tensor | None,
    ) -> scenario.Tensor:
        return slope
