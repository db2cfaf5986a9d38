"""Scaled mean of the coalition's own updates."""

from securefl import scenario
from securefl.base.arrays import F64
from securefl.base.entropy import Entropy


class FallOfEmpires(scenario.CoalitionAttack, tag="fall-of-empires", frozen=True, kw_only=True):
    """Mean of the coalition's updates times ``factor`` (SHARE, appendix D.1.1: beta).

    Example:
        >>> FallOfEmpires(factor=-1.0)([[1.0, 2.0], [2.0, 3.0], [3.0, 4.0]])
        array([-2., -3.])
    """

    factor: float = -1.0
    """Factor (SHARE's beta)."""

    def collude(self, known: F64, actors: int, entropy: Entropy) -> F64:
        return fall_of_empires(known, self.factor)


def fall_of_empires(known: F64, factor: float) -> F64:
    """Return ``factor`` times the mean of the coalition's own updates; every member sends it.

    Knows: the trained updates of its coalition. With one attacker it equals ``scale``.
    Source: SHARE (Velicheti et al. 2021), appendix D.1.1, with ``factor`` -1 and -10: a modification of Xie
    et al. 2020, which takes the mean of the honest updates.
    """
    sent: F64 = known.mean(axis=0) * factor
    return sent
