"""Label flipping."""

from securefl import scenario
from securefl.base.arrays import I64, Inputs


class LabelFlip(scenario.DataAttack, tag="label-flip", frozen=True, kw_only=True):
    """Class y becomes classes - 1 - y.

    >>> import numpy as np
    >>> from securefl.attacks import LabelFlip
    >>> x, y = np.zeros((2, 1, 4, 4), dtype=np.float32), np.array([1, 2])
    >>> LabelFlip(count=1).poison(x, y, classes=10)[1]
    array([8, 7])
    """

    def poison(self, x: Inputs, y: I64, classes: int) -> tuple[Inputs, I64]:
        return x, flip_labels(y, classes)


def flip_labels(y: I64, classes: int) -> I64:
    """Return the labels with class y as ``classes - 1 - y``, i64 (n,).

    Source: Fang et al. 2020 (arXiv 1911.11815).
    """
    return (classes - 1) - y
