"""Whether what a paper claims of its curves holds of ours: arithmetic on numbers, nothing else."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Literal, assert_never

from msgspec import Struct

from securefl.reproduce.figure import (
    Above,
    AnyClaim,
    AtLeast,
    AtMost,
    Below,
    Decreasing,
    Increasing,
    Measure,
    Within,
)

Ruling = Literal["holds", "mixed", "does not hold"]
Accuracies = tuple[float, ...]
"""By round, each in [0, 1]."""


_COUNTED: dict[Ruling, tuple[str, str]] = {
    "holds": ("holds", "hold"),
    "mixed": ("mixed", "mixed"),
    "does not hold": ("does not hold", "do not hold"),
}
"""In words, of one claim and of several."""


class Verdict(Struct, frozen=True, kw_only=True):
    """What became of one claim."""

    says: str
    ruling: Ruling
    numbers: str
    """What was compared, mean over seeds, for people."""
    agreeing: int
    """Seeds of which the same can be said when each is looked at alone."""
    seeds: int
    ours: bool = False
    """Whether the claim is ours, not the paper's."""

    @property
    def agreement(self) -> str:
        """How many of the seeds say the same, in words."""
        if self.seeds == 1:
            return "one seed"
        if self.agreeing == self.seeds:
            return f"the same in each of {self.seeds} seeds"
        return f"the same in {self.agreeing} of {self.seeds} seeds"

    def __str__(self) -> str:
        whose = "ours, " if self.ours else ""
        return f"{whose}{self.ruling}: {self.says} [{self.numbers}; {self.agreement}]"


def measured(accuracies: Accuracies, measure: Measure, last: int, rounds: int) -> float:
    """One number of one curve.

    Args:
        accuracies: of the rounds that there were, at least one. A run that ended before ``rounds`` (it was
            aborted, its model destroyed) keeps its last accuracy.
        measure: what is asked.
        last: rounds that count for ``final``.
        rounds: planned.
    """
    whole = [*accuracies, *[accuracies[-1]] * (rounds - len(accuracies))]
    if measure == "final":
        tail = whole[-last:]
        return sum(tail) / len(tail)
    half = whole[len(whole) // 2 :]
    steps = [abs(after - before) for before, after in pairwise(half)]
    return sum(steps) / max(1, len(steps))


def judge(claim: AnyClaim, curves: Mapping[str, Sequence[Accuracies]], last: int, rounds: int) -> Verdict:
    """Decide one claim.

    A trend holds if no step goes the other way by more than its tolerance and the ends are apart; if only
    the ends are, it is mixed. Other claims hold if all of their comparisons do, and are mixed if some do.

    Args:
        claim: what is claimed.
        curves: label to the accuracies of each seed; as many seeds for all.
        last: rounds that count for the final accuracy.
        rounds: planned.
    """
    values = {
        label: [measured(one, claim.measure, last, rounds) for one in seeds]
        for label, seeds in curves.items()
    }
    seeds = len(next(iter(values.values())))
    ruling = _ruling(claim, lambda label: sum(values[label]) / seeds)
    alone = [_ruling(claim, _of_seed(values, index)) for index in range(seeds)]
    digits = 3 if claim.measure == "final" else 4
    return Verdict(
        says=claim.says,
        ruling=ruling,
        numbers=_numbers(claim, lambda label: f"{sum(values[label]) / seeds:.{digits}f}"),
        agreeing=alone.count(ruling),
        seeds=seeds,
        ours=claim.ours,
    )


def _of_seed(values: Mapping[str, Sequence[float]], index: int) -> Callable[[str], float]:
    return lambda label: values[label][index]


def overall(verdicts: Sequence[Verdict]) -> str:
    """The verdicts on a panel's claims in a few words; those on our own do not count."""
    rulings = [verdict.ruling for verdict in verdicts if not verdict.ours]
    if not rulings:
        return "nothing claimed"
    if len(set(rulings)) == 1:
        return rulings[0]
    found = ((rulings.count(kind), words) for kind, words in _COUNTED.items())
    return "mixed: " + ", ".join(f"{number} {words[number > 1]}" for number, words in found if number)


def in_short(verdicts: Sequence[Verdict]) -> str:
    """The same in fewer words: how many of several hold."""
    rulings = [verdict.ruling for verdict in verdicts if not verdict.ours]
    if len(set(rulings)) <= 1:
        return overall(verdicts)
    return f"{rulings.count('holds')} of {len(rulings)} hold"


def _ruling(claim: AnyClaim, value: Callable[[str], float]) -> Ruling:
    if isinstance(claim, Increasing | Decreasing):
        sign = 1 if isinstance(claim, Increasing) else -1
        along = [sign * value(label) for label in claim.curves]
        if along[-1] - along[0] < claim.margin:
            return "does not hold"
        steady = all(b - a >= -claim.tolerance for a, b in pairwise(along))
        return "holds" if steady else "mixed"
    results = [_compare(claim, value, label) for label in claim.curves]
    if all(all(row) for row in results):
        return "holds"
    return "mixed" if any(any(row) for row in results) else "does not hold"


def _compare(
    claim: Above | Below | Within | AtLeast | AtMost, value: Callable[[str], float], label: str
) -> list[bool]:
    one = value(label)
    match claim:
        case Above(than=than, margin=margin):
            return [one > value(other) + margin for other in than]
        case Below(than=than, margin=margin):
            return [one < value(other) - margin for other in than]
        case Within(of=of, distance=distance):
            return [abs(one - value(of)) <= distance]
        case AtLeast(value=bound):
            return [one >= bound]
        case AtMost(value=bound):
            return [one <= bound]
        case _:
            assert_never(claim)


def _numbers(claim: AnyClaim, shown: Callable[[str], str]) -> str:
    mine = ", ".join(f"{label} {shown(label)}" for label in claim.curves)
    match claim:
        case Increasing(margin=margin, tolerance=tolerance) | Decreasing(margin=margin, tolerance=tolerance):
            return f"{mine}; {margin:g} from end to end, no step back by more than {tolerance:g}"
        case Above(than=than, margin=margin) | Below(than=than, margin=margin):
            others = ", ".join(f"{label} {shown(label)}" for label in than)
            apart = f"by more than {margin:g}" if margin >= 0 else f"{-margin:g} the other way is a tie"
            return f"{mine} against {others}, {apart}"
        case Within(of=of, distance=distance):
            return f"{mine} against {of} {shown(of)}, {distance:g} allowed"
        case AtLeast(value=bound):
            return f"{mine}, at least {bound:g}"
        case AtMost(value=bound):
            return f"{mine}, at most {bound:g}"
        case _:
            assert_never(claim)
