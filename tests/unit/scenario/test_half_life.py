"""The half-life of the scores of ``inner-product``: what is refused, what it changes, how long it is."""

from __future__ import annotations

import math
import sys

import pytest

from securefl.methods.robust.tolerance import rounds_remembered
from securefl.scenario.resolved import scenario_digest, to_toml
from tests.unit.scenario.samples import complaint, refusal, small

SERVER = "data.server_per_class=2"
FIELD = "aggregation.rule.half_life"


def rule(half_life: str = "", name: str = "inner-product", more: str = "gamma=0.6") -> str:
    fields = ", ".join(
        part for part in (f"type='{name}'", more, half_life and f"half_life={half_life}") if part
    )
    return f"aggregation.rule={{{fields}}}"


@pytest.mark.parametrize(
    ("half_life", "said"),
    [
        ("0", "expected float > 0.0, found 0"),
        ("-3", "expected float > 0.0, found -3"),
        ("1e-400", "expected float > 0.0, found 0.0"),
        ("nan", "must be a finite number, found nan"),
        ("inf", "must be a finite number, found inf"),
        ("'long'", 'found "long"'),
    ],
)
def test_it_is_a_positive_number_of_rounds(half_life: str, said: str) -> None:
    error = complaint(rule(half_life))
    assert error is not None
    assert error.path == FIELD
    assert said in str(error)
    assert "\n" not in str(error)


def test_it_is_refused_where_no_scores_are_kept() -> None:
    error = refusal(rule("20", more="gamma=0.6, select='per-round'"), SERVER)
    assert (error.path, error.remedy) == (FIELD, 'leave it out, or select = "accumulated"')
    other = complaint(rule("20", "zeno++", ""))
    assert other is not None
    assert str(other).startswith(f'{FIELD}: is not a field of type = "zeno++"')


def test_it_changes_what_is_agreed_upon_and_without_it_nothing_is_said() -> None:
    plain, forgetful, slower = (small(rule(half_life), SERVER) for half_life in ("", "20", "21"))
    assert "half_life" not in to_toml(plain)
    assert "half_life = 20.0" in to_toml(forgetful)
    assert len({scenario_digest(made) for made in (plain, forgetful, slower)}) == 3


@pytest.mark.parametrize("half_life", [0.05, 1.0, 20.0, 1e4])
def test_the_rounds_of_a_sum_that_tells_as_much(half_life: float) -> None:
    """(sum of w)^2 / (sum of w^2) over geometric weights w, added up."""
    weights = [2.0 ** (-age / half_life) for age in range(math.ceil(60 * half_life) + 1)]
    expected = math.fsum(weights) ** 2 / math.fsum(w * w for w in weights)
    assert rounds_remembered(half_life) == pytest.approx(expected, rel=1e-9)
    assert rounds_remembered(half_life) == pytest.approx(max(1, 2 * half_life / math.log(2)), rel=0.05)


def test_a_half_life_beyond_all_rounds_is_no_mistake() -> None:
    assert rounds_remembered(sys.float_info.max) == rounds_remembered(math.inf) == math.inf
