"""Prototypes of checks under a deviating evaluator: what each costs, and tells it (ADR 0042)."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from securefl.methods.privacy.norm_check import norm_test
from tests.statistics.authenticated_checks import macs, proof, today

TEST = norm_test(2**17, 64, 1e-3)
FEW = replace(TEST, projections=8, threshold=TEST.threshold // 8)
OFFSET = math.isqrt(FEW.threshold) * 3 // 4


def values(seed: int, share: float = 1.0) -> list[int]:
    """Projections of a vector of this share of the norm, about."""
    return [round(value) for value in np.random.default_rng(seed).normal(size=64) * share * TEST.norm / 3]


@pytest.mark.parametrize("evaluators", [2, 3])
@pytest.mark.parametrize("share", [1.0, 2.0, 8.0])
def test_all_ways_have_the_same_verdict(evaluators: int, share: float) -> None:
    given = values(4, share)
    found = {way(given, evaluators, TEST, 5).verdict for way in (today, macs, proof)}
    assert found == {TEST.passes(given)}


def test_values_beyond_the_range_are_refused() -> None:
    for given in ([2**40, *values(1)[1:]], [-(2**62)] + [0] * 63, [2**32] * 64):
        assert not macs(given, 2, TEST, 1).verdict
        assert not proof(given, 2, TEST, 1).verdict


def test_who_turns_a_shared_bit_is_found_out_whatever_the_update() -> None:
    for seed in range(30):
        turned = {3 + seed % 12}
        given = values(seed)[:8]
        assert FEW.passes(given)
        assert not macs(given, 2, FEW, seed, meddle=turned.__contains__).verdict


def test_what_an_evaluator_puts_in_is_authenticated_with_its_lie() -> None:
    """MACs alone leave the bit: the verdict tells whether S + 2 p e <= T - e^2, for an e of its choice."""
    found = []
    for seed in range(30):
        given = values(seed, 1.2)[:8]
        assert FEW.passes(given)
        asked = sum(v * v for v in given) + 2 * given[0] * OFFSET <= FEW.threshold - OFFSET**2
        assert macs(given, 2, FEW, seed, offset=OFFSET).verdict == asked
        found.append(asked)
    assert 5 < sum(found) < 25


def test_a_proof_of_the_owner_tells_nothing() -> None:
    """Whatever it adds, each honest update is refused: it can frame, as before, and that is all."""
    for offset in (OFFSET, -OFFSET, 1, -(1 << TEST.range_bits), 2**63):
        assert not any(proof(values(seed), 2, TEST, seed, offset=offset).verdict for seed in range(30))


def test_macs_cost_more_than_half_as_much_again_and_proofs_less_than_today() -> None:
    """By bytes alone, which follow from the numbers of bits: for a check of three members, and of five."""
    for evaluators in (2, 4):
        costs = [way(values(1), evaluators, TEST, 1) for way in (today, macs, proof)]
        before, authenticated, proved = (cost.dealt + cost.said for cost in costs)
        assert authenticated > 1.5 * before
        assert proved < before
