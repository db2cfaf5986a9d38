"""Verdicts: what holds, what half holds, and what does not."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from securefl.lab.experiments.claims import (
    Above,
    AnyClaim,
    AtLeast,
    AtMost,
    Below,
    ClaimVerdict,
    Decreasing,
    Increasing,
    Ruling,
    Within,
    judge,
    measured,
    overall,
)
from tests.looped import looped


def flat(**finals: float) -> dict[str, list[tuple[float, ...]]]:
    """Curves of one round and one seed."""
    return {label: [(value,)] for label, value in finals.items()}


@looped(
    "claim, ruling",
    [
        (Decreasing(says="-", curves=("a", "b", "c"), margin=0.1), "holds"),
        (Decreasing(says="-", curves=("a", "b", "c"), margin=0.3), "does not hold"),
        (Decreasing(says="-", curves=("b", "a", "c"), margin=0.05), "mixed"),
        (Decreasing(says="-", curves=("b", "a", "c"), margin=0.05, tolerance=0.11), "holds"),
        (Increasing(says="-", curves=("a", "b", "c")), "does not hold"),
        (Increasing(says="-", curves=("c", "b", "a")), "holds"),
        (Above(says="-", curves=("a", "b"), than=("c",)), "holds"),
        (Above(says="-", curves=("a", "b"), than=("c",), margin=0.15), "mixed"),
        (Above(says="-", curves=("c",), than=("a", "b")), "does not hold"),
        (Below(says="-", curves=("c",), than=("a", "b"), margin=0.05), "holds"),
        (Below(says="-", curves=("b", "c"), than=("a",), margin=0.15), "mixed"),
        (Within(says="-", curves=("a", "b"), of="b", distance=0.11), "holds"),
        (Within(says="-", curves=("a", "c"), of="b", distance=0.09), "does not hold"),
        (AtLeast(says="-", curves=("a", "c"), value=0.75), "mixed"),
        (AtMost(says="-", curves=("b", "c"), value=0.75), "holds"),
    ],
)
def test_rulings(claim: AnyClaim, ruling: str) -> None:
    verdict = judge(claim, flat(a=0.8, b=0.7, c=0.6), last=1, rounds=1)
    assert verdict.ruling == ruling
    assert (verdict.agreeing, verdict.seeds) == (1, 1)


def test_the_line_has_the_numbers() -> None:
    claim = Within(says="close", curves=("a",), of="b", distance=0.02)
    verdict = judge(claim, flat(a=0.8125, b=0.8), last=1, rounds=1)
    assert str(verdict) == "holds: close [a 0.812 against b 0.800, 0.02 allowed; one seed]"


def test_seeds_are_averaged_and_each_is_looked_at_alone() -> None:
    curves = {"a": [(0.9,), (0.5,)], "b": [(0.6,), (0.6,)]}
    verdict = judge(Above(says="-", curves=("a",), than=("b",)), curves, last=1, rounds=1)
    assert verdict.ruling == "holds"
    assert (verdict.agreeing, verdict.seeds) == (1, 2)
    assert str(verdict).endswith("against b 0.600, by more than 0.005; the same in 1 of 2 seeds]")
    alike = judge(Above(says="-", curves=("a",), than=("b",)), {"a": [(0.9,)] * 2, "b": [(0.6,)] * 2}, 1, 1)
    assert str(alike).endswith("; the same in each of 2 seeds]")


def test_a_trifle_is_not_above() -> None:
    claim = Above(says="-", curves=("a",), than=("b",))
    assert judge(claim, flat(a=0.804, b=0.8), last=1, rounds=1).ruling == "does not hold"
    assert judge(claim, flat(a=0.806, b=0.8), last=1, rounds=1).ruling == "holds"


def test_final_is_a_mean_and_a_broken_run_keeps_its_last_accuracy() -> None:
    assert measured((0.1, 0.2, 0.6), "final", 2, 3) == pytest.approx(0.4)
    assert measured((0.5, 0.1), "final", 3, 4) == pytest.approx(0.1)
    assert measured((0.5,), "final", 9, 2) == pytest.approx(0.5)


@given(st.lists(st.floats(0, 1), min_size=2, max_size=20))
def test_unrest_is_the_mean_step_of_the_second_half(accuracies: list[float]) -> None:
    whole = tuple(accuracies)
    half = whole[len(whole) // 2 :]
    steps = [abs(half[i] - half[i - 1]) for i in range(1, len(half))]
    expected = sum(steps) / len(steps) if steps else 0.0
    assert measured(whole, "unrest", 1, len(whole)) == pytest.approx(expected)
    assert measured(whole, "unrest", 1, 10 * len(whole)) == 0.0


def test_a_panel_in_a_few_words() -> None:
    def ruled(ruling: Ruling, *, ours: bool = False) -> ClaimVerdict:
        return ClaimVerdict(says="-", ruling=ruling, numbers="", agreeing=1, seeds=1, ours=ours)

    assert overall([]) == "nothing claimed"
    assert overall([ruled("holds"), ruled("holds")]) == "holds"
    assert overall([ruled("mixed")]) == "mixed"
    assert overall([ruled("holds"), ruled("mixed"), ruled("does not hold")]) == (
        "mixed: 1 holds, 1 mixed, 1 does not hold"
    )
    assert overall([ruled("mixed"), ruled("does not hold")]) == "mixed: 1 mixed, 1 does not hold"
    assert overall([ruled("holds"), ruled("mixed"), ruled("holds")]) == "mixed: 2 hold, 1 mixed"
    assert overall([ruled("holds"), ruled("mixed", ours=True)]) == "holds"
    assert overall([ruled("holds", ours=True)]) == "nothing claimed"
