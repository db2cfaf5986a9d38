"""Content of a run's folder, for the page."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeVar

import msgspec
from msgspec import Struct

from securefl.base import files
from securefl.base.errors import ConfigError
from securefl.runtime import report
from securefl.scenario import Scenario, to_toml

FieldsT = TypeVar("FieldsT", bound=Struct)


class ExposedUpdate(Struct, frozen=True):
    """Update that the server could compute."""

    round: int
    party: str


class ViewFields(Struct, frozen=True):
    """Fields of ``server_view`` that page and card read."""

    opened_sums: int
    smallest_sum: int | None
    single_updates: list[ExposedUpdate]
    insecure_seeded_entropy: bool


class KeptModel(Struct, frozen=True):
    """Fields of ``outcome.model``."""

    which: str = "last"


class OutcomeFields(Struct, frozen=True):
    """Fields of ``outcome``."""

    model_destroyed: bool
    rounds: int = 0
    """Number of rounds with a new model."""
    evaluation: dict[str, float | None] = {}
    model: KeptModel = KeptModel()


class ExpectedFields(Struct, frozen=True):
    """Fields of one of ``expectations``."""

    metric: str
    at_least: float | None
    at_most: float | None
    measured: float | None
    ok: bool


class PrivacyFields(Struct, frozen=True):
    """Fields of ``privacy``."""

    guarantee: str = ""
    without_guarantee: list[str] = []


class VerifiedFields(Struct, frozen=True):
    """Fields of ``verification``."""

    confirmed: list[Any] = []
    void: list[Any] = []


class SummaryFields(Struct, frozen=True):
    """Fields of ``summary.json`` that page and card read, with their types."""

    securefl: str
    run: str
    seed: int
    simulated: bool
    exit_code: int
    exit_meaning: str
    reason: str
    seconds: float
    outcome: OutcomeFields
    expectations: list[ExpectedFields]
    server_view: ViewFields
    privacy: PrivacyFields = PrivacyFields()
    verification: VerifiedFields = VerifiedFields()


class AuditFinding(Struct, frozen=True):
    """Fields of a finding."""

    severity: Literal["holds", "note", "warning", "breach"]
    claim: str


class AuditPart(Struct, frozen=True):
    """Fields of one of the audit's ``audits``."""

    title: str
    findings: list[AuditFinding]


class AuditFields(Struct, frozen=True):
    """Fields of ``audit/audit.json`` that page and card read."""

    format: Literal["securefl audit 1"]
    verdict: str
    exit_code: int
    audits: list[AuditPart]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFiles:
    """Content of a run's folder."""

    path: Path
    scenario: Scenario
    records: tuple[report.RoundRecord, ...]
    summary: SummaryFields | None
    """None while the run is unfinished."""
    audit: AuditFields | None
    """None if the run was not audited."""

    @property
    def toml(self) -> str:
        """The scenario as the run kept it."""
        return to_toml(self.scenario)


def read_run(path: Path) -> RunFiles:
    """Return the content of a run's folder, also of an unfinished run.

    Raises:
        ConfigError: not the folder of a run, or a damaged file in it.
    """
    directory = report.RunDirectory.open(path)
    summary = _read_summary(directory) if directory.summary_file.exists() else None
    expected = summary is not None and summary.outcome.rounds > 0
    records = directory.read_records() if expected or directory.metrics_file.exists() else ()
    audit = path / "audit" / "audit.json"
    return RunFiles(
        path=path,
        scenario=directory.read_scenario(),
        records=records,
        summary=summary,
        audit=_read_audit(audit) if audit.exists() else None,
    )


def _read_summary(directory: report.RunDirectory) -> SummaryFields:
    again = "restore the file, or use the version that wrote it"
    return _fields(directory.read_summary(), SummaryFields, directory.summary_file, again)


def _read_audit(file: Path) -> AuditFields:
    again = f"run securefl audit {file.parent.parent} --force"
    with files.reading(file, again):
        raw = file.read_bytes()
    try:
        found = msgspec.json.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ConfigError(str(file), "is not the report of an audit", again) from error
    return _fields(found, AuditFields, file, again)


def _fields(found: object, kind: type[FieldsT], file: Path, remedy: str) -> FieldsT:
    try:
        return msgspec.convert(found, kind)
    except msgspec.ValidationError as error:
        text = str(error)
        reason = f"is damaged, or of another version of securefl: {text[:1].lower()}{text[1:200]}"
        raise ConfigError(str(file), reason, remedy) from None
