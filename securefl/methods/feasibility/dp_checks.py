"""Limits of ``[checks]``."""

from typing import Literal

from securefl.base.errors import ConfigError
from securefl.scenario import Scenario


def check_checks(scenario: Scenario) -> None:
    """Raise a ConfigError for checks without noise, published checks on sums, and claims without checks."""
    kind = scenario.checks.kind
    if kind == "none":
        for index, claim in enumerate(scenario.expect):
            if claim.metric in {"checks_failed", "skippers_failed", "false_alarms"}:
                raise ConfigError(
                    f"expect.{index}.metric",
                    "is about checks of noise, and checks are off",
                    'leave it out, or checks.kind = "corrected"',
                )
        return
    if scenario.privacy.unit == "none":
        raise ConfigError(
            "checks.kind",
            f"{kind} checks the privacy noise of sums, and no noise is added",
            'kind = "none", or give [privacy] a unit',
        )
    if kind == "published" and scenario.clustering.size > 1:
        raise ConfigError(
            "checks.kind",
            "the tests as the paper has them are for single uploads: they would reject honest sums",
            'set kind = "corrected"; or, without secure sums, clustering.size = 1',
        )


def evidence_of(scenario: Scenario) -> Literal["none", "uploads", "clusters", "presence"]:
    """Return the subject of evidence over rounds (:mod:`securefl.methods.privacy.checks.evidence`).

    Presence is evidence about parties only if the scenario assumes Byzantine ones, and clusters change; atoms
    keep mates together.
    """
    if scenario.checks.kind != "corrected":
        return "none"
    if scenario.clustering.size == 1:
        return "uploads"
    if scenario.clustering.fixed:
        return "clusters"
    return "presence" if scenario.aggregation.byzantine and scenario.clustering.atoms == 1 else "none"
