"""Limits of ``[deadlines]``: how many answers say how long a step takes (ADR 0032)."""

from __future__ import annotations

from securefl.base.errors import ConfigError
from securefl.scenario import Scenario


def check_deadlines(scenario: Scenario) -> None:
    """Refuse a ``least`` that colluders reach among themselves, or that nobody ever reaches.

    Raises:
        ConfigError: with the bound.
    """
    least, colluders = scenario.deadlines.least, scenario.secure_sum.colluders
    if least is None:
        return
    if least <= colluders:
        raise ConfigError(
            "deadlines.least",
            f"{least} answers could all be those of the {colluders} colluders: a broker that calls everybody"
            " else gone would end every step with them",
            f"at least {colluders + 1}",
        )
    if least > scenario.parties:
        raise ConfigError(
            "deadlines.least",
            f"{least} of {scenario.parties} parties never answer",
            f"at most {scenario.parties}",
        )
