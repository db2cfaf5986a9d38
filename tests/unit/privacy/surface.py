"""Asking for an epsilon, over sizes of models, numbers of releases and both accountants."""

from __future__ import annotations

import math
import re
from typing import Literal, NamedTuple

from securefl.base.errors import ConfigError
from securefl.methods.privacy.accountant import epsilon
from securefl.methods.privacy.composition import Accountant
from securefl.methods.privacy.mechanism import mechanism_of
from securefl.methods.privacy.sensitivity import planned_releases
from securefl.methods.privacy.settling import settle
from securefl.scenario.scenario import Scenario
from tests.unit.privacy.scenarios import PARTY, private

RECORDS = 3000


class Ask(NamedTuple):
    """What is asked for."""

    unit: Literal["party", "record"]
    epsilon: float
    length: int
    releases: int
    accountant: Accountant

    def scenario(self, bits: int) -> Scenario:
        """It as a file has it."""
        return private(
            *(PARTY if self.unit == "party" else ()),
            "privacy.multiplier=",
            f"privacy.epsilon={self.epsilon!r}",
            "privacy.delta=1e-5",
            f"privacy.accountant={self.accountant}",
            f"stop.rounds={self.releases}",
            f"encoding.scale_bits={bits}",
        )


def settled(ask: Ask) -> tuple[Scenario, str]:
    """The scenario settled, at the scale that a refusal names where the first does not fit.

    Raises:
        ConfigError: there is no such scale.
    """
    try:
        return settle(ask.scenario(12), ask.length, RECORDS), ""
    except ConfigError as refused:
        advised = re.fullmatch(r"encoding\.scale_bits = (\d+)", refused.remedy)
        if refused.path != "encoding.scale_bits" or advised is None:
            raise
        return settle(ask.scenario(int(advised[1])), ask.length, RECORDS), refused.remedy


def assert_as_asked(ask: Ask) -> str:
    """What is asked for is spent, within 1 %; or refused, with a number and a field that help.

    Returns:
        ``spent``, or ``refused``.
    """
    try:
        scenario, _ = settled(ask)
    except ConfigError as refused:
        assert_helps(ask, refused)
        return "refused"
    mechanism = mechanism_of(scenario, ask.length)
    assert mechanism is not None
    assert planned_releases(scenario) == scenario.privacy.releases == ask.releases
    spent = epsilon((mechanism.event.times(ask.releases),), mechanism.delta, ask.accountant)
    assert 0.99 * ask.epsilon <= spent <= ask.epsilon, (ask, spent)
    return "spent"


def assert_helps(ask: Ask, refused: ConfigError) -> None:
    """A refusal names the field, and an epsilon that works where any up to 50 does."""
    assert refused.path == "privacy.epsilon", (ask, str(refused))
    text = str(refused)
    assert "inf" not in text
    assert "nan" not in text
    named = re.match(r"at (least|most) ([\d.]+)", refused.remedy)
    if named is None:
        assert "fewer stop.rounds" in refused.remedy, (ask, text)
        return
    other = float(named[2])
    assert (other > ask.epsilon) == (named[1] == "least"), (ask, text)
    if math.isclose(other, 50):
        return
    scenario, _ = settled(ask._replace(epsilon=other))
    assert scenario.privacy.multiplier is not None
