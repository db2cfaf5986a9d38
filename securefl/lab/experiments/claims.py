"""Claims of a paper about its numbers, judged on ours: arithmetic, nothing else.

A claim stands in the file of an experiment (:mod:`securefl.lab.experiments.experiment`) and is one of a few
kinds; :func:`judge` decides it on the numbers of some cells, mean over the seeds and seed by seed.
"""

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Annotated, Literal, assert_never

import msgspec
from msgspec import Meta, Struct

from securefl import scenario
from securefl.base import sums

Measure = Literal["final", "unrest"]
Text = Annotated[str, Meta(min_length=1)]
Labels = Annotated[tuple[Text, ...], Meta(min_length=1)]
"""Of cells; that there are such cells is checked with the file as a whole."""
Margin = Annotated[float, Meta(ge=-1, le=1e6)]
Ruling = Literal["holds", "mixed", "does not hold"]
Accuracies = tuple[float, ...]
"""By round, each in [0, 1]; of a drawn problem one number."""

_COUNTED: dict[Ruling, tuple[str, str]] = {
    "holds": ("holds", "hold"),
    "mixed": ("mixed", "mixed"),
    "does not hold": ("does not hold", "do not hold"),
}
"""In words, of one claim and of several."""


class Claim(scenario.FileTable, tag_field="kind", frozen=True, kw_only=True):
    """A statement of the paper, and how to decide it.

    ``final``: mean accuracy over the file's ``last`` rounds. ``unrest``: mean change of accuracy from one
    round to the next in the second half of the rounds.
    """

    says: Text
    """The claim in our words."""
    curves: Labels
    measure: Measure = "final"
    ours: bool = False
    """Whether it is not the paper's claim but ours; it does not count for the panel's verdict."""


class Trend(Claim, frozen=True, kw_only=True):
    """Goes one way along ``curves``, in their order."""

    curves: Annotated[tuple[Text, ...], Meta(min_length=2)]
    tolerance: scenario.NonNegativeReal = 0.005
    """How far a step may go the other way."""
    margin: scenario.PositiveReal = 0.01
    """How far first and last must be apart at least."""


class Increasing(Trend, tag="increasing", frozen=True, kw_only=True):
    """Each curve is above the one before it."""


class Decreasing(Trend, tag="decreasing", frozen=True, kw_only=True):
    """Each curve is below the one before it."""


class Above(Claim, tag="above", frozen=True, kw_only=True):
    """Every one of ``curves`` is above every one of ``than``, by more than ``margin``."""

    than: Labels
    margin: Margin = 0.005
    """Below 0: so much the other way is a tie, and counts too."""


class Below(Claim, tag="below", frozen=True, kw_only=True):
    """Every one of ``curves`` is below every one of ``than``, by more than ``margin``."""

    than: Labels
    margin: Margin = 0.005
    """Below 0: so much the other way is a tie, and counts too."""


class Within(Claim, tag="within", frozen=True, kw_only=True):
    """Every one of ``curves`` is at most ``distance`` away from ``of``."""

    of: Text
    distance: scenario.PositiveReal


class AtLeast(Claim, tag="at-least", frozen=True, kw_only=True):
    """Every one of ``curves`` reaches ``value``."""

    value: float


class AtMost(Claim, tag="at-most", frozen=True, kw_only=True):
    """None of ``curves`` exceeds ``value``."""

    value: float


AnyClaim = Increasing | Decreasing | Above | Below | Within | AtLeast | AtMost


class ClaimVerdict(Struct, frozen=True, kw_only=True):
    """The verdict on one claim."""

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
        """The number of seeds that say the same, in words."""
        if self.seeds == 1:
            return "one seed"
        if self.agreeing == self.seeds:
            return f"the same in each of {self.seeds} seeds"
        return f"the same in {self.agreeing} of {self.seeds} seeds"

    def __str__(self) -> str:
        whose = "ours, " if self.ours else ""
        return f"{whose}{self.ruling}: {self.says} [{self.numbers}; {self.agreement}]"


def labels_of(claim: AnyClaim) -> set[str]:
    """The labels of all cells that a claim compares."""
    others: Mapping[str, object] = msgspec.structs.asdict(claim)
    than, of = others.get("than", ()), others.get("of")
    return {
        *claim.curves,
        *(than if isinstance(than, tuple) else ()),
        *((of,) if isinstance(of, str) else ()),
    }


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
        return sums.ordered_sum(tail) / len(tail)
    half = whole[len(whole) // 2 :]
    steps = [abs(after - before) for before, after in pairwise(half)]
    return sums.ordered_sum(steps) / max(1, len(steps))


def judge(
    claim: AnyClaim, curves: Mapping[str, Sequence[Accuracies]], last: int, rounds: int
) -> ClaimVerdict:
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
    ruling = _ruling(claim, lambda label: sums.ordered_sum(values[label]) / seeds)
    alone = [_ruling(claim, _of_seed(values, index)) for index in range(seeds)]
    digits = 3 if claim.measure == "final" else 4
    return ClaimVerdict(
        says=claim.says,
        ruling=ruling,
        numbers=_numbers(claim, lambda label: f"{sums.ordered_sum(values[label]) / seeds:.{digits}f}"),
        agreeing=alone.count(ruling),
        seeds=seeds,
        ours=claim.ours,
    )


def _of_seed(values: Mapping[str, Sequence[float]], index: int) -> Callable[[str], float]:
    return lambda label: values[label][index]


def overall(verdicts: Sequence[ClaimVerdict]) -> str:
    """The verdicts on a panel's claims in a few words; those on our own do not count."""
    rulings = [verdict.ruling for verdict in verdicts if not verdict.ours]
    if not rulings:
        return "nothing claimed"
    if len(set(rulings)) == 1:
        return rulings[0]
    found = ((rulings.count(kind), words) for kind, words in _COUNTED.items())
    return "mixed: " + ", ".join(f"{number} {words[number > 1]}" for number, words in found if number)


def in_short(verdicts: Sequence[ClaimVerdict]) -> str:
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
