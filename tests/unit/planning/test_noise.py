"""The noise that a plan reckons with, against what a run of its scenario settles on."""

from __future__ import annotations

from dataclasses import replace

import pytest

from securefl.base.errors import ConfigError
from securefl.lab.planning.demand import PlanRequest
from securefl.lab.planning.design import Design, Shape
from securefl.lab.planning.drafting import delta_of, draft
from securefl.lab.planning.noise import multiplier_of
from securefl.methods.privacy.accountant import quick_epsilon
from securefl.methods.privacy.components import Placement
from securefl.methods.privacy.release import ReleaseEvent
from securefl.methods.privacy.settling import settle
from securefl.methods.robust.rules.mean import Mean

DEMAND = PlanRequest(parties=20, colluders=1, epsilon=2.0, unit="party", rounds=5)
DESIGN = Design(
    shape=Shape(size=5), colluders=1, threshold=3, min_survivors=4, rule=Mean(), noise="threshold"
)


@pytest.mark.parametrize("noise", ["local", "threshold", "dropout-exact"])
def test_a_run_settles_on_as_much(noise: Placement) -> None:
    multiplier = multiplier_of(DEMAND, 1)
    scenario = draft(DEMAND, replace(DESIGN, noise=noise), "digits", multiplier)
    settled = settle(scenario, DEMAND.parameters, None).privacy
    assert settled.multiplier is not None
    assert settled.multiplier == pytest.approx(multiplier, rel=0.02)
    assert settled.releases == 5


def test_more_releases_take_more_noise() -> None:
    multipliers = [multiplier_of(DEMAND, works) for works in (1, 2, 3)]
    assert multipliers == sorted(multipliers)
    assert multipliers[1] == pytest.approx(multipliers[0] * 2**0.5, rel=0.02)
    assert multiplier_of(replace(DEMAND, epsilon=None), 1) == 0.0


def test_a_record_among_many_takes_less_noise() -> None:
    record = replace(DEMAND, unit="record", records=72)
    one = multiplier_of(record, 1)
    assert one < multiplier_of(DEMAND, 1)
    event = ReleaseEvent(
        noise_multiplier=one, steps=5, sampler="poisson", records=72, batch=16, denominator=16
    )
    assert 1.0 < quick_epsilon([event], delta_of(record)) <= 2.0


def test_noise_that_fits_no_table_is_refused() -> None:
    huge = replace(DEMAND, parameters=10**7)
    with pytest.raises(
        ConfigError, match=r"^--epsilon: no noise table holds a multiplier of 1e\+08 with 10000000 parameters"
    ):
        draft(huge, DESIGN, "digits", 1e8)
