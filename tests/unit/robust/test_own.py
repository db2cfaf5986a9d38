"""Rules of one's own that do something wrong."""

from __future__ import annotations

import numpy as np
import pytest

from securefl.base.errors import ConfigError, RunAbortedError
from securefl.base.stack import AggregationResult, ClusterMeans
from securefl.methods.robust.catalogue import aggregate
from securefl.methods.robust.tolerance import breakdown
from securefl.scenario.aggregation import Rule


class Faulty(Rule, frozen=True, kw_only=True):
    """A rule of one's own that does ``how`` wrong."""

    how: str

    def withstands(self, clusters: int) -> int:
        return 99 if self.how == "withstands" else 0

    def aggregate(self, stack: ClusterMeans) -> AggregationResult:
        kept = np.ones(stack.clusters, dtype=np.bool_)
        match self.how:
            case "raises":
                raise ZeroDivisionError("no weights")
            case "bare":
                return stack.means[0]  # type: ignore[no-any-return]
            case "short":
                return AggregationResult(stack.means[0][:1], kept)
            case "counts":
                return AggregationResult(stack.means[0], kept.astype(np.int64))
            case _:
                return AggregationResult(stack.means[0], kept)


@pytest.mark.parametrize(
    ("how", "reason"),
    [
        ("raises", "Faulty raised ZeroDivisionError: no weights"),
        ("bare", "Faulty returned ndarray, expected an AggregationResult of f64 (2,) and bool (3,)"),
        ("short", "expected an AggregationResult of f64 (2,) and bool (3,)"),
        ("counts", "expected an AggregationResult of f64 (2,) and bool (3,)"),
    ],
)
def test_a_faulty_rule_of_ones_own_is_blamed_in_one_line(how: str, reason: str) -> None:
    stack = ClusterMeans(np.arange(6.0).reshape(3, 2), np.ones(3), np.ones(3, dtype=np.int64))
    assert aggregate(Faulty(how=""), stack).vector.tolist() == [0.0, 1.0]
    with pytest.raises(RunAbortedError) as caught:
        aggregate(Faulty(how=how), stack)
    assert str(caught.value).endswith(reason)
    assert "\n" not in str(caught.value)


def test_a_rule_of_ones_own_withstands_a_number_of_clusters() -> None:
    with pytest.raises(
        ConfigError, match=r"^aggregation\.rule\.type: .*Faulty returned 99 from withstands\(4\)"
    ):
        breakdown(Faulty(how="withstands"), 4)
    assert breakdown(Faulty(how=""), 4) == 0
