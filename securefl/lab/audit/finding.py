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
    """The claim was checked, and it holds."""
    NOTE = 1
    """Nothing is wrong; something that a reader has to know, such as what could not be checked."""
    WARNING = 2
    """Nothing was learned or broken that must not be, but it would take little."""
    BREACH = 3
    """Something was learned that must not be, a rule was broken, or a figure that was claimed is wrong."""

    @property
    def label(self) -> str:
        """``holds``, ``note``, ``warning`` or ``breach``."""
        return self.name.lower()


@dataclass(frozen=True, slots=True)
class Evidence:
    """A place in the transcripts, for whoever doubts a finding."""

    source: str
    """Vantage point of the transcript (``server``, a party), or another file of the run directory."""
    entry: int | None
    """``n`` of the transcript's entry; None for a file without numbered entries."""
    text: str = ""
    """What the entry says, in a few words."""

    def with_text(self, text: str) -> Evidence:
        """Return the same place with another text."""
        return replace(self, text=text)

    def __str__(self) -> str:
        place = self.source if self.entry is None else f"{self.source} #{self.entry}"
        return f"{place}: {self.text}" if self.text else place


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that an audit found."""

    severity: Severity
    audit: str
    """Name of the audit: ``exposure``, ``views``, and so on."""
    claim: str
    """One sentence with the figures in it. It can be read without anything else."""
    _: KW_ONLY
    evidence: tuple[Evidence, ...] = ()
    remedy: str = ""
    """What to do about it; may be empty where nothing is wrong."""
    parties: tuple[PartyId, ...] = ()
    """Whom it is about; empty for all or nobody in particular."""
    error_rate: float | None = None
    """For a statistical finding: at most this probability of it, or of a worse one, in an honest run."""


holds = partial(Finding, Severity.HOLDS)
note = partial(Finding, Severity.NOTE)
warning = partial(Finding, Severity.WARNING)
breach = partial(Finding, Severity.BREACH)


def worst(findings: Iterable[Finding]) -> Severity:
    """The highest severity; :attr:`Severity.HOLDS` where nothing was found."""
    return max((finding.severity for finding in findings), default=Severity.HOLDS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Chapter:
    """Findings and exhibits of one audit, in the order in which they are shown."""

    audit: str
    """Its name, that of all of its findings."""
    title: str
    """``Exposure: whom the server knows``."""
    method: str
    """Two or three sentences: what was looked at and how, for readers who do not know it."""
    findings: tuple[Finding, ...]
    exhibits: tuple[Exhibit, ...] = ()
