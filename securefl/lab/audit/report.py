"""All chapters of an audit, and their JSON."""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from securefl.base import version
from securefl.base.errors import EXIT_EXPECTED, EXIT_UNEXPECTED
from securefl.lab.audit import exhibits
from securefl.lab.audit.finding import Chapter, Finding, Severity, worst
from securefl.lab.audit.recorded import Recorded
from securefl.runtime import report
from securefl.runtime.transcript import JsonValue
from securefl.scenario import Scenario

REPORTING = frozenset({"exposure", "reconstruction", "inversion"})
"""Audits whose breaches ``leakage.mode = "report"`` allows."""


def allowed_audits(scenario: Scenario) -> frozenset[str]:
    """Return the audits whose breaches the scenario allows."""
    stated = frozenset(scenario.leakage.allow)
    return stated | REPORTING if scenario.leakage.mode == "report" else stated


def exceeding(scenario: Scenario, chapters: Iterable[Chapter]) -> tuple[Finding, ...]:
    """Return the breaches that the scenario does not allow."""
    known = allowed_audits(scenario)
    return tuple(
        finding
        for chapter in chapters
        for finding in chapter.findings
        if finding.severity is Severity.BREACH and finding.audit not in known
    )


FORMAT: Final = "securefl audit 1"


@dataclass(frozen=True, slots=True)
class AuditReport:
    """Report of an audit; see :func:`securefl.audit` for an example."""

    recorded: Recorded
    lab: bool
    """True if recorded updates were compared."""
    chapters: tuple[Chapter, ...]

    @property
    def findings(self) -> tuple[Finding, ...]:
        """All findings, in the order of the chapters."""
        return tuple(finding for chapter in self.chapters for finding in chapter.findings)

    @property
    def exceeding(self) -> tuple[Finding, ...]:
        """Findings that are worse than the scenario allows."""
        return exceeding(self.recorded.scenario, self.chapters)

    @property
    def exit_code(self) -> int:
        """1 if a finding is worse than the scenario allows, else 0."""
        return EXIT_UNEXPECTED if self.exceeding else EXIT_EXPECTED

    @property
    def verdict(self) -> str:
        """Verdict in one sentence."""
        bad, breaches = len(self.exceeding), sum(f.severity is Severity.BREACH for f in self.findings)
        if bad:
            return f"{bad} of {len(self.findings)} findings are worse than the scenario allows"
        if breaches:
            known = report.list_of(sorted({f.audit for f in self.findings if f.severity is Severity.BREACH}))
            return f"no finding is worse than the scenario allows; it allows the breaches found ({known})"
        return f"no breach in {len(self.findings)} findings" + (
            ", with warnings" if worst(self.findings) is Severity.WARNING else ""
        )

    @property
    def facts(self) -> tuple[tuple[str, str], ...]:
        """Label and text of facts about the run and the audit."""
        recorded, scenario = self.recorded, self.recorded.scenario
        clustering = scenario.clustering
        return (
            ("scenario", scenario.name + (f": {scenario.description}" if scenario.description else "")),
            ("run", recorded.run + (" (simulated)" if recorded.simulated else "")),
            (
                "size",
                f"{scenario.parties} parties, clusters of {clustering.size}, R = {clustering.reclusterings},"
                f" {len(recorded.records)} rounds",
            ),
            ("secrets", _secrets(recorded)),
            ("transcripts", _transcripts(recorded)),
            ("assumed colluders", report.list_of(sorted(recorded.colluders)) or "none"),
            ("recorded updates", "compared" if self.lab else "not compared"),
            ("allowed breaches", report.list_of(sorted(allowed_audits(scenario))) or "none"),
        )

    def to_json(self) -> dict[str, JsonValue]:
        """Return the report for programs, without pictures; numbers that are not finite are null."""
        return {
            "format": FORMAT,
            "securefl": version.__version__,
            "run": self.recorded.run,
            "scenario": self.recorded.scenario.name,
            "colluders": sorted(self.recorded.colluders),
            "lab": self.lab,
            "heads": {
                vantage: [transcript.head for transcript in some]
                for vantage, some in sorted(self.recorded.transcripts.items())
            },
            "verdict": self.verdict,
            "exit_code": self.exit_code,
            "audits": [
                {
                    "audit": chapter.audit,
                    "title": chapter.title,
                    "worst": worst(chapter.findings).label,
                    "findings": [_finding(one) for one in chapter.findings],
                    "exhibits": [_exhibit(one) for one in chapter.exhibits],
                }
                for chapter in self.chapters
            ],
        }


def _transcripts(recorded: Recorded) -> str:
    kept = [transcript for some in recorded.transcripts.values() for transcript in some]
    if not kept:
        return "none"
    ended = sum(transcript.complete for transcript in kept)
    empty = f"; {len(recorded.blank)} more are empty" if recorded.blank else ""
    return f"{len(kept)}, all hash chains valid, {ended} complete{empty}"


def _secrets(recorded: Recorded) -> str:
    if recorded.simulated:
        return "none: simulation"
    return "INSECURE, from a seed" if recorded.seeded else "from the operating system"


def _finding(finding: Finding) -> JsonValue:
    return {
        "severity": finding.severity.label,
        "claim": finding.claim,
        "parties": list(finding.parties),
        "evidence": [{"source": e.source, "entry": e.entry, "text": e.text} for e in finding.evidence],
        "remedy": finding.remedy,
        "error_rate": finding.error_rate,
    }


def _exhibit(exhibit: exhibits.Exhibit) -> JsonValue:
    match exhibit:
        case exhibits.Table():
            rows = [
                [_number(cell) if isinstance(cell, float) else cell for cell in row] for row in exhibit.rows
            ]
            return {"table": exhibit.title, "columns": list(exhibit.columns), "rows": rows}
        case exhibits.AuditPlot():
            curves: list[JsonValue] = [
                {
                    "label": curve.label,
                    "predicted": curve.predicted,
                    "x": [_number(v) for v in curve.x],
                    "y": [_number(v) for v in curve.y],
                }
                for curve in exhibit.curves
            ]
            return {"plot": exhibit.title, "x": exhibit.x_name, "y": exhibit.y_name, "curves": curves}
        case exhibits.AuditHeatMap():
            return {
                "heat_map": exhibit.title,
                "rows": list(exhibit.rows),
                "columns": list(exhibit.columns),
                "values": [[_number(v) for v in row] for row in exhibit.values],
            }
        case exhibits.Pictures():
            return {"pictures": exhibit.title, "captions": [[p.caption for p in row] for row in exhibit.rows]}


def _number(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None
