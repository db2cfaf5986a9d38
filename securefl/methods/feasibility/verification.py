"""Limits of verified rounds: who may see what they show, and what nobody but the server could repeat."""

from __future__ import annotations

from securefl.base.errors import ConfigError
from securefl.methods import robust
from securefl.scenario import Scenario


def check_verification(scenario: Scenario) -> None:
    """Refuse verified rounds that prove nothing, or show somebody more than it may know.

    Args:
        scenario: with feasible clusters.

    Raises:
        ConfigError: with the field to change, the reason with its numbers, and the remedy.
    """
    sums = scenario.secure_sum
    if not sums.verified:
        return
    if sums.server != "active":
        raise ConfigError(
            "secure_sum.verify",
            "without certificates nothing is fixed that could be verified",
            "secure_sum.server = active, or secure_sum.verify = off",
        )
    if sums.kind == "plain":
        raise ConfigError(
            "secure_sum.verify", "plain sums prove nothing", "another secure_sum.kind, or verify = off"
        )
    if robust.needs_server_gradient(scenario.aggregation.rule):
        raise ConfigError(
            "secure_sum.verify",
            "nobody can repeat a rule that looks at the server's own data",
            "another aggregation.rule, or secure_sum.verify = off",
        )
