"""Content of a run's folder, for the page."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from securefl.base.errors import ConfigError
from securefl.runtime import report
from securefl.scenario import Scenario, to_toml


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
    summary = directory.read_summary() if directory.summary_file.exists() else None
    records = directory.read_records() if directory.metrics_file.exists() else ()
    audit = path / "audit" / "audit.json"
    return RunFiles(
        path=path,
        scenario=directory.read_scenario(),
        records=records,
        summary=summary,
        audit=_read_audit(audit) if audit.exists() else None,
    )


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
