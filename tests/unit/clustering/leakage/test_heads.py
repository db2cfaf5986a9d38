"""What a ledger head says, and demands beyond what is searched."""

from __future__ import annotations

import math

import pytest

from securefl.methods.leakage.admission import Admission
from securefl.methods.leakage.ledger import UpdateVersion
from securefl.methods.leakage.limits import LeakageLimits, crossings
from securefl.methods.leakage.modular import PRIMES
from tests.unit.clustering.leakage.oracle import ledger_of, names
from tests.unit.clustering.leakage.test_limits import everybody, who

P = names(6)
PAIRS = ((P[0], P[1]), (P[2], P[3]))


def head(sums: tuple[tuple[str, ...], ...], admitted: tuple[int, ...], round_: int = 3) -> bytes:
    return Admission({UpdateVersion(round_): sums}, admitted, {}, certain=True).head()  # type: ignore[dict-item]


def test_a_head_says_who_is_in_which_sum_and_what_is_admitted() -> None:
    others = {
        head(((P[0], P[2]), (P[1], P[3])), (0,)),
        head(((P[0], P[1], P[2]), (P[3],)), (0,)),
        head(PAIRS, (1,)),
        head(PAIRS, (0, 1)),
        head(PAIRS, (0,), 4),
    }
    assert len(others | {head(PAIRS, (0,))}) == 6


def test_larger_groups_than_coalitions_are_searched_for_are_undecided_where_any_is_crossed() -> None:
    """Two sums that differ by a pair: for groups of 6 it is not searched who is in a small support."""
    overlapping = ledger_of([{0, 1, 2}, {1, 2, 3}], 4)
    found = crossings(overlapping, everybody(LeakageLimits(group=6)))
    assert set(who(found).values()) == {"undecided"}
    assert "p000, p003 are a combination of sums" in found[0].reason


@pytest.mark.parametrize(("parties", "sums"), [(100, 60), (200, 200)])
def test_the_doubt_counts_a_minor_for_each_party_and_one_more(parties: int, sums: int) -> None:
    """Hadamard's bound on minors of zeros and ones, against the number of primes of 61 bits."""
    ledger = ledger_of([{k % parties, (k + 1) % parties} for k in range(sums)], parties)
    order = min(sums, parties - 1) + 1
    largest = (order + 1) ** ((order + 1) / 2) / 2**order
    assert ledger.doubt * PRIMES == pytest.approx((parties + 1) * math.floor(math.log2(largest) / 60))
    assert 0 < ledger.doubt < 1e-12
