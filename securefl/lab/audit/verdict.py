"""Whether what was found is worse than the scenario allows."""

from __future__ import annotations

from collections.abc import Iterable

from securefl.lab.audit.chapter import Chapter
from securefl.lab.audit.finding import Finding, Severity
from securefl.scenario import Scenario

REPORTING = frozenset({"exposure", "reconstruction", "inversion"})
"""What ``leakage.mode = "report"`` states by itself: opened sums may give updates away."""


def allowed(scenario: Scenario) -> frozenset[str]:
    """The audits whose breaches the scenario states (``leakage.allow``, and ``leakage.mode``)."""
    stated = frozenset(scenario.leakage.allow)
    return stated | REPORTING if scenario.leakage.mode == "report" else stated


def exceeding(scenario: Scenario, chapters: Iterable[Chapter]) -> tuple[Finding, ...]:
    """Breaches that the scenario does not state, in the order of the chapters."""
    known = allowed(scenario)
    return tuple(
        finding
        for chapter in chapters
        for finding in chapter.findings
        if finding.severity is Severity.BREACH and finding.audit not in known
    )
