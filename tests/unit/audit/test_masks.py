from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from securefl.base.arrays import Ring
from securefl.base.errors import UsageError
from securefl.base.ids import SERVER
from securefl.lab.audit.finding import Severity
from securefl.lab.audit.load import load, load_truth
from tests.recorded.masks import judge_masks
from tests.recorded.uniformity import FamilyTest, against, angles_of, lags, pairs, uniform


def words(seed: int, shape: tuple[int, ...], dtype: npt.DTypeLike = np.uint32) -> Ring:
    bits = 8 * np.dtype(dtype).itemsize
    drawn: Ring = np.random.default_rng(seed).integers(0, 2**bits, shape, dtype=np.dtype(dtype).type)
    return drawn


def families(vectors: Ring) -> list[FamilyTest]:
    known = [(k, np.arange(vectors.shape[1], dtype=np.float64)) for k in range(len(vectors))]
    return [t for t in (uniform(vectors), pairs(vectors), lags(vectors), against(vectors, known)) if t]


def test_false_alarms_are_no_more_frequent_than_stated() -> None:
    """120 honest sets of masks, alarms at 0.2: below 0.2 but for a probability of 1e-6 (48 of 120)."""
    alarms = dict.fromkeys(("uniform", "pairs", "lags", "truth"), 0)
    for seed in range(120):
        for test in families(words(seed, (4, 64))):
            alarms[test.name] += test.p_value < 0.2
    assert max(alarms.values()) < 48
    # The bounds are conservative, but not empty.
    assert sum(alarms.values()) > 0


@pytest.mark.parametrize("dtype", [np.uint32, np.uint64])
def test_each_pattern_is_seen_by_its_family(dtype: npt.DTypeLike) -> None:
    clean = words(7, (6, 1024), dtype)
    assert min(test.p_value for test in families(clean)) > 1e-3
    small = np.arange(1024).astype(clean.dtype)

    plain = clean.copy()
    plain[2] = small
    assert uniform(plain).p_value < 1e-12
    assert uniform(plain).worst == (2,)

    even = clean.copy()
    even[3] -= even[3] % 2
    assert uniform(even).worst == (3,)
    assert uniform(even).p_value < 1e-12

    reused = clean.copy()
    reused[5] = reused[1] + small
    found = pairs(reused)
    assert found is not None
    assert found.worst == (1, 5)
    assert found.p_value < 1e-12

    cancelling = clean.copy()
    cancelling[4] = small - cancelling[0]
    found = pairs(cancelling)
    assert found is not None
    assert found.worst == (0, 4)

    repeated = clean.copy()
    repeated[2, 512:] = repeated[2, :512]
    found = lags(repeated)
    assert found is not None
    assert found.worst == (2,)
    assert found.p_value < 1e-12

    linear = clean.copy()
    linear[1] = (np.arange(1024) * 2.0 ** (8 * clean.dtype.itemsize - 11)).astype(clean.dtype)
    found = against(linear, [(1, np.arange(1024.0))])
    assert found is not None
    assert found.p_value < 1e-12


def test_only_ring_words_are_taken() -> None:
    with pytest.raises(UsageError, match="u32 or u64"):
        angles_of(np.zeros((1, 4), dtype=np.int64))  # type: ignore[arg-type]  # the point


def test_an_honest_run_has_masks(plain: Path) -> None:
    recorded = load(plain)
    for truth in (None, load_truth(plain, recorded)):
        (found,) = judge_masks(recorded, truth)
        assert found.severity is Severity.HOLDS
        assert "11 masked inputs look uniform" in found.claim
        assert found.error_rate == 1e-3


def test_a_party_without_masks_is_named(plain: Path) -> None:
    recorded = load(plain)
    (server,) = recorded.transcripts[SERVER]

    def bare(fields: Any) -> Any:
        if fields.get("message") != "MaskedInput" or fields["from"] != "p03":
            return fields
        return {**fields, "vector": {**fields["vector"], "samples": list(range(64))}}

    entries = tuple(replace(entry, fields=bare(entry.fields)) for entry in server.entries)
    changed = {**recorded.transcripts, SERVER: (replace(server, entries=entries),)}
    found = list(judge_masks(replace(recorded, transcripts=changed), None))
    assert {f.severity for f in found} == {Severity.BREACH}
    assert all("p03" in f.parties for f in found)
    assert all(e.source == SERVER for f in found for e in f.evidence)
