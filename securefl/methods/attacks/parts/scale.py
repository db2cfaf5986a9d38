"""Scaled or negated update."""

from securefl import scenario
from securefl.base.arrays import F32, F64
from securefl.base.entropy import Entropy
from securefl.base.errors import ConfigError


class Scale(scenario.UpdateAttack, tag="scale", frozen=True, kw_only=True):
    """Own update times ``factor``: -1 flips the sign, -10 and -100 are scaled sign flips.

    Example:
        >>> Scale(factor=-10.0)([1.0, 2.0])
        array([-10., -20.])
    """

    factor: float = -1.0
    """Factor of the update."""

    def craft(self, update: F64, before: F32, entropy: Entropy) -> F64:
        return scale_update(update, self.factor)

    def check(self, path: str, parties: int) -> None:
        super().check(path, parties)
        if self.factor == 1:
            raise ConfigError(
                f"{path}.factor", "1 does not change the update", "set another one, as in factor = -1"
            )


def scale_update(update: F64, factor: float) -> F64:
    """Return ``factor`` times the own update.

    With q attackers of n equal weights the mean of all changes its sign from ``factor`` < -(n - q) / q on.

    Knows: only its own update.
    Source: SHARE (Velicheti et al. 2021), section 6; Li et al. 2019 (arXiv 1811.03761), sign flipping.
    """
    return update * factor
