"""ROC curves of membership scores, and hits at few false alarms.

An attack that identifies only a few members has an area of about one half. Hence hits are counted at a small
rate of false alarms (Carlini et al. 2022, arXiv 2112.03570).
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from securefl.base.arrays import F64
from securefl.base.errors import UsageError
from securefl.lab.privacy_attacks import counting


@dataclass(frozen=True, slots=True, eq=False)
class Roc:
    """Rates at all thresholds; made by :func:`roc_of`."""

    false_alarms: F64
    """False positive rates, f64 ``(k,)``, rising from 0 to 1."""
    hits: F64
    """True positive rates, f64 ``(k,)``, rising from 0 to 1."""
    members: int
    others: int

    @property
    def area(self) -> float:
        """Probability that a member's score exceeds another's, ties counted half; 1/2 is chance."""
        heights = (self.hits[1:] + self.hits[:-1]) / 2
        return float(heights @ np.diff(self.false_alarms))

    def hits_at(self, false_alarms: float) -> float:
        """Return the largest rate of hits at no more than this rate of false alarms."""
        return float(self.hits[self.false_alarms <= false_alarms].max())

    def interval_at(self, false_alarms: float, confidence: float = 0.95) -> counting.Interval:
        """Return the interval of :meth:`hits_at` over random members, at a fixed threshold."""
        hits = round(self.hits_at(false_alarms) * self.members)
        return counting.clopper_pearson(hits, self.members, confidence)


def roc_of(scores: F64, member: npt.NDArray[np.bool_]) -> Roc:
    """Return the curve of scores that are higher for members.

    Args:
        scores: f64 ``(n,)``, no NaN.
        member: ``(n,)``, with both values.

    Raises:
        UsageError: different shapes, NaN, or records of one kind only.
    """
    if scores.shape != member.shape or scores.ndim != 1 or member.all() or not member.any():
        raise UsageError(
            "scores and member must be vectors of one shape, with records of both kinds; found"
            f" {scores.shape}, {member.shape}"
        )
    if np.isnan(scores).any():
        raise UsageError("scores must be numbers, found NaN")
    order = np.argsort(-scores, kind="stable")
    falling = scores[order]
    # One point for each distinct score.
    last = np.flatnonzero(np.append(falling[1:] != falling[:-1], True))
    hits = np.cumsum(member[order])[last]
    alarms = np.cumsum(~member[order])[last]
    members, others = int(member.sum()), int((~member).sum())
    return Roc(
        np.concatenate(([0.0], alarms / others)), np.concatenate(([0.0], hits / members)), members, others
    )
