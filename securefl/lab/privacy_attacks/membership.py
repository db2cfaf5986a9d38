"""Membership inference by likelihood ratio: a record's score with and without it, from shadow models.

A score is a model's confidence in a record's label. It separates members from others if a model overfits
(Yeom et al. 2018, arXiv 1709.01604), but depends on the record's difficulty. Shadow models, trained like the
target on known records, give the distribution of a record's score with and without it (LiRA, Carlini et al.
2022, arXiv 2112.03570, section V).
"""

import numpy as np
import numpy.typing as npt

from securefl.base.arrays import F64
from securefl.base.errors import UsageError

LEAST = 2
"""Fewest shadow models with, and without, a record for its means to count."""


def likelihood_ratios(target: F64, scores: F64, member: npt.NDArray[np.bool_]) -> F64:
    """Return the log likelihood ratio of each record's target score, f64 ``(n,)``, higher for members.

    Both distributions are Gaussian, with a mean per record and one variance for all, which is more stable
    with few shadow models (ibid., section VI-A). A record that too few shadow models contain, or lack, gets
    0.

    Args:
        target: of the attacked model, f64 ``(n,)``.
        scores: of shadow models, f64 ``(k, n)``.
        member: True for their training records, ``(k, n)``.

    Raises:
        UsageError: other shapes, or no record with enough shadow models of both kinds.
    """
    if scores.shape != member.shape or target.shape != scores.shape[1:]:
        raise UsageError(
            f"scores and member must have one shape, and target that of a row; found {scores.shape},"
            f" {member.shape}, {target.shape}"
        )
    known = (member.sum(axis=0) >= LEAST) & ((~member).sum(axis=0) >= LEAST)
    if not known.any():
        raise UsageError(
            f"cannot attack membership: no record is in {LEAST} and out of {LEAST} of {len(scores)}"
            " shadow models; train more of them"
        )
    with_, without = _law(scores, member, known), _law(scores, ~member, known)
    ratios = np.zeros(len(target))
    ratios[known] = _log_density(target[known], *with_) - _log_density(target[known], *without)
    return ratios


def _law(scores: F64, counts: npt.NDArray[np.bool_], known: npt.NDArray[np.bool_]) -> tuple[F64, float]:
    """Return means by record and the pooled standard deviation, corrected for degrees of freedom."""
    kept, some = scores[:, known], counts[:, known]
    number = some.sum(axis=0)
    means: F64 = np.where(some, kept, 0.0).sum(axis=0) / number
    squares = float((np.where(some, kept - means, 0.0) ** 2).sum())
    free = int(number.sum()) - len(number)
    return means, max(float(np.sqrt(squares / free)), 1e-12)


def _log_density(at: F64, mean: F64, std: float) -> F64:
    density: F64 = -0.5 * ((at - mean) / std) ** 2 - np.log(std)
    return density
