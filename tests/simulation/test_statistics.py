"""Statistics of whole federations: those of everybody who was counted, with the epsilon that was asked."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import norm

import securefl
from securefl.base.errors import ConfigError
from securefl.scenario import statistics_round

TEXT = """
name = "columns"
parties = 12
[model]
type = "weights"
[clustering]
size = 4
atoms = 2
[encoding]
clip = 1
range = 1
[statistics]
features = [{ name = "dose", lower = -4, upper = 8 }]
labels = { name = "outcome", classes = 2 }
"""


class Ward:
    """Other patients at each site, some of whom lack their dose."""

    def __init__(self, name: str) -> None:
        rng = np.random.default_rng(int(name[1:]))
        self.samples = 20 + int(name[1:])
        self.dose = rng.normal(int(name[1:]) / 4, 1.0, self.samples)
        self.dose[rng.random(self.samples) < 0.1] = np.nan
        self.outcome = rng.integers(0, 2, self.samples)

    def parameters(self) -> Any:
        return {"w": np.zeros(1, np.float32)}

    def fit(self, parameters: Any, context: Any) -> Any:
        raise AssertionError("nobody trains")

    def columns(self) -> dict[str, Any]:
        return {"dose": self.dose, "outcome": self.outcome}


def load(folder: Path, *overrides: str) -> securefl.Scenario:
    (folder / "columns.toml").write_text(TEXT)
    return securefl.load(folder / "columns.toml", overrides)


@pytest.mark.parametrize("faults", ["", "{kind='drop',phase='after-keys',count=3}"])
def test_statistics_are_those_of_everybody_who_was_counted(tmp_path: Path, faults: str) -> None:
    round_ = statistics_round(load(tmp_path))
    result = securefl.simulate(
        securefl.with_overrides(round_, (f"behaviours=[{faults}]",)),
        site=Ward,
        out=tmp_path / "run",
        seed=3,
    )
    inside = sorted(party for one in result.rounds[0].sums for party in one.counted)
    assert 6 <= len(inside) < 12 if faults else len(inside) == 12
    dose = np.concatenate([Ward(name).dose for name in inside])
    outcome = np.concatenate([Ward(name).outcome for name in inside])
    told = securefl.Statistics.load(tmp_path / "run" / "statistics.json")
    one, there = told.features["dose"], np.clip(dose[~np.isnan(dose)], -4, 8)
    assert one.count == pytest.approx(len(there), abs=1e-6)
    assert one.missing == pytest.approx(len(dose) - len(there), abs=1e-6)
    assert one.mean == pytest.approx(there.mean(), abs=1e-6)
    assert one.std == pytest.approx(there.std(), abs=1e-6)
    assert told.classes["outcome"][1] == pytest.approx(outcome.mean(), abs=1e-6)
    assert one.mean_range is not None
    assert one.mean_range[0] < there.mean() < one.mean_range[1]


def test_from_python_it_is_one_call(tmp_path: Path) -> None:
    told = securefl.statistics(load(tmp_path), site=Ward)
    columns = np.concatenate([Ward(f"p{n:02d}").dose for n in range(12)])
    standard = told.standardise(np.clip(columns, -4, 8)[:, np.newaxis])[~np.isnan(columns)]
    assert abs(standard.mean()) < 1e-6
    assert abs(standard.std() - 1) < 1e-6


def test_epsilon_is_what_was_asked_and_nearly_all_of_it_is_the_statistics(tmp_path: Path) -> None:
    noise = ("privacy={unit='party',epsilon=4}", "statistics.samples=40", "encoding.scale_bits=8")
    spent = {}
    for name, asked in (("whole", "statistics.epsilon=2"), ("multiplier", "statistics.multiplier=2.5")):
        found = statistics_round(load(tmp_path, *noise, asked))
        result = securefl.simulate(found, site=Ward, out=tmp_path / name, seed=3)
        epsilon = result.summary.outcome.epsilon
        assert epsilon is not None
        spent[name] = epsilon
    assert 1.95 < spent["whole"] <= 2
    # A Gaussian of this multiplier alone, by its own formula.
    assert spent["multiplier"] == pytest.approx(_gaussian(2.5, 12**-1.1), rel=0.03)


def _gaussian(multiplier: float, delta: float) -> float:
    """Epsilon of one Gaussian release (Balle and Wang 2018, theorem 8), by bisection."""

    def of(epsilon: float) -> float:
        a, b = 1 / (2 * multiplier), epsilon * multiplier
        return float(norm.cdf(a - b) - np.exp(epsilon) * norm.cdf(-a - b))

    low, high = 0.0, 50.0
    for _ in range(80):
        middle = (low + high) / 2
        low, high = (middle, high) if of(middle) > delta else (low, middle)
    return high


def test_a_site_whose_columns_differ_is_refused_by_name(tmp_path: Path) -> None:
    class Other(Ward):
        def columns(self) -> dict[str, Any]:
            return {"doses": self.dose, "outcome": self.outcome + 1}

    with pytest.raises(ConfigError) as caught:
        securefl.statistics(load(tmp_path), site=Other)
    line = str(caught.value)
    assert "\n" not in line
    assert "p00: the column 'dose' is missing; 'outcome' has values that are not classes from 0 to 1" in line
