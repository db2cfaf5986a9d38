"""Inner product manipulation."""

from securefl import scenario
from securefl.base.arrays import F64
from securefl.base.entropy import Entropy


class InnerProductManipulation(
    scenario.InformedAttack, tag="inner-product-manipulation", frozen=True, kw_only=True
):
    """Minus ``epsilon`` times the mean of the known honest updates.

    Example:
        >>> InnerProductManipulation(epsilon=0.5)([[1.0, 2.0], [2.0, 3.0], [3.0, 4.0]])
        array([-1. , -1.5])
    """

    epsilon: scenario.PositiveReal = 0.5
    """Factor of the mean."""

    @property
    def rows_needed(self) -> int:
        return 1

    def collude(self, known: F64, actors: int, entropy: Entropy) -> F64:
        return inner_product_manipulation(known, self.epsilon)


def inner_product_manipulation(known: F64, epsilon: float) -> F64:
    """Return -``epsilon`` times the mean of the known updates, ``epsilon`` > 0; every attacker sends it.

    The product of the mean of all updates with the honest direction is negative for ``epsilon`` > (n - q) /
    q. Distance-based rules accept smaller values.

    Knows: all honest updates in the source; in the coalition's form, those of its members as an estimate.
    Source: Xie, Koyejo and Gupta 2020 (arXiv 1903.03936), "Fall of empires".
    """
    sent: F64 = known.mean(axis=0) * -epsilon
    return sent
