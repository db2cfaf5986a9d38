"""Committees of a thousand parties as they are drawn, against the odds that are printed, and their table."""

from __future__ import annotations

from pathlib import Path
from unittest.mock import patch

import numpy as np
import pytest
from scipy.stats import binomtest

from securefl.base.ids import PartyId
from securefl.methods.attacks.assignment import party_names
from securefl.methods.clustering import committee
from securefl.methods.clustering.committee import (
    ACCEPTED,
    attests_needed,
    committee_failure,
    committee_of,
    committee_size,
)
from securefl.methods.clustering.odds import once_in, tail
from securefl.methods.clustering.presence import fewest_participants
from securefl.methods.clustering.sizes import MAX_DRAWS
from tests.statistics.committee_odds import PARTIES, SHARES, failure, made, rows

PAGE = Path(__file__).parents[2] / "docs" / "results" / "verified-rounds.md"
ERROR = 1e-5
"""Probability that right odds fail one comparison. Seeds are fixed, so that they fail always or never."""
RUNS = 1_000


def failing(parties: int, colluders: int, size: int) -> tuple[int, float]:
    """Runs of one round, of :data:`RUNS`, in which some draw makes colluders a quorum; and what is printed.

    The server announces as few as a round needs, all colluders among them, and voids all draws but the last.
    """
    one = made(parties, colluders, rounds=1)
    present = party_names(parties)[: fewest_participants(one)]
    corrupt: frozenset[PartyId] = frozenset(present[:colluders])
    needed = attests_needed(one, size)
    seeds = np.random.default_rng([parties, colluders, size])
    with patch.object(committee, "committee_size", lambda _scenario: size):
        failed = sum(
            any(
                len(corrupt.intersection(committee_of(one, seeds.bytes(32), present))) >= needed
                for _ in range(MAX_DRAWS)
            )
            for _ in range(RUNS)
        )
        return failed, committee_failure(one)


@pytest.mark.slow
@pytest.mark.parametrize(("colluders", "size"), [(100, 5), (100, 11), (200, 11), (200, 21)])
def test_drawn_committees_of_a_thousand_parties_fail_as_often_as_is_printed(
    colluders: int, size: int
) -> None:
    failed, printed = failing(1_000, colluders, size)
    assert binomtest(failed, RUNS, printed).pvalue > ERROR


def test_they_are_told_from_committees_among_everybody() -> None:
    """Odds that forget that the server chooses who is there: 0.026 % a draw in place of 0.66 %."""
    failed, printed = failing(1_000, 100, 11)
    among_all = once_in(tail(1_000, 100, 11, 6), MAX_DRAWS)
    assert among_all < printed / 5
    assert binomtest(failed, RUNS, among_all).pvalue < ERROR


@pytest.mark.parametrize("share", SHARES)
@pytest.mark.parametrize("parties", PARTIES)
def test_sizes_left_open_are_the_fewest_that_are_accepted(parties: int, share: int) -> None:
    q = parties // share
    one = made(parties, q)
    size = committee_size(one)
    assert committee_failure(one) <= ACCEPTED
    assert failure(one, size - 2) > ACCEPTED
    assert failure(one, 2 * q + 1) == 0.0
    if parties <= 1_000:  # with more it is below what a float holds
        assert failure(one, 2 * q - 1) > 0.0
    assert committee_failure(made(parties, q, again=3)) == committee_failure(made(parties, q))


def test_the_page_has_this_table() -> None:
    assert "\n".join(rows()) in PAGE.read_text()
