"""Statistics of columns: exact to quantisation, bounded whatever a site says, and a file for the sites."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from securefl.base.errors import ConfigError, UsageError
from securefl.methods.metrics import Statistics, measure, metric_words, said_by
from securefl.methods.metrics.statistics import FeatureStatistics
from securefl.runtime.report.statistics import statistics_text
from securefl.scenario import statistics_round
from securefl.scenario.load import parse_scenario
from securefl.training.sites.tables import class_counts, column_table

BASE = """
name = "columns"
parties = 6
[model]
type = "weights"
[clustering]
size = 3
[statistics]
bins = 8
features = [{ name = "Age (years)", lower = -10, upper = 110 }, { name = "dose", lower = 0, upper = 4 }]
labels = { name = "outcome", classes = 3 }
"""
WORDS = metric_words(statistics_round(parse_scenario(BASE)), 64)
assert WORDS is not None
values = st.lists(st.floats(-20, 130) | st.just(math.nan), min_size=1, max_size=30)


def said(age: list[float], dose: list[float], labels: list[int]) -> np.ndarray:
    assert WORDS is not None
    tables = {
        "Age (years)": column_table(age, -10, 110, 8),
        "dose": column_table(dose, 0, 4, 8),
        "outcome": class_counts(labels, 3),
    }
    return said_by(WORDS.evaluation, len(age), tables)


@given(st.lists(values, min_size=3, max_size=6))
def test_pooled_moments_are_those_of_all_values(sites: list[list[float]]) -> None:
    assert WORDS is not None
    total = sum(WORDS.encode_values(said(own, own, [0] * len(own))) for own in sites)
    (found, doubted) = measure(WORDS, [(0, np.asarray(total), len(sites))], median=False)
    assert not doubted
    told = Statistics.of(WORDS.evaluation, found)
    every = np.array([value for own in sites for value in own])
    present = np.clip(every[~np.isnan(every)], -10, 110)
    age = told.features["Age (years)"]
    assert age.count == pytest.approx(len(present), abs=1e-6)
    assert age.missing == pytest.approx(len(every) - len(present), abs=1e-6)
    if len(present):
        assert age.mean == pytest.approx(present.mean(), abs=1e-6)
        if present.std() > 0.1:
            assert age.std == pytest.approx(present.std(), rel=0.01)
        else:
            assert age.std is None or age.std == pytest.approx(present.std(), rel=0.01)
        assert age.low is not None
        assert age.high is not None
        assert age.low <= present.min() + 1e-9
        assert present.min() - 15 - 1e-9 <= age.low
        assert present.max() <= age.high + 1e-9
        assert age.high <= present.max() + 15 + 1e-9
        assert age.median is not None
        # Within the bin of the middle value.
        assert (
            np.sort(present)[(len(present) - 1) // 2] - 15
            <= age.median
            <= np.sort(present)[len(present) // 2] + 15
        )
    else:
        assert age.mean is None


@given(st.lists(st.floats(allow_nan=True, allow_infinity=True), min_size=24, max_size=24))
def test_no_site_moves_a_sum_by_more_than_its_share(word: list[float]) -> None:
    assert WORDS is not None
    assert WORDS.length == len(word)
    encoded = np.ldexp(WORDS.encode_values(np.array(word)).astype(np.float64), -WORDS.scale)
    cap = WORDS.evaluation.samples
    assert encoded.min() >= 0
    blocks = [
        encoded[[0]],
        *([encoded[[1 + 10 * n]] for n in (0, 1)]),
        *([encoded[[2 + 10 * n]] for n in (0, 1)]),
    ]
    blocks += [encoded[3:11], encoded[13:21], encoded[21:]]
    assert all(block.sum() <= cap * (1 + 1e-9) for block in blocks)
    assert np.linalg.norm(encoded) <= cap * math.sqrt(1 + sum(m.blocks for m in WORDS.evaluation.metrics)) * (
        1 + 1e-9
    )


def test_a_sum_with_a_moment_beyond_its_samples_is_doubted() -> None:
    assert WORDS is not None
    total = WORDS.encode_values(said([20.0] * 5, [1.0] * 5, [0, 1, 2, 2, 2]))
    assert not WORDS.doubt(WORDS.read(total), 3)
    wrong = total.copy()
    wrong[1] = total[0] * 2
    assert WORDS.doubt(WORDS.read(wrong), 3) == "Age (years) counts more than all samples"
    wrong[1] = -total[0]
    assert WORDS.doubt(WORDS.read(wrong), 3) == "Age (years) is lower than possible"


@pytest.mark.parametrize("spread", [10.0, 1e-1, 1e-3, 1e-5, 1e-7, 0.0])
def test_a_spread_is_right_to_a_hundredth_or_unresolved(spread: float) -> None:
    """Epoch seconds in a range of a century gave 2,085 for 49.7; a third with no spread at all, 1e-6."""
    assert WORDS is not None
    rng = np.random.default_rng(3)
    ages = [30 + 1 / 3 + spread * rng.normal(size=400) for _ in range(3)]
    total = sum(WORDS.encode_values(said(list(own), list(own), [0] * len(own))) for own in ages)
    (found, _) = measure(WORDS, [(0, np.asarray(total), 3)], median=False)
    told = Statistics.of(WORDS.evaluation, found)
    age = told.features["Age (years)"]
    if age.std is None:
        assert spread < 0.2
        assert told.unresolved[0] == "Age (years)"
        assert "Age (years): unresolved spread" in statistics_text(told)
    else:
        assert age.std == pytest.approx(np.concatenate(ages).std(), rel=0.01)
        assert spread > 1e-4


def test_labels_give_shares() -> None:
    assert WORDS is not None
    total = WORDS.encode_values(said([20.0] * 4, [1.0] * 4, [0, 2, 2, 2]))
    found, _ = measure(WORDS, [(0, total, 3), (1, total, 3)], median=False)
    assert Statistics.of(WORDS.evaluation, found).classes == {"outcome": (0.25, 0.0, 0.75)}


def test_the_file_is_what_was_pooled(tmp_path: Path) -> None:
    assert WORDS is not None
    one, two = (
        WORDS.encode_values(said([age] * 4, [1.0, math.nan, 2.0, 3.0], [0, 1, 2, 2])) for age in (20.0, 40.0)
    )
    found, _ = measure(WORDS, [(0, one, 3), (1, two, 3)], median=False)
    told = Statistics.of(WORDS.evaluation, found)
    assert told.features["Age (years)"].mean_range == pytest.approx((20, 40), abs=1e-6)
    (tmp_path / "s.json").write_text(json.dumps(told.to_json()))
    assert Statistics.load(tmp_path / "s.json") == told


def test_standardised_columns_have_mean_0_and_deviation_1() -> None:
    told = Statistics({"a": FeatureStatistics(4, 0, 2.0, 0.5), "b": FeatureStatistics(4, 0, 1.0, 0.0)}, {})
    found = told.standardise(np.array([[2.5], [math.nan]]), ["a"])
    np.testing.assert_array_equal(found, [[1.0], [0.0]])
    np.testing.assert_array_equal(told.standardise(np.array([[1.0]]), ["a"]), [[-2.0]])
    assert told.unresolved == ("b",)
    with pytest.raises(UsageError, match="column 'c' has no statistics"):
        told.standardise(np.zeros((1, 1)), ["c"])
    with pytest.raises(UsageError, match="but 2 columns are named"):
        told.standardise(np.zeros((1, 3)))


def test_a_column_of_unresolved_spread_is_refused_or_centred() -> None:
    """In its own unit it could outweigh all others, or be lost among them: no line said so."""
    a = FeatureStatistics(4, 0, 2.0, errors={"std": 0.25})
    told = Statistics(
        {"a": a, "none": FeatureStatistics(0, 4), "zero": FeatureStatistics(4, 0, 1.0, 0.0)}, {}
    )
    assert told.unresolved == ("a", "zero")
    row = np.array([[2.001, 7.0, 1.5]])
    with pytest.raises(
        UsageError,
        match=r"column 'a': its standard deviation is 0, or below 0.25, lost in the noise; declare",
    ):
        told.standardise(row)
    with pytest.raises(UsageError, match="column 'zero': its standard deviation is 0, lost"):
        told.standardise(row[:, 2:], ["zero"])
    centred = told.standardise(row, unresolved="centre")
    np.testing.assert_array_equal(centred, [[2.001 - 2.0, 0.0, 0.5]])
    np.testing.assert_array_equal(told.standardise(row[:, 1:2], ["none"]), [[0.0]])


def stated(mean: float) -> dict[str, object]:
    """A file of one feature with this mean."""
    return Statistics({"age": FeatureStatistics(3.0, 0.0, mean=mean, std=1.0)}, {}).to_json()


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("{", "JSONDecodeError"),
        ('{"format": "x"}', "format 'x', expected 'securefl statistics 1'"),
        ('{"format": "securefl statistics 1", "features": {"a": {"count": 1}}, "classes": {}}', "KeyError"),
        ('{"format": "securefl statistics 1", "features": 3, "classes": {}}', "AttributeError"),
        *(
            (json.dumps(stated(value)), "numbers that are not finite")
            for value in (math.inf, -math.inf, math.nan)
        ),
    ],
)
def test_another_file_is_refused(tmp_path: Path, text: str, reason: str) -> None:
    (tmp_path / "s.json").write_text(text)
    with pytest.raises(ConfigError, match=r"s\.json: is not a statistics") as caught:
        Statistics.load(tmp_path / "s.json")
    assert reason in str(caught.value)
    with pytest.raises(ConfigError, match="cannot be read: No such file"):
        Statistics.load(tmp_path / "none.json")
