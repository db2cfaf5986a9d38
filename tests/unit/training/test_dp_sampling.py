"""The draws that the privacy proof rests on. Of 10^6 seeds a right sampler fails a test with about one."""

from __future__ import annotations

import itertools
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from securefl.base.arrays import F64
from securefl.base.crypto import prg
from securefl.base.entropy import InsecureSeededEntropy, OsEntropy
from securefl.base.errors import UsageError
from securefl.training.dpsgd import sampling as dp_sampling
from securefl.training.dpsgd.sampling import Sampler, draw_batch, draw_slots

Z = 4.9
"""A normal variable lies beyond it on either side once in 10^6."""


@given(
    sampler=st.sampled_from(["poisson", "fixed-size"]),
    records=st.integers(1, 300),
    share=st.floats(0, 1),
    seed=st.integers(0, 2**32),
)
def test_rows_rise_within_the_records(sampler: Sampler, records: int, share: float, seed: int) -> None:
    batch = max(1, int(share * records))
    rows = draw_batch(sampler, records, batch, InsecureSeededEntropy(seed))
    assert rows.dtype == np.int64
    assert (np.diff(rows) > 0).all()
    assert set(rows.tolist()) <= set(range(records))
    if sampler == "fixed-size" or batch == records:
        assert len(rows) == batch
    again = draw_batch(sampler, records, batch, InsecureSeededEntropy(seed))
    assert rows.tolist() == again.tolist()


@given(records=st.integers(2, 200), batch=st.integers(1, 199), seed=st.integers(0, 2**32))
def test_a_coin_is_an_exact_comparison_of_integers(records: int, batch: int, seed: int) -> None:
    """A word w < 2^64 is drawn if (w + 1) / 2^64 <= batch / records, in whole numbers."""
    batch = min(batch, records - 1)
    rows = draw_batch("poisson", records, batch, InsecureSeededEntropy(seed))
    key = InsecureSeededEntropy(seed).draw(prg.KEY_BYTES)
    words = prg.expand(key, records, np.uint64).tolist()
    assert rows.tolist() == [i for i, w in enumerate(words) if (w + 1) * records <= batch << 64]


def poisson_table(records: int, batch: int, draws: int) -> F64:
    """Who was drawn when: 0 or 1, (draws, records)."""
    entropy = InsecureSeededEntropy(11)
    table = np.zeros((draws, records))
    for draw in range(draws):
        table[draw, draw_batch("poisson", records, batch, entropy)] = 1
    return table


def test_coins_have_the_mean_and_the_variance_of_independent_ones() -> None:
    records, batch, draws = 150, 16, 4000
    table = poisson_table(records, batch, draws)
    q = batch / records
    sizes = table.sum(axis=1)
    assert abs(sizes.mean() - batch) < Z * np.sqrt(batch * (1 - q) / draws)
    # The variance of a sample variance of (nearly) normal values v is 2 v^2 / draws.
    variance = batch * (1 - q)
    assert abs(sizes.var() - variance) < Z * variance * np.sqrt(2 / draws)
    # Every record's own frequency: chi-square with as many degrees of freedom, its normal limit.
    squares = ((table.sum(axis=0) - draws * q) ** 2).sum() / (draws * q * (1 - q))
    assert abs(squares - records) < Z * np.sqrt(2 * records)


def test_coins_of_two_records_and_of_one_record_in_two_steps_are_independent() -> None:
    records, batch, draws = 60, 15, 4000
    table = poisson_table(records, batch, draws) - batch / records
    table /= np.sqrt(batch / records * (1 - batch / records))
    pairs = (table.T @ table / np.sqrt(draws))[np.triu_indices(records, 1)]
    later = (table[1:] * table[:-1]).sum(axis=0) / np.sqrt(draws - 1)
    for correlations in (pairs, later):
        assert np.abs(correlations).max() < 6.2, "normal, and there are 1770"
        squares = (correlations**2).sum()
        assert abs(squares - correlations.size) < Z * np.sqrt(2 * correlations.size)


@pytest.mark.parametrize(
    ("records", "batch", "limit"),
    # Chi-square over all subsets; the limit is the quantile of 1 - 10^-6 at so many subsets less one.
    [(5, 2, 44.8), (6, 3, 63.7), (7, 1, 38.3), (7, 6, 38.3)],
)
def test_all_subsets_are_alike(records: int, batch: int, limit: float) -> None:
    entropy, draws = InsecureSeededEntropy(12), 6000
    counts = Counter(tuple(draw_batch("fixed-size", records, batch, entropy).tolist()) for _ in range(draws))
    subsets = list(itertools.combinations(range(records), batch))
    assert set(counts) <= set(subsets)
    expected = draws / len(subsets)
    assert sum((counts[subset] - expected) ** 2 for subset in subsets) / expected < limit


def test_a_word_that_would_favour_small_rows_is_drawn_again() -> None:
    # 2^64 leaves 1 over 3, so that of all words only the last is one too many.
    assert dp_sampling._below(3, iter([2**64 - 1, 2**64 - 2])) == (2**64 - 2) % 3
    assert dp_sampling._below(2, iter([2**64 - 1])) == 1


def test_a_large_subset_takes_several_keys() -> None:
    rows = draw_batch("fixed-size", 1000, 700, InsecureSeededEntropy(1))
    assert len(set(rows.tolist())) == 700


@pytest.mark.parametrize("sampler", ["poisson", "fixed-size"])
def test_secret_entropy_draws_another_batch_each_time(sampler: Sampler) -> None:
    batches = {tuple(draw_batch(sampler, 200, 100, OsEntropy()).tolist()) for _ in range(5)}
    assert len(batches) == 5


@pytest.mark.parametrize("batch", [0, 11])
def test_impossible_batches_are_bugs(batch: int) -> None:
    with pytest.raises(UsageError, match="from 1 to 10"):
        draw_batch("poisson", 10, batch, OsEntropy())


@given(slots=st.integers(1, 80), examples=st.integers(0, 200), seed=st.integers(0, 2**32))
def test_slots_are_distinct_however_many(slots: int, examples: int, seed: int) -> None:
    drawn = draw_slots(slots, examples, InsecureSeededEntropy(seed)).tolist()
    blocks = max(1, -(-examples // slots))
    assert len(set(drawn)) == examples
    assert set(drawn) <= set(range(blocks * slots))


def test_all_choices_of_slots_are_alike() -> None:
    """Then the slots of some examples have one law, whatever the number of others: the proof rests on it."""
    draws, choices = 24_000, list(itertools.permutations(range(4), 3))
    entropy = InsecureSeededEntropy(21)
    counts = Counter(tuple(draw_slots(4, 3, entropy.child(draw)).tolist()) for draw in range(draws))
    assert set(counts) == set(choices)
    each = draws / len(choices)
    chi = sum((counts[choice] - each) ** 2 / each for choice in choices)
    # 23 degrees of freedom: beyond 70.6 once in 10^6.
    assert chi < 70.6
