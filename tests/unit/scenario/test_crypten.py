"""What CrypTen sums cannot do is refused with field, reason and remedy; what is weak is in the header."""

from __future__ import annotations

import pytest

from securefl.base.errors import ConfigError
from securefl.methods.feasibility.limits import check
from securefl.scenario.draws import drawn_digest
from securefl.scenario.load import parse_scenario
from securefl.scenario.resolved import scenario_digest
from tests.simulation.world import scenario
from tests.unit.scenario.samples import header_of

TEXT = """
name = "x"
parties = 6
[clustering]
size = 3
[secure_sum]
{}
[stop]
rounds = 1
"""


@pytest.mark.parametrize(
    ("path", "reason", "sets"),
    [
        ("secure_sum.threshold", "threshold = 3", {"min_survivors": "3"}),
        (
            "secure_sum.min_survivors",
            "a CrypTen sum of one member would be its update",
            {"threshold": "1", "min_survivors": "1", "k_anonymity": "1"},
        ),
    ],
)
def test_what_does_not_fit_is_refused(path: str, reason: str, sets: dict[str, str]) -> None:
    chosen = {"kind": "crypten", "threshold": "2", "min_survivors": "2", **sets}
    lines = "\n".join(f"{key} = {value if value.isdigit() else repr(value)}" for key, value in chosen.items())
    with pytest.raises(ConfigError) as refused:
        check(parse_scenario(TEXT.format(lines), ("leakage.mode=report",)))
    assert refused.value.path == path
    assert reason in str(refused.value)


@pytest.mark.parametrize("value", ["gmw", "CrypTen"])
def test_other_kinds_are_refused(value: str) -> None:
    with pytest.raises(ConfigError, match=r"secure_sum\.kind"):
        scenario(secure_sum__kind=value)


def test_falling_silent_after_shares_that_nobody_deals_is_refused() -> None:
    text = TEXT.format('kind = "crypten"\nthreshold = 2\nmin_survivors = 2')
    text += """
[[behaviours]]
kind = "drop"
phase = "after-shares"
parties = ["p01"]
"""
    with pytest.raises(ConfigError, match=r"^behaviours\.0\.phase: .*after-keys"):
        check(parse_scenario(text))


def test_the_header_says_what_opens_a_sum() -> None:
    assert not [note for note in header_of(scenario()) if "CrypTen" in note]
    (plain,) = [note for note in header_of(scenario(secure_sum__kind="crypten")) if "CrypTen" in note]
    assert "CrypTen: 2 attempts; a dropout after the freeze loses a cluster" in plain


def test_twins_draw_the_same_clusters_and_sign_different_configurations() -> None:
    masked, shared = scenario(), scenario(secure_sum__kind="crypten")
    assert drawn_digest(masked) == drawn_digest(shared)
    assert scenario_digest(masked) != scenario_digest(shared)
    # What each machine decides for itself.
    assert scenario_digest(shared) == scenario_digest(
        scenario(secure_sum__kind="crypten", training__device="cpu")
    )
