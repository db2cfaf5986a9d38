"""Limits of ``[checks]``, and what the header says of them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

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


def evidence_of(scenario: Scenario) -> Literal["none", "uploads", "clusters", "presence"]:
    """What evidence over rounds is of (:mod:`securefl.privacy.checks.evidence`).

    Single uploads speak of their party, and fixed clusters of themselves. In changing company the bet of
    presence speaks of parties, but only if the scenario reckons with Byzantine ones; atoms keep company
    together.
    """
    if scenario.checks.kind != "corrected":
        return "none"
    if scenario.clustering.size == 1:
        return "uploads"
    if scenario.clustering.fixed:
        return "clusters"
    return "presence" if scenario.aggregation.byzantine and scenario.clustering.atoms == 1 else "none"


def on_checks(scenario: Scenario) -> Iterator[str]:
    """Yield lines of the header."""
    match scenario.checks.kind:
        case "corrected":
            yield (
                f"checks: sums that do not look like the agreed noise are left out; any honest one of a round"
                f" with probability at most {100 * scenario.checks.alpha:g} %"
            )
            yield _on_evidence(scenario)
        case "published":
            yield (
                "checks: norm and KS test as published (Xiang et al., algorithm 2); they leave out an honest"
                " upload in 1 of 19 to 1 of 15, and more where signals agree"
            )
        case "none":
            return


def _on_evidence(scenario: Scenario) -> str:
    byzantine = scenario.aggregation.byzantine
    named = f"honest, it is ever named with probability at most {100 * scenario.checks.alpha:g} % in all"
    match evidence_of(scenario):
        case "uploads":
            return f"evidence over rounds: of each party; {named}"
        case "clusters":
            return f"evidence over rounds: of each fixed cluster as a whole; {named}"
        case "presence":
            return f"evidence over rounds: of each party, given at most {byzantine} Byzantine; {named}"
        case "none":
            why = "atoms keep company together" if byzantine else "aggregation.byzantine = 0"
            return f"evidence over rounds: of no single party ({why})"
