"""Kinds of secure sum by name: each is a folder whose module ``kind`` makes a ``SecureSum``.

A new one also needs its name in ``secure_sum.kind`` (:class:`securefl.scenario.scenario.SecureSum`).
"""

import importlib

from securefl.base.errors import UsageError
from securefl.protocol.secure_sum.port import SecureSum
from securefl.scenario import Scenario


def name_of(scenario: Scenario) -> str:
    """Return the name of a scenario's kind."""
    sums = scenario.secure_sum
    return sums.kind if sums.validated is None else "validated"


def sums_of(scenario: Scenario, length: int = 0) -> SecureSum:
    """Return the scenario's kind for models of d = ``length`` parameters.

    Raises:
        UsageError: its folder does not make a ``SecureSum``.
    """
    folder = importlib.import_module(f"{__package__}.{name_of(scenario)}.kind")
    made: object = folder.sums_of(scenario, length)
    if not isinstance(made, SecureSum):
        raise UsageError(
            f"sums_of of secure_sum/{name_of(scenario)} must return a SecureSum, found {type(made).__name__}"
        )
    return made
