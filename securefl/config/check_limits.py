"""Limits of ``[checks]``, and what the header says of them."""

from __future__ import annotations

from collections.abc import Iterator

from securefl.config.scenario import Scenario
from securefl.errors import ConfigError


def check_checks(scenario: Scenario) -> None:
    """Refuse checks of noise that nobody adds, the published pair on sums, and claims about missing checks.

    Raises:
        ConfigError: with the field to change, the reason and the remedy.
    """
    kind = scenario.checks.kind
    if kind == "none":
        for index, claim in enumerate(scenario.expect):
            if claim.metric in {"checks_failed", "skippers_failed", "false_alarms"}:
                raise ConfigError(
                    f"expect.{index}.metric",
                    "there are no checks that could leave a sum out",
                    'leave it out, or checks.kind = "corrected"',
                )
        return
    if scenario.privacy.unit == "none":
        raise ConfigError(
            "checks.kind",
            f"{kind} compares sums with the noise that was agreed, and there is none",
            'kind = "none", or give [privacy] a unit',
        )
    if kind == "published" and scenario.clustering.size > 1:
        raise ConfigError(
            "checks.kind",
            "the published tests are for single uploads, and reject honest sums",
            'kind = "corrected", or clustering.size = 1',
        )


def on_checks(scenario: Scenario) -> Iterator[str]:
    """Yield lines of the header."""
    match scenario.checks.kind:
        case "corrected":
            yield (
                f"checks: sums that do not look like the agreed noise are left out; any honest one of a round"
                f" with probability at most {100 * scenario.checks.alpha:g} %"
            )
        case "published":
            yield (
                "checks: norm and KS test as published (Xiang et al., algorithm 2); they leave out an honest"
                " upload in 1 of 19 to 1 of 15, and more where signals agree"
            )
        case "none":
            return
