"""Limits of CrypTen sums (docs/crypten.md): refusal of what cannot run."""

from __future__ import annotations

from securefl.base.errors import ConfigError
from securefl.scenario import Drop, Kill, Scenario


def check_crypten(scenario: Scenario, smallest: int) -> None:
    """Refuse what CrypTen sums cannot do, and what means nothing without them.

    Args:
        scenario: with feasible thresholds.
        smallest: members of the smallest planned cluster.

    Raises:
        ConfigError: with the field, the reason and the remedy.
    """
    sums = scenario.secure_sum
    if sums.kind != "crypten":
        if sums.kind == "plain":
            _check_phases(scenario, "plain")
        return
    if min(smallest, sums.min_survivors) < 2:
        raise ConfigError(
            "secure_sum.min_survivors",
            "a CrypTen computation of one member (a world of size 1) would hold the update itself",
            "at least 2, in clusters of at least 2",
        )
    if sums.threshold != sums.min_survivors:
        raise ConfigError(
            "secure_sum.threshold",
            f"{sums.threshold}, but all members of a CrypTen sum open it, at least"
            f" min_survivors = {sums.min_survivors} of them",
            f"threshold = {sums.min_survivors}",
        )
    _check_phases(scenario, "CrypTen")


def _check_phases(scenario: Scenario, kind: str) -> None:
    for index, behaviour in enumerate(scenario.behaviours):
        if isinstance(behaviour, Drop | Kill) and behaviour.phase == "after-shares":
            raise ConfigError(
                f"behaviours.{index}.phase",
                f"members of a {kind} sum deal no shares of secrets to fall silent after",
                '"after-keys" or "after-masked-input"',
            )
