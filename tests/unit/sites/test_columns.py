"""A site's columns against what was declared: a line a difference."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from securefl.base.errors import ConfigError, UsageError
from securefl.scenario import Metric, SiteEvaluation
from securefl.training.sites.columns import ColumnSite, columns_of, differences
from securefl.training.sites.site import Delta, RoundContext
from securefl.training.sites.tables import ColumnCounts, class_counts, column_table

ASKED = SiteEvaluation(
    metrics=(
        Metric(name="age", kind="column", upper=100.0, bins=4),
        Metric(name="outcome", kind="classes", classes=2),
    )
)
GOOD: dict[str, Any] = {"age": [10.0, 30.0, None, 99.0], "outcome": [0, 1, 1, 0]}


class Source:
    samples = 3

    def __init__(self, columns: Any) -> None:
        self._columns = columns

    def parameters(self) -> dict[str, Any]:
        raise AssertionError("a site that is asked for columns needs no model")

    def fit(self, *_: Any) -> Any:
        raise AssertionError("nor training")

    def columns(self) -> Any:
        return self._columns


def test_a_site_tells_tables_of_its_columns_and_changes_nothing() -> None:
    site = ColumnSite(Source(GOOD), ASKED)
    assert site.samples == 4
    samples, found = site.evaluate({}, RoundContext(0, 1, 0))
    assert samples == 4
    np.testing.assert_allclose(found["age"], [1.39, 0.1**2 + 0.3**2 + 0.99**2, 1, 1, 0, 1])
    np.testing.assert_array_equal(found["outcome"], [2, 2])
    changed, used, _ = site.fit({}, RoundContext(0, 1, 0))
    assert isinstance(changed, Delta)
    assert not changed.arrays["statistics"].any()
    assert used == 4


@pytest.mark.parametrize(
    ("change", "line"),
    [
        ({"age": None}, "the column 'age' is missing"),
        ({"age": ["old"] * 4}, "'age' holds text, not numbers"),
        ({"age": [1.0] * 3}, "'age' has 3 samples, other columns have 4"),
        ({"outcome": [0, 1, 2, 0]}, "'outcome' has values that are not classes from 0 to 1"),
        ({"outcome": [0, 1, None, 0]}, "'outcome' has values that are not classes from 0 to 1"),
        ({"age": [], "outcome": []}, "there are no samples"),
    ],
)
def test_a_difference_that_cannot_be_counted_is_refused(change: dict[str, Any], line: str) -> None:
    columns = {name: values for name, values in {**GOOD, **change}.items() if values is not None}
    with pytest.raises(ConfigError) as caught:
        ColumnSite(Source(columns), ASKED)
    assert line in str(caught.value)


def test_all_differences_are_named_at_once() -> None:
    with pytest.raises(ConfigError) as caught:
        ColumnSite(Source({"outcome": [7]}), ASKED)
    assert "the column 'age' is missing; 'outcome' has values that are not" in str(caught.value)
    assert "'outcome' has values" in str(caught.value)


def test_what_can_be_counted_is_told_only() -> None:
    columns = {**GOOD, "age": [10.0, 300.0, np.nan, 99.0], "name": ["a", "b", "c", "d"]}
    assert list(differences(columns, ASKED)) == [
        ("'age' lacks 25.00% of its values", False),
        ("'age' is outside 0 to 100 in 33.33%, and counts as its end there", False),
        ("'name' is not declared, and stays out", False),
    ]
    ColumnSite(Source(columns), ASKED)
    empty = {**GOOD, "age": [np.nan] * 4}
    assert list(differences(empty, ASKED)) == [("'age' has no values at all", False)]


def test_values_outside_the_range_and_missing_ones_are_counted() -> None:
    columns = {**GOOD, "age": [-np.inf, -1.0, np.nan, 100.0], "outcome": [0, 1, 1, 0]}
    site = ColumnSite(Source(columns), ASKED)
    assert site.column_counts == {"age": ColumnCounts(below=2, above=0, infinite=1, missing=1)}
    one, other = site.column_counts["age"], ColumnCounts(above=1)
    assert one.text == "2 below the range, 1 of them infinite, counted as its ends; 1 missing"
    assert one.plus(other) == ColumnCounts(2, 1, 1, 1)
    assert other.text == "1 above the range, counted as its ends"
    assert ColumnCounts().text == ""
    assert ("'age' is infinite in 1, and counts as an end of its range there", False) in differences(
        columns, ASKED
    )
    np.testing.assert_array_equal(site.evaluate({}, RoundContext(0, 1, 0))[1]["age"], [1, 1, 2, 0, 0, 1])


def test_a_site_without_columns_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"the site has no method columns\(\)"):
        columns_of(lambda _: type("Bare", (), {"samples": 1, "parameters": dict, "fit": None})(), ASKED)(
            "p00"
        )


def test_tables_need_a_range_bins_and_classes() -> None:
    with pytest.raises(UsageError, match="must be finite with lower < upper"):
        column_table([1.0], 2, 2)
    with pytest.raises(UsageError, match="must be finite with lower < upper"):
        column_table([1.0], -1e308, 1e308)
    with pytest.raises(UsageError, match="bins must be at least 1, found 0"):
        column_table([1.0], 0, 2, 0)
    with pytest.raises(UsageError, match="the class of sample 0 must be a whole number from 0 to 1, found 3"):
        class_counts([3], 2)
