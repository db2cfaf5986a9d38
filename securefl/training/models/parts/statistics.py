"""Model for statistics: one number that no party trains."""

from typing import ClassVar

from securefl import scenario

NAME = "statistics"


class StatisticsOnly(scenario.Model, tag="statistics", frozen=True, kw_only=True):
    """No model: the round of ``securefl statistics`` (docs/statistics.md)."""

    reads = "both"
    by_sites: ClassVar[bool] = True
    by_columns: ClassVar[bool] = True

    def build(self, input_shape: tuple[int, ...], classes: int) -> object:
        import numpy as np

        from securefl.training.models.tensors import Tensors

        del input_shape, classes
        return Tensors({NAME: np.zeros(1, np.float32)}, "model")
