"""Findings of an audit (severity, claim, evidence, remedy), and the chapter that they make up."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import KW_ONLY, dataclass, replace
from enum import IntEnum
from functools import partial

from securefl.base.ids import PartyId
from securefl.lab.audit.exhibits import Exhibit


class Severity(IntEnum):
    """Severity of a finding, in ascending order."""

    HOLDS = 0
    """The claim was checked and holds."""
    NOTE = 1
    """Nothing is wrong, but, for instance, something could not be checked."""
    WARNING = 2
    """Nothing forbidden was learned or broken, but the margin is small."""
    BREACH = 3
    """Something forbidden was learned, a rule was broken, or a claimed number is wrong."""

    @property
    def label(self) -> str:
        """``holds``, ``note``, ``warning`` or ``breach``."""
        return self.name.lower()


@dataclass(frozen=True, slots=True)
class Evidence:
    """Place in the transcripts that supports a finding."""

    source: str
    """Vantage point of the transcript (``server``, a party), or another file of the run directory."""
    entry: int | None
    """``n`` of the transcript's entry; None for a file without numbered entries."""
    text: str = ""
    """Short description of the entry."""

    def with_text(self, text: str) -> Evidence:
        """Return the same place with another text."""
        return replace(self, text=text)

    def __str__(self) -> str:
        place = self.source if self.entry is None else f"{self.source} #{self.entry}"
        return f"{place}: {self.text}" if self.text else place


@dataclass(frozen=True, slots=True)
class Finding:
    """Finding of an audit."""

    severity: Severity
    audit: str
    """Name of the audit: ``exposure``, ``views``, and so on."""
    claim: str
    """Self-contained statement with its numbers: consequence first, then cause."""
    _: KW_ONLY
    evidence: tuple[Evidence, ...] = ()
    remedy: str = ""
    """Advice; may be empty if nothing is wrong."""
    parties: tuple[PartyId, ...] = ()
    """Parties concerned; empty for all or no particular one."""
    error_rate: float | None = None
    """Upper bound on the probability of this or a worse finding in an honest run; None if not statistical."""


holds = partial(Finding, Severity.HOLDS)
note = partial(Finding, Severity.NOTE)
warning = partial(Finding, Severity.WARNING)
breach = partial(Finding, Severity.BREACH)


def worst(findings: Iterable[Finding]) -> Severity:
    """Return the highest severity; :attr:`Severity.HOLDS` without findings."""
    return max((finding.severity for finding in findings), default=Severity.HOLDS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Chapter:
    """Findings and exhibits of one audit, in the order in which they are shown."""

    audit: str
    """Name of the audit, equal in all of its findings."""
    title: str
    """Title, such as ``Budget: epsilon recomputed``."""
    method: str
    """Method in two or three sentences, for readers who do not know the audit."""
    findings: tuple[Finding, ...]
    exhibits: tuple[Exhibit, ...] = ()
