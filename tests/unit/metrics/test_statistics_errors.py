"""Errors that statistics of columns state, against two passes over all values.

Values are of magnitudes from 1e-12 to 1e12, with offsets up to 1e9 times their spread, in ranges
up to a million times as wide.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from securefl.base.arrays import F64
from securefl.base.errors import ConfigError
from securefl.methods.feasibility.limits import check
from securefl.methods.metrics import Statistics, measure, metric_words, said_by
from securefl.methods.metrics.statistics import FeatureStatistics
from securefl.scenario import Scenario, statistics_round
from securefl.scenario.load import parse_scenario
from securefl.training.sites.tables import column_table

SITES, BINS = 3, 8
TEXT = """
name = "columns"
parties = 3
[model]
type = "weights"
[clustering]
size = 3
[statistics]
bins = 8
features = [{{ name = "x", lower = {lower!r}, upper = {upper!r} }}]
"""


def asked(lower: float, upper: float) -> Scenario:
    return statistics_round(parse_scenario(TEXT.format(lower=lower, upper=upper)))


def pooled(sites: list[F64], lower: float, upper: float, cap: int | None = None) -> FeatureStatistics:
    scenario = asked(lower, upper) if cap is None else _capped(lower, upper, cap)
    words = metric_words(scenario, 64)
    assert words is not None
    tables = [(len(own), {"x": column_table(own, lower, upper, BINS)}) for own in sites]
    total = np.sum([words.encode_values(said_by(words.evaluation, *one)) for one in tables], axis=0)
    found, doubted = measure(words, [(0, np.asarray(total), len(sites))], median=False)
    assert not doubted
    return Statistics.of(words.evaluation, found).features["x"]


def _capped(lower: float, upper: float, cap: int) -> Scenario:
    text = TEXT.format(lower=lower, upper=upper) + f"samples = {cap}\n"
    return statistics_round(parse_scenario(text))


def spread_of(values: F64) -> float:
    """Two passes, on differences from a value, which are exact where values are close."""
    return float((values - values[0]).std())


def check_errors(found: FeatureStatistics, values: F64) -> None:
    """Compare each number with that of all values, within the error that it states."""
    slack = 1e-12 * float(np.abs(values).max())
    assert found.mean is not None
    assert abs(found.mean - math.fsum(values) / len(values)) <= found.errors["mean"] + slack
    true = spread_of(values)
    if found.std is None:
        assert true <= found.errors["std"]
    else:
        assert abs(found.std / true - 1) <= 0.01
        assert abs(found.std - true) <= found.errors["std"]
    for name, share in (("low", 0.0), ("q25", 0.25), ("median", 0.5), ("q75", 0.75), ("high", 1.0)):
        value = getattr(found, name)
        ends = [np.quantile(values, share, method=how) for how in ("lower", "higher")]
        least, most = float(ends[0]), float(ends[1])
        assert least - found.errors[name] - slack <= value <= most + found.errors[name] + slack
    assert abs(found.count - len(values)) <= found.errors["count"] + 1e-9


@given(
    st.integers(0, 2**32 - 1),
    st.floats(-12, 12),
    st.floats(-1, 9),
    st.floats(0, 6),
    st.floats(0, 1),
    st.integers(1, 60),
)
@example(1, 9.2, 7.5, 1.5, 0.5, 60)
def test_numbers_are_within_the_errors_that_they_state(
    seed: int, magnitude: float, offset: float, wider: float, place: float, samples: int
) -> None:
    """Epoch seconds gave 2,085 for 49.7; nothing said that their spread was lost in the range."""
    rng, size = np.random.default_rng(seed), 10.0**magnitude
    spread = size / max(1.0, 10.0**offset)
    sites = [size + spread * rng.normal(size=rng.integers(1, samples + 1)) for _ in range(SITES)]
    values = np.concatenate(sites)
    width = max(float(np.ptp(values)), spread) * 10.0**wider * 1.01
    lower = float(values.min()) - place * (width - float(np.ptp(values)))
    upper = lower + width
    assume(lower <= values.min() and values.max() <= upper)
    check_errors(pooled(sites, lower, upper), values)


@given(st.floats(-12, 12), st.floats(0, 1), st.floats(0, 8), st.integers(1, 50))
@example(0.0, 1 / 3, 0.0, 50)
def test_a_constant_column_has_no_spread(magnitude: float, place: float, wider: float, samples: int) -> None:
    """A third had one of 1e-6, by which a third and a thousandth became 983."""
    value = 10.0**magnitude
    width = value * 10.0**wider
    lower, upper = value - place * width, value + (1 - place) * width
    assume(lower <= value <= upper)
    found = pooled([np.full(samples, value)] * SITES, lower, upper)
    assert found.std is None
    check_errors(found, np.full(SITES * samples, value))
    told = Statistics({"x": found}, {})
    assert told.unresolved == ("x",)
    (centred,) = told.standardise(np.array([[value + width / 1000]]), unresolved="centre")[0]
    assert centred == pytest.approx(width / 1000, rel=1e-3)


@given(st.integers(0, 2**32 - 1), st.integers(2, 40), st.integers(1, 100))
def test_sites_of_more_than_the_cap_state_the_error_of_their_counts(seed: int, cap: int, more: int) -> None:
    """Counts of larger sites are fractions, each of which is rounded."""
    rng = np.random.default_rng(seed)
    sites = [rng.uniform(0.2, 0.7, cap + more) for _ in range(SITES)]
    found = pooled(sites, 0.0, 1.0, cap)
    values = np.concatenate(sites)
    assert found.mean is not None
    assert found.std is not None
    assert abs(found.mean - values.mean()) <= found.errors["mean"]
    assert abs(found.std - values.std()) <= found.errors["std"]
    assert abs(found.count - SITES * cap) <= found.errors["count"]


@given(
    st.lists(
        st.sampled_from([-math.inf, -2.0, 0.25, 0.5, 0.75, 3.0, math.inf, math.nan]), min_size=1, max_size=40
    )
)
def test_infinities_are_ends_of_the_range_and_nan_is_missing(values: list[float]) -> None:
    found = pooled([np.array(values)] * SITES, 0.0, 1.0)
    present = np.clip([value for value in values if not math.isnan(value)], 0, 1)
    assert found.missing == pytest.approx(SITES * (len(values) - len(present)), abs=1e-6)
    if len(present):
        check_errors(found, np.tile(present, SITES))
    else:
        assert found.mean is None


@given(st.floats(-12, 12), st.floats(8, 16))
def test_ranges_that_doubles_do_not_divide_are_refused(magnitude: float, narrow: float) -> None:
    lower = 10.0**magnitude
    upper = lower * (1 + 10.0**-narrow)
    assume(not 1e-10 < upper / lower - 1 < 1e-9)
    if upper / lower - 1 > 1e-9:
        check(asked(lower, upper))
    else:
        with pytest.raises(ConfigError, match=r"^statistics.features.0.upper: "):
            check(asked(lower, upper))


def test_errors_are_in_the_file_and_a_file_without_them_is_read() -> None:
    found = pooled([np.linspace(0, 1, 30)] * SITES, 0.0, 1.0)
    told = Statistics({"x": found}, {"y": (0.25, 0.75)}, {"y": (0.01, 0.01)})
    again = Statistics._of_json(told.to_json())
    assert again == told
    older = told.to_json()
    del older["features"]["x"]["errors"], older["class_errors"]
    assert Statistics._of_json(older).features["x"].errors == {}
