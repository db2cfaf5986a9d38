from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from securefl.base.errors import UsageError
from securefl.methods.leakage.ledger import LeakageLedger
from securefl.methods.leakage.leverage import computable, leverages
from securefl.methods.privacy.exposure import leverage
from tests.tiers import examples
from tests.unit.clustering.leakage import oracle
from tests.unit.clustering.leakage.oracle import drawn, ledger_of


def _worst(ledger: LeakageLedger, party: int, colluders: int) -> float:
    """By the formula for unequal noise, for each set of colluders."""
    others = [k for k in range(len(ledger.parties)) if k != party]
    found = []
    for known in itertools.combinations(others, min(colluders, len(others))):
        variances = np.ones(len(ledger.parties))
        variances[list(known)] = 0.0
        found.append(min(leverage(ledger.matrix, variances, party), 1.0))
    return max(found)


@given(oracle.ledgers(most=6), st.integers(0, 2))
@settings(max_examples=examples(40))
def test_it_is_that_of_the_colluders_that_help_most(ledger: LeakageLedger, colluders: int) -> None:
    expected = [_worst(ledger, party, colluders) for party in range(len(ledger.parties))]
    np.testing.assert_allclose(leverages(ledger, colluders), expected, atol=1e-7)


def test_one_opening_has_one_over_h() -> None:
    ledger = ledger_of([range(4), range(4, 10)], 11)
    np.testing.assert_allclose(leverages(ledger), [1 / 4] * 4 + [1 / 6] * 6 + [0])
    np.testing.assert_allclose(leverages(ledger, 3), [1] * 4 + [1 / 3] * 6 + [0])


def test_what_takes_longer_than_a_round_is_not_computed() -> None:
    for parties, affordable in ((115, True), (125, False)):
        assert computable(drawn(parties, 5, 2, seed=1), 2) is affordable
    assert computable(drawn(125, 5, 2, seed=1), 1)
    assert computable(drawn(125, 5, 1, seed=1), 2)


def test_exposed_parties_have_exactly_one() -> None:
    assert (leverages(drawn(60, 3, 4, seed=1)) == 1).all()


def test_more_unnamed_colluders_than_can_be_tried_are_refused() -> None:
    overlapping = ledger_of([{0, 1, 2}, {1, 2, 3}], 4)
    assert not computable(overlapping, 3)
    with pytest.raises(UsageError, match="must be 0 to 2"):
        leverages(overlapping, 3)
