"""Verdicts on claims by one statistical rule (ADR 0066)."""

import math
from collections.abc import Mapping, Sequence
from statistics import stdev
from typing import Final, Literal

import msgspec
from msgspec import Struct
from scipy import stats

from securefl.base import sums
from securefl.lab.experiments.claims import (
    LEAST_SEEDS,
    Accuracies,
    AnyClaim,
    Inequality,
    labels_of,
    measure_curve,
)

Ruling = Literal["holds", "does not hold", "not decided"]
ERROR: Final = 0.05
"""Probability of any false ruling among a paper's claims."""
_COUNTED: dict[Ruling, tuple[str, str]] = {
    "holds": ("holds", "hold"),
    "does not hold": ("does not hold", "do not hold"),
    "not decided": ("not decided", "not decided"),
}
"""Wording for one claim and for several."""


class ClaimVerdict(Struct, frozen=True, kw_only=True):
    """Evidence on one claim, and the ruling of :func:`decide_claims`.

    The weakest comparison decides if the claim holds (intersection-union test), without a correction within
    the claim.
    """

    says: str
    numbers: str
    """Means over seeds, as text."""
    seeds: int
    """n, common to all cells of the claim."""
    comparison: str
    """Weakest comparison: ``m = 3 - mean > 0``."""
    difference: float
    low: float
    """Lower end of its 95 % t interval; infinite with fewer than two seeds."""
    high: float
    p_holds: float
    """p value against "a comparison is false"; 1 with fewer than :data:`LEAST_SEEDS` seeds."""
    p_fails: float
    """p value against "all comparisons are true", Bonferroni over comparisons."""
    labels: tuple[str, ...] = ()
    """Cells that it compares."""
    ours: bool = False
    """True if not the paper's."""
    ruling: Ruling = "not decided"

    @property
    def evidence(self) -> str:
        """Seeds, weakest comparison and its interval."""
        found = f"n = {self.seeds}; {self.comparison}: {self.difference:+.3f}"
        return found if self.seeds < 2 else f"{found} [{self.low:+.3f}, {self.high:+.3f}]"

    def __str__(self) -> str:
        whose = "ours, " if self.ours else ""
        return f"{whose}{self.ruling}: {self.says} [{self.numbers}; {self.evidence}]"


def judge(
    claim: AnyClaim, curves: Mapping[str, Mapping[int, Accuracies]], last: int, rounds: int
) -> ClaimVerdict:
    """Return the evidence on one claim, without a ruling.

    ``curves`` has accuracies by label and seed; seeds of all cells of the claim are paired. The ``last``
    rounds
    give the final accuracy; ``rounds`` are planned.
    """
    seeds = sorted(set[int].intersection(*(set(curves[label]) for label in labels_of(claim))))
    values = {
        label: [measure_curve(curves[label][seed], claim.measure, last, rounds) for seed in seeds]
        for label in labels_of(claim)
    }
    means = {label: sums.ordered_sum(found) / max(1, len(seeds)) for label, found in values.items()}
    digits = 3 if claim.measure == "final" else 4

    def show_label(label: str) -> str:
        return f"{means[label]:.{digits}f}"

    parts = [_t_tests(one) for one in claim.comparisons(values)]
    weakest = max(parts, key=lambda one: (one.p_above, -one.excess))
    return ClaimVerdict(
        says=claim.says,
        numbers=", ".join(f"{label} {show_label(label)}" for label in claim.curves)
        + claim.against(show_label),
        seeds=len(seeds),
        comparison=f"{weakest.says} > {weakest.bound:g}",
        difference=round(weakest.mean, 6),
        low=round(weakest.low, 6),
        high=round(weakest.high, 6),
        p_holds=weakest.p_above,
        p_fails=min(1.0, len(parts) * min(one.p_below for one in parts)),
        labels=tuple(sorted(labels_of(claim))),
        ours=claim.ours,
    )


def decide_claims(verdicts: Sequence[ClaimVerdict]) -> tuple[ClaimVerdict, ...]:
    """Rule on all claims of a paper together (Holm 1979).

    Each claim has two hypotheses, "does not hold" and "holds"; rejecting one gives the other as its ruling. A
    false ruling among the paper's claims has probability at most :data:`ERROR`; ours are a family of their
    own.
    """
    ruled = dict[int, Ruling]()
    for ours in (False, True):
        family = [place for place, one in enumerate(verdicts) if one.ours == ours]
        tests: list[tuple[float, int, Ruling]] = [
            *((verdicts[place].p_holds, place, "holds") for place in family),
            *((verdicts[place].p_fails, place, "does not hold") for place in family),
        ]
        for rank, (p, place, ruling) in enumerate(sorted(tests)):
            if p > ERROR / (len(tests) - rank):
                break
            ruled[place] = ruling
    return tuple(
        msgspec.structs.replace(one, ruling=ruled.get(place, "not decided"))
        for place, one in enumerate(verdicts)
    )


def overall(verdicts: Sequence[ClaimVerdict]) -> str:
    """Return the rulings on a panel's claims in a few words.

    Ours count only if none of the paper's is judged.
    """
    theirs = [verdict.ruling for verdict in verdicts if not verdict.ours]
    whose, rulings = ("", theirs) if theirs else ("ours: ", [verdict.ruling for verdict in verdicts])
    if not rulings:
        return "nothing claimed"
    if len(set(rulings)) == 1:
        return whose + rulings[0]
    found = ((rulings.count(kind), words) for kind, words in _COUNTED.items())
    return whose + ", ".join(f"{number} {words[number > 1]}" for number, words in found if number)


class _Tested(Struct, frozen=True):
    says: str
    bound: float
    mean: float
    low: float
    high: float
    excess: float
    p_above: float
    """One-sided p value of a mean above the bound."""
    p_below: float


def _t_tests(one: Inequality) -> _Tested:
    """Run t tests of the paired differences against the bound, in both directions."""
    count = len(one.differences) if all(map(math.isfinite, one.differences)) else 0
    mean = sums.ordered_sum(one.differences) / max(1, count)
    excess = mean - one.bound
    if count < 2:
        return _Tested(one.says, one.bound, mean, -math.inf, math.inf, excess, 1.0, 1.0)
    error = stdev(one.differences) / math.sqrt(count)
    half = float(stats.t.ppf(0.975, count - 1)) * error
    if error > 0:
        p_above = float(stats.t.sf(excess / error, count - 1))
        p_below = float(stats.t.cdf(excess / error, count - 1))
    else:
        # All seeds agree, as on a destroyed model.
        p_above, p_below = float(excess <= 0), float(excess >= 0)
    if excess < one.least:
        p_above = 1.0
    if count < LEAST_SEEDS:
        p_above = p_below = 1.0
    return _Tested(one.says, one.bound, mean, mean - half, mean + half, excess, p_above, p_below)
