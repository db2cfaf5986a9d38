"""A chapter of a report: the contribution of one audit."""

from __future__ import annotations

from dataclasses import dataclass

from securefl.lab.audit.exhibits import Exhibit
from securefl.lab.audit.finding import Finding


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
