"""Label shift."""

from securefl import scenario
from securefl.base.arrays import I64, Inputs
from securefl.base.errors import ConfigError


class LabelShift(scenario.DataAttack, tag="label-shift", frozen=True, kw_only=True):
    """Class y becomes (y + shift) mod classes.

    >>> import numpy as np
    >>> from securefl.attacks import LabelShift
    >>> x, y = np.zeros((2, 1, 4, 4), dtype=np.float32), np.array([1, 2])
    >>> LabelShift(count=1).poison(x, y, classes=10)[1]
    array([2, 3])
    """

    shift: int = 1
    """Distance between true and false class."""

    def poison(self, x: Inputs, y: I64, classes: int) -> tuple[Inputs, I64]:
        return x, shift_labels(y, classes, self.shift)

    def check(self, path: str, parties: int) -> None:
        if self.shift == 0:
            raise ConfigError(f"{path}.shift", "0 changes no label", "set another one, as in shift = 1")

    def check_on_data(self, path: str, classes: int, shape: tuple[int, ...]) -> None:
        if self.shift % classes == 0:
            reason = f"{self.shift} changes none of the {classes} labels"
            raise ConfigError(f"{path}.shift", reason, "as in shift = 1")


def shift_labels(y: I64, classes: int, shift: int) -> I64:
    """Return the labels with class y as (y + ``shift``) mod ``classes``, i64 (n,).

    Source: a common variant of label flipping without its fixed points. Portnoy et al. (2022, section 3.1.3)
    use the same name for y to 9 - y.
    """
    return (y + shift) % classes
