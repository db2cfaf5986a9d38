"""Mimic."""

import numpy as np

from securefl import scenario
from securefl.base.arrays import F64
from securefl.base.entropy import Entropy


class Mimic(scenario.InformedAttack, tag="mimic", frozen=True, kw_only=True):
    """Update of one known party, sent by all attackers, so that its data count too much.

    x_i with the largest |z . x_i|, z the direction of the largest variance of x.

    Example:
        >>> Mimic()([[1.0, 2.0], [2.0, 3.0], [3.0, 4.0]])
        array([3., 4.])
    """

    def collude(self, known: F64, actors: int, entropy: Entropy) -> F64:
        return mimic(known)


def mimic(known: F64) -> F64:
    """Return the known update x_i with the largest |z . x_i|, so that its party's data count more.

    z is the direction of the largest variance. The first row wins ties.

    Knows: all honest updates in the source; in the coalition's form those of its members.
    Source: Karimireddy, He and Jaggi 2022 (arXiv 2006.09365), "mimic". They estimate z over many rounds and
    then copy one party for good; here z and the choice are of one round.
    """
    centred = known - known.mean(axis=0)
    # The covariance's eigenvectors are combinations of the rows: k x k instead of d x d.
    _, vectors = np.linalg.eigh(centred @ centred.T)
    direction = vectors[:, -1] @ centred
    chosen: F64 = known[int(np.argmax(np.abs(known @ direction)))].copy()
    return chosen
