"""Findings of an audit and their chapter."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import KW_ONLY, dataclass, replace
from enum import IntEnum
from functools import partial

from securefl.base.ids import PartyId
from securefl.lab.audit.exhibits import Exhibit


class Severity(IntEnum):
    """Severity of a finding, ascending."""

    HOLDS = 0
    """The claim was checked and holds."""
    NOTE = 1
    """Nothing is wrong, but something could not be checked, for instance."""
    WARNING = 2
    """Nothing forbidden happened, but the margin is small."""
    BREACH = 3
    """Something forbidden was learned, a rule was broken, or a claimed number is wrong."""

    @property
    def label(self) -> str:
        """Name in lower case."""
        return self.name.lower()


@dataclass(frozen=True, slots=True)
class Evidence:
    """Place that supports a finding."""

    source: str
    """``server``, a party, or another file of the run directory."""
    entry: int | None
    """``n`` of the entry; None for another file."""
    text: str = ""

    def with_text(self, text: str) -> Evidence:
        """Return the place with another text."""
        return replace(self, text=text)

    def __str__(self) -> str:
        place = self.source if self.entry is None else f"{self.source} #{self.entry}"
        return f"{place}: {self.text}" if self.text else place


@dataclass(frozen=True, slots=True)
class Finding:
    """Finding of an audit."""

    severity: Severity
    audit: str
    claim: str
    """Statement with its numbers: consequence, then cause."""
    _: KW_ONLY
    evidence: tuple[Evidence, ...] = ()
    remedy: str = ""
    """May be empty if nothing is wrong."""
    parties: tuple[PartyId, ...] = ()
    """Empty for all or no particular ones."""
    error_rate: float | None = None
    """Bound on the probability of this or a worse finding in an honest run."""


holds = partial(Finding, Severity.HOLDS)
note = partial(Finding, Severity.NOTE)
warning = partial(Finding, Severity.WARNING)
breach = partial(Finding, Severity.BREACH)


def worst(findings: Iterable[Finding]) -> Severity:
    """Return the highest severity; :attr:`Severity.HOLDS` without findings."""
    return max((finding.severity for finding in findings), default=Severity.HOLDS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Chapter:
    """Findings and exhibits of one audit, in order."""

    audit: str
    title: str
    method: str
    """For newcomers, in two or three sentences."""
    findings: tuple[Finding, ...]
    exhibits: tuple[Exhibit, ...] = ()
