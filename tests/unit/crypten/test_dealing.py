"""Beaver tuples: they are what they should be, once."""

from __future__ import annotations

from functools import reduce
from operator import add, xor

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from securefl.base.entropy import InsecureSeededEntropy
from securefl.base.errors import PeerError, UsageError
from securefl.base.ids import Instance, PartyId, RunId
from securefl.protocol.secure_sum.validated.dealing import (
    Deal,
    Request,
    Taking,
    Tuples,
    deal,
    deal_context,
    requests_of,
)
from tests.tiers import examples

CONTEXT = b"c" * 32
REQUESTS = (Request("square", (5,)), Request("and", (2, 3)), Request("and", (1,)))
ENTROPY = InsecureSeededEntropy(1)


def dealt(evaluators: int, seed: int = 1) -> list[Taking]:
    deals = deal(CONTEXT, evaluators, REQUESTS, InsecureSeededEntropy(seed))
    return [Tuples(d, rank, CONTEXT, REQUESTS, "dealer").begin() for rank, d in enumerate(deals)]


@settings(max_examples=examples(25), deadline=None)
@given(evaluators=st.integers(2, 6), seed=st.integers(0, 2**32))
def test_products_are_those_of_the_sums(evaluators: int, seed: int) -> None:
    everybody = dealt(evaluators, seed)
    for request in REQUESTS:
        parts = list(zip(*(t.take(request.kind, request.shape) for t in everybody), strict=True))
        assert all(p.shape == request.shape for part in parts for p in part)
        if request.kind == "square":
            r, s = (reduce(add, part) for part in parts)
            np.testing.assert_array_equal(s, r * r)
        else:
            a, b, c = (reduce(xor, part) for part in parts)
            np.testing.assert_array_equal(c, a & b)


def test_only_the_first_gets_more_than_a_seed() -> None:
    deals = deal(CONTEXT, 3, REQUESTS, ENTROPY)
    assert [len(d.correction) for d in deals] == [8 * 12, 0, 0]
    assert "seed" not in repr(deals[0])


def test_a_check_of_three_members_takes_under_8_kilobytes() -> None:
    """As ADR 0024 says."""
    assert 8 * sum(r.size for r in requests_of(2, 64)) == 7_832
    assert [r.kind for r in requests_of(2, 64)].count("and") == 7 + 7 + 6


def test_tuples_are_used_once_and_in_order() -> None:
    tuples = dealt(2)[0]
    tuples.take("square", (5,))
    with pytest.raises(UsageError, match="found 'square'"):
        tuples.take("square", (5,))
    with pytest.raises(UsageError, match="found 'and'"):
        tuples.take("and", (3, 2))
    tuples.take("and", (2, 3))
    tuples.take("and", (1,))
    assert tuples.left == 0
    with pytest.raises(UsageError, match="all triples that were dealt are used"):
        tuples.take("and", (1,))


def test_tuples_are_a_value() -> None:
    """Whoever begins anew gets the same ones: a refused message has taken nothing away."""
    deals = deal(CONTEXT, 2, REQUESTS, ENTROPY)
    tuples = Tuples(deals[0], 0, CONTEXT, REQUESTS, "dealer")
    first, again = tuples.begin().take("square", (5,)), tuples.begin().take("square", (5,))
    np.testing.assert_array_equal(first, again)
    assert tuples.begin().left == 3


def test_tuples_of_another_place_do_not_fit() -> None:
    """A dealer that sends an old deal again gives words that no two evaluators' checks have in common."""
    deals = deal(CONTEXT, 2, REQUESTS, ENTROPY)
    here = [
        Tuples(d, rank, CONTEXT, REQUESTS, "dealer").begin().take("square", (5,))
        for rank, d in enumerate(deals)
    ]
    there = Tuples(deals[1], 1, b"d" * 32, REQUESTS, "dealer").begin().take("square", (5,))
    assert not np.array_equal(here[1][0], there[0])
    instance = Instance(RunId("run"), 1, 0, 2, 0)
    members = [PartyId("a"), PartyId("b")]
    contexts = {
        deal_context(instance, PartyId("x"), members, 64),
        deal_context(instance, PartyId("y"), members, 64),
        deal_context(instance._replace(attempt=1), PartyId("x"), members, 64),
        deal_context(instance, PartyId("x"), members[::-1], 64),
        deal_context(instance, PartyId("x"), members, 128),
    }
    assert len(contexts) == 5


@pytest.mark.parametrize(("rank", "seed", "correction"), [(0, 32, 95), (0, 31, 96), (1, 32, 96), (0, 32, 0)])
def test_another_amount_than_the_check_takes_is_the_dealers_fault(
    rank: int, seed: int, correction: int
) -> None:
    with pytest.raises(PeerError, match="dealer: sends"):
        Tuples(Deal(bytes(seed), bytes(correction)), rank, CONTEXT, REQUESTS, "dealer")


def test_a_check_needs_two_evaluators() -> None:
    with pytest.raises(UsageError, match="3 or more members"):
        requests_of(1, 64)
