"""Lower bounds on epsilon from guesses about who was there, at a stated confidence.

An (epsilon, delta)-DP algorithm lets nobody guess well, so good guesses refute small values of epsilon. Such
a bound says nothing about safety: an attack that fails may be a bad attack. Its use is to find a claim that
is too good, a noise that is too small or an opening that was not counted.

Two ways. :func:`one_run` takes many canaries of a *single* run and assumes nothing but that each was put in
by a fair coin of its own (Steinke, Nasr and Jagielski 2023, arXiv 2305.08846, theorem 5.2).
:func:`gaussian_shift` needs guesses that are independent of each other: of several runs, or of canaries that
share neither noise nor anything else.
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
"""Of the canaries, about how many on each end of the scores to guess at: few sure guesses, or all of them."""

_LARGEST = 64.0
_HALVINGS = 40


class Guesses(NamedTuple):
    """Results of guesses at canaries."""

    canaries: int
    """Put in, or not, by fair and independent coins."""
    made: int
    """Canaries that were guessed at; of the others nothing was said."""
    right: int


class Bound(NamedTuple):
    """A lower bound on epsilon."""

    epsilon: float
    """At least this, except with probability 1 - ``confidence``; 0 where the guesses prove nothing."""
    confidence: float
    guesses: Guesses
    """The ones that the bound rests on."""


def p_value(guesses: Guesses, epsilon: float, delta: float) -> float:
    """At most the probability that an (epsilon, delta)-DP algorithm lets so many guesses be right.

    With W ~ Binomial(made, 1 / (1 + e^-epsilon)), v right guesses and m canaries it is

        P(W >= v) + 2 m delta max over i of P(v > W >= v - i) / i.

    Raises:
        UsageError: numbers that are none of guesses, a negative epsilon, or delta outside [0, 1].
    """
    canaries, made, right = guesses
    if not (0 <= right <= made <= canaries and epsilon >= 0 and 0 <= delta <= 1):
        raise UsageError(f"impossible guesses, epsilon or delta: {guesses}, {epsilon}, {delta}")
    law = counting.probabilities(made, 1 / (1 + math.exp(-epsilon)))
    below = np.cumsum(law[:right][::-1]) / np.arange(1, right + 1)
    slope = float(below.max()) if right else 0.0
    return min(1.0, float(law[right:].sum()) + 2 * canaries * delta * slope)


def bound_of(guesses: Guesses, delta: float, confidence: float) -> Bound:
    """The largest epsilon that these guesses refute at ``delta``.

    Raises:
        UsageError: as for :func:`p_value`, or a confidence outside (0, 1).
    """
    if not 0 < confidence < 1:
        raise UsageError(f"expected a confidence in (0, 1), found {confidence}")
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
        scores: of each canary, f64 ``(m,)``, higher where it looks as if it was there. Made without looking
            at ``included``.
        included: which canaries were, ``(m,)``.
        presences: >= 0.
        absences: >= 0; both together at most m.

    Raises:
        UsageError: shapes that differ, or more guesses than canaries.
    """
    count = scores.size
    if scores.shape != included.shape or scores.ndim != 1 or presences + absences > count:
        raise UsageError(
            f"{presences} + {absences} guesses do not fit shapes {scores.shape}, {included.shape}"
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
    """The best bound over how many guesses are made, paid for by Bonferroni's correction.

    For each share the guesses are at both ends of the scores, or at the upper end only: a record that was
    drawn leaves a mark, and one that was not drawn none.

    Args:
        scores: as in :func:`guess`.
        included: as in :func:`guess`, m >= 2.
        delta: of the claim that is put to the test.
        confidence: of the bound as a whole.
        shares: in (0, 1/2].

    Raises:
        UsageError: as for :func:`guess` and :func:`bound_of`, or a share out of range.
    """
    if scores.size < 2 or not shares or not all(0 < share <= 0.5 for share in shares):
        raise UsageError(f"expected 2 canaries or more and shares in (0, 1/2], found {scores.size}, {shares}")
    kinds = list(itertools.product(shares, (True, False)))
    each = 1 - (1 - confidence) / len(kinds)
    found = []
    for share, both in kinds:
        some = max(1, int(share * scores.size))
        guesses = guess(scores, included, some, some if both else 0)
        found.append(bound_of(guesses, delta, each))
    return max(found)._replace(confidence=confidence)


class Errors(NamedTuple):
    """The highest error rates of one threshold that its errors leave open, both at one confidence."""

    false_alarms: float
    """Of canaries that were not there."""
    misses: float
    """Of canaries that were."""


def errors_at_most(
    scores: F64, included: npt.NDArray[np.bool_], threshold: float = 0.0, *, confidence: float = 0.95
) -> Errors:
    """Upper ends of Clopper-Pearson intervals, for scores that are independent given ``included``.

    Args:
        scores: as in :func:`guess`.
        included: as in :func:`guess`, some and not all.
        threshold: from which on a canary is taken to be there; chosen without looking at ``scores``. For log
            likelihood ratios 0 is a good one.
        confidence: that both rates are as low.

    Raises:
        UsageError: shapes that differ, or canaries of one kind only.
    """
    if scores.shape != included.shape or scores.ndim != 1 or included.all() or not included.any():
        raise UsageError(
            f"expected equal shapes and canaries of both kinds, found {scores.shape}, {included.shape}"
        )
    said = scores >= threshold
    absent, present = int((~included).sum()), int(included.sum())
    # Two intervals of which one end each is used: 1 - confidence in all.
    return Errors(
        counting.clopper_pearson(int((said & ~included).sum()), absent, confidence).high,
        counting.clopper_pearson(int((~said & included).sum()), present, confidence).high,
    )


def gaussian_shift(errors: Errors) -> float:
    """The mu of a Gaussian release that such error rates need: 0 if none.

    N(0, 1) and N(mu, 1) are told apart with false alarms Phi(-t) and misses Phi(t - mu). Sharper than
    what (epsilon, delta) alone allows, where the release is known to be Gaussian (Nasr et al. 2023, arXiv
    2302.07956).
    """
    alarms, misses = errors
    if max(alarms, misses) >= 1:
        return 0.0
    return max(0.0, -NormalDist().inv_cdf(alarms) - NormalDist().inv_cdf(misses))
