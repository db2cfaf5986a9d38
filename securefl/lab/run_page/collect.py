"""Content of a run's folder, for the page."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from securefl.base.errors import ConfigError
from securefl.runtime import report
from securefl.scenario import Scenario, to_toml


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


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFiles:
    """Content of a run's folder."""

    path: Path
    scenario: Scenario
    records: tuple[report.RoundRecord, ...]
    summary: dict[str, Any] | None
    """Content of ``summary.json``; None while it is unfinished."""
    audit: dict[str, Any] | None
    """Content of ``audit/audit.json``; None if the run was not audited."""

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
    records = directory.read_records() if directory.metrics_file.exists() else ()
    audit = path / "audit" / "audit.json"
    return RunFiles(
        path=path,
        scenario=directory.read_scenario(),
        records=records,
        summary=summary,
        audit=_read_audit(audit) if audit.exists() else None,
    )


def _read_summary(directory: report.RunDirectory) -> dict[str, Any]:
    found = directory.read_summary()
    try:
        msgspec.convert(found, SummaryFields)
    except msgspec.ValidationError as error:
        text = str(error)
        raise ConfigError(
            str(directory.summary_file),
            f"is damaged, or of another version of securefl: {text[:1].lower()}{text[1:200]}",
            "restore the file, or use the version that wrote it",
        ) from None
    return found


def _read_audit(file: Path) -> dict[str, Any]:
    try:
        found: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
        known = found["format"] == "securefl audit 1"
    except (OSError, ValueError, KeyError, TypeError):
        known = False
    if not known:
        again = f"run securefl audit {file.parent.parent} --force"
        raise ConfigError(str(file), "is not the report of an audit", again)
    return found
