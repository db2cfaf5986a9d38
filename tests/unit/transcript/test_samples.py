from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from securefl.base.arrays import digest_of
from securefl.base.errors import UsageError
from securefl.runtime.transcript.samples import SAMPLES, LabStore, sample_positions, vector_record
from tests.tiers import examples


@given(st.integers(0, 20_000), st.text(max_size=8))
@settings(max_examples=examples(40), deadline=None)
def test_positions_are_distinct_ascending_and_within(length: int, run: str) -> None:
    positions = sample_positions(run, length)
    assert positions.size == min(length, SAMPLES)
    assert (np.diff(positions) > 0).all()
    assert positions.size == 0 or (positions[0] >= 0 and positions[-1] < length)


def test_positions_depend_on_run_and_length_only() -> None:
    sample_positions.cache_clear()
    first = sample_positions("r1", 100_000)
    sample_positions.cache_clear()
    assert np.array_equal(first, sample_positions("r1", 100_000))
    assert not np.array_equal(first, sample_positions("r2", 100_000))
    assert sample_positions("r1", 100_001).max() < 100_001
    # Transcripts of former versions stay comparable.
    assert first[:5].tolist() == PINNED


PINNED = [29, 37, 45, 111, 139]


def test_positions_are_spread_evenly() -> None:
    halves = sample_positions("r1", 1_000_000) < 500_000
    # 4,096 fair coins: 6.25 standard deviations on either side.
    assert abs(int(halves.sum()) - SAMPLES // 2) < 200


def test_sums_can_be_taken_on_the_samples() -> None:
    rng = np.random.default_rng(1)
    first, second = (rng.integers(0, 2**31, 10_000, dtype=np.uint32) for _ in range(2))
    records = [vector_record(v, "r1")["samples"] for v in (first, second, first + second)]
    a, b, total = (np.array(record, dtype=np.uint64) for record in records)
    assert np.array_equal(a + b, total)


@pytest.mark.parametrize("dtype", [np.uint32, np.uint64, np.int64, np.float32, np.float64])
def test_a_record_is_exact(dtype: type[np.generic]) -> None:
    vector = np.array([0, 1, 3, 2**31], dtype=dtype)
    record = vector_record(vector, "r1")
    assert record["digest"] == digest_of(vector).hex()
    assert (record["length"], record["dtype"]) == (4, np.dtype(dtype).name)
    assert np.array_equal(np.array(record["samples"], dtype=dtype), vector)


def test_what_is_not_finite_is_null() -> None:
    vector = np.array([1.5, np.nan, np.inf], dtype=np.float32)
    assert vector_record(vector, "r1")["samples"] == [1.5, None, None]


@pytest.mark.parametrize("array", [np.zeros((2, 2)), np.zeros(2, dtype=bool), np.array([object()])])
def test_other_arrays_are_refused(array: np.ndarray[tuple[int, ...], np.dtype[np.generic]]) -> None:
    with pytest.raises(UsageError):
        vector_record(array, "r1")


def test_whole_vectors_only_in_the_lab(tmp_path: Path) -> None:
    vector = np.arange(10_000, dtype=np.uint32)
    vector_record(vector, "r1")
    assert not list(tmp_path.iterdir())
    lab = LabStore(tmp_path / "lab")
    record = vector_record(vector, "r1", lab)
    vector_record(vector, "r1", lab)
    (stored,) = (tmp_path / "lab").iterdir()
    assert stored.name == f"{record['digest']}.npy"
    assert np.array_equal(np.load(stored, allow_pickle=False), vector)
