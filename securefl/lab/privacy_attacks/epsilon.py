"""Lower bounds on epsilon, at a stated confidence, from guesses of included canaries.

(epsilon, delta)-DP bounds the success of guesses, so good guesses refute small values of epsilon. A low bound
does not prove safety: the attack may be weak.

:func:`one_run` uses many canaries of a *single* run, each included by an independent fair coin (Steinke, Nasr
and Jagielski 2023, arXiv 2305.08846, theorem 5.2). :func:`gaussian_shift` needs independent guesses: from
several runs, or from canaries that share no noise.
"""

import itertools
import math
from collections.abc import Sequence
from statistics import NormalDist
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from securefl.base.arrays import F64
from securefl.base.errors import UsageError
from securefl.lab.privacy_attacks import counting

SHARES = (1 / 50, 1 / 10, 1 / 2)
"""Fractions of canaries to guess at each end of the scores."""

_LARGEST = 64.0
_HALVINGS = 40


class Guesses(NamedTuple):
    """Results of guesses."""

    canaries: int
    """Canaries, included by independent fair coins."""
    made: int
    """Guesses; other canaries were skipped."""
    right: int


class Bound(NamedTuple):
    """Lower bound on epsilon."""

    epsilon: float
    """Wrong with probability 1 - ``confidence``; 0 if the guesses prove nothing."""
    confidence: float
    guesses: Guesses


def p_value(guesses: Guesses, epsilon: float, delta: float) -> float:
    """Return a bound on the probability of this success against an (epsilon, delta)-DP algorithm.

    With W ~ Binomial(made, 1 / (1 + e^-epsilon)), v right guesses and m canaries it is

        P(W >= v) + 2 m delta max over i of P(v > W >= v - i) / i.

    Raises:
        UsageError: inconsistent guesses, epsilon < 0, or delta outside [0, 1].
    """
    canaries, made, right = guesses
    if not (0 <= right <= made <= canaries and epsilon >= 0 and 0 <= delta <= 1):
        raise UsageError(
            "0 <= right <= made <= canaries, epsilon >= 0 and 0 <= delta <= 1 must hold; found"
            f" {guesses}, {epsilon}, {delta}"
        )
    law = counting.probabilities(made, 1 / (1 + math.exp(-epsilon)))
    below = np.cumsum(law[:right][::-1]) / np.arange(1, right + 1)
    slope = float(below.max()) if right else 0.0
    return min(1.0, float(law[right:].sum()) + 2 * canaries * delta * slope)


def bound_of(guesses: Guesses, delta: float, confidence: float) -> Bound:
    """Return the largest epsilon that these guesses refute at ``delta``.

    Raises:
        UsageError: as for :func:`p_value`, or a confidence outside (0, 1).
    """
    if not 0 < confidence < 1:
        raise UsageError(f"confidence must be in (0, 1), found {confidence}")
    low, high = 0.0, _LARGEST
    if p_value(guesses, low, delta) > 1 - confidence:
        return Bound(0.0, confidence, guesses)
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        refuted = p_value(guesses, middle, delta) <= 1 - confidence
        low, high = (middle, high) if refuted else (low, middle)
    return Bound(low, confidence, guesses)


def guess(scores: F64, included: npt.NDArray[np.bool_], presences: int, absences: int) -> Guesses:
    """Guess "in" for the ``presences`` highest scores and "out" for the ``absences`` lowest.

    Args:
        scores: f64 ``(m,)``, higher if a canary seems included; independent of ``included``.
        included: bool ``(m,)``.
        presences: >= 0.
        absences: >= 0; both together at most m.

    Raises:
        UsageError: different shapes, or more guesses than canaries.
    """
    count = scores.size
    if scores.shape != included.shape or scores.ndim != 1 or presences + absences > count:
        raise UsageError(
            f"cannot guess {presences + absences} canaries: scores and included must be vectors of one"
            f" length, at least that; found shapes {scores.shape}, {included.shape}"
        )
    order = np.argsort(scores, kind="stable")
    right = int(included[order[count - presences :]].sum()) + int((~included[order[:absences]]).sum())
    return Guesses(count, presences + absences, right)


def one_run(
    scores: F64,
    included: npt.NDArray[np.bool_],
    delta: float,
    *,
    confidence: float = 0.95,
    shares: Sequence[float] = SHARES,
) -> Bound:
    """Return the best bound over several numbers of guesses, with Bonferroni's correction.

    Each share is tried at both ends of the scores and at the upper end only: with sampling, only drawn
    records leave a mark. Scores and canaries are those of :func:`guess`, with m >= 2; ``delta`` is that of
    the
    tested claim, ``confidence`` that of the bound as a whole.

    Raises:
        UsageError: as :func:`guess` and :func:`bound_of`, or a share outside (0, 1/2].
    """
    if scores.size < 2 or not shares or not all(0 < share <= 0.5 for share in shares):
        raise UsageError(
            f"scores must have 2 canaries or more and shares be in (0, 1/2]; found {scores.size}"
            f" canaries, shares {shares}"
        )
    kinds = list(itertools.product(shares, (True, False)))
    each = 1 - (1 - confidence) / len(kinds)
    found = []
    for share, both in kinds:
        some = max(1, int(share * scores.size))
        guesses = guess(scores, included, some, some if both else 0)
        found.append(bound_of(guesses, delta, each))
    return max(found)._replace(confidence=confidence)


class Errors(NamedTuple):
    """Upper bounds on the error rates of one threshold, at one joint confidence."""

    false_alarms: float
    """Rate among canaries that were not included."""
    misses: float
    """Rate among included canaries."""


def errors_at_most(
    scores: F64, included: npt.NDArray[np.bool_], threshold: float = 0.0, *, confidence: float = 0.95
) -> Errors:
    """Return upper ends of Clopper-Pearson intervals; scores must be independent given ``included``.

    Scores and canaries are those of :func:`guess`. From ``threshold``, independent of the scores, a canary
    counts as included. ``confidence`` is that of both rates jointly.

    Raises:
        UsageError: different shapes, or canaries of one kind only.
    """
    if scores.shape != included.shape or scores.ndim != 1 or included.all() or not included.any():
        raise UsageError(
            "scores and included must be vectors of one shape, with canaries of both kinds; found"
            f" shapes {scores.shape}, {included.shape}"
        )
    guessed = scores >= threshold
    absent, present = int((~included).sum()), int(included.sum())
    # One end of each interval is used: an error of 1 - confidence in total.
    return Errors(
        counting.clopper_pearson(int((guessed & ~included).sum()), absent, confidence).high,
        counting.clopper_pearson(int((~guessed & included).sum()), present, confidence).high,
    )


def gaussian_shift(errors: Errors) -> float:
    """Return the smallest mu of a Gaussian release that allows such error rates, >= 0.

    A test of N(0, 1) against N(mu, 1) has false alarms Phi(-t) and misses Phi(t - mu). For Gaussian releases
    this is sharper than (epsilon, delta) alone (Nasr et al. 2023, arXiv 2302.07956).
    """
    alarms, misses = errors
    if max(alarms, misses) >= 1:
        return 0.0
    return max(0.0, -NormalDist().inv_cdf(alarms) - NormalDist().inv_cdf(misses))
