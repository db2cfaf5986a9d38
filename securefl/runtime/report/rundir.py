"""Run folder: files of one run, and their paths.

Files are written atomically, or grow by whole lines; a later run never overwrites them. ``lab/`` exists on
request only, ``transcripts/<vantage>.jsonl`` in runs only. RunAbortedError: a write failed.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import Any, Final

from securefl.base import files
from securefl.base.errors import ConfigError, UsageError
from securefl.runtime.report.first import FIRST_MODEL, check_first_model, keep_first_model
from securefl.runtime.report.kept_messages import FRAMES
from securefl.runtime.report.records import RoundRecord, without_infinities
from securefl.runtime.transcript import (
    EmptyTranscriptError,
    JsonValue,
    LineFile,
    Transcript,
    disk_failure,
    names_in,
    read_transcript,
    writing,
)
from securefl.scenario import Scenario, load_scenario, to_toml

RUNS: Final = Path("runs")
_SCENARIO: Final = "scenario.toml"
_RESTORE: Final = "restore it from a backup"


@dataclass(frozen=True, slots=True)
class RunDirectory:
    """Files of one run. Reading raises ConfigError if a file is missing, unreadable or of another kind."""

    path: Path

    @classmethod
    def create(
        cls, out: Path | None, name: str, *, root: Path = RUNS, now: datetime | None = None
    ) -> RunDirectory:
        """Create the folder of a new run: ``out``, or ``<root>/<name>-<UTC time>`` with a number if needed.

        A given ``out`` then holds an empty ``scenario.toml``, which marks it as taken.

        Raises:
            ConfigError: ``out`` exists and is not empty, or cannot be created.
        """
        stamp = (now or datetime.now(UTC)).astimezone(UTC).strftime("%Y%m%dT%H%M%SZ")
        path = out or root / f"{name}-{stamp}"
        try:
            if out is None:
                path = _fresh(path)
            else:
                path.mkdir(parents=True, exist_ok=True)
                if any(path.iterdir()) or not _create_empty(path / _SCENARIO):
                    raise ConfigError(
                        str(path), "exists and is not empty", "choose another --out, or move it away"
                    )
        except OSError as error:
            raise ConfigError(
                str(path), f"cannot be made: {error.strerror}", "choose another --out"
            ) from error
        return cls(path)

    @classmethod
    def open(cls, path: Path) -> RunDirectory:
        """Return the folder of an earlier run, for reading.

        Raises:
            ConfigError: there is none, or it holds no run.
        """
        if not (path / _SCENARIO).is_file():
            reason = (
                "is not the directory of a run: scenario.toml is missing"
                if path.is_dir()
                else "is not a directory"
            )
            raise ConfigError(
                str(path),
                reason,
                "name the directory that the run printed at its end; of a deployment, that of the server",
            )
        return cls(path)

    @property
    def scenario_file(self) -> Path:
        """Resolved scenario."""
        return self.path / _SCENARIO

    @property
    def metrics_file(self) -> Path:
        """File with a JSON row per round."""
        return self.path / "metrics.jsonl"

    @property
    def model_file(self) -> Path:
        """Final model."""
        return self.path / "model.safetensors"

    @property
    def first_file(self) -> Path:
        """Copy of the first model's file."""
        return self.path / FIRST_MODEL

    @property
    def best_file(self) -> Path:
        """Best model by ``stop.metric``."""
        return self.path / "best.safetensors"

    @property
    def round_models(self) -> Path:
        """Folder of models of single rounds."""
        return self.path / "models"

    @property
    def statistics_file(self) -> Path:
        """Statistics of the sites' columns, if computed."""
        return self.path / "statistics.json"

    def models(self, count: int) -> dict[str, str]:
        """Return paths of existing models by label: one per task group, and the best one."""
        first = self.model_file
        further = {f"model {n}": str(first.with_stem(f"{first.stem}-{n}")) for n in range(1, count)}
        best = {"best model": str(self.best_file)} if self.best_file.exists() else {}
        extra_files = {"statistics": str(self.statistics_file)} if self.statistics_file.exists() else {}
        rounds = {"round models": str(self.round_models)} if self.round_models.exists() else {}
        return {"model": str(first), **further, **best, **rounds, **extra_files}

    def files(self, count: int, *, transcripts: bool = True) -> dict[str, str]:
        """Return paths of all files of a live run with ``count`` models, by label."""
        return {
            **self.models(count),
            "metrics": str(self.metrics_file),
            **({"transcripts": str(self.transcript_folder)} if transcripts else {}),
            "scenario": str(self.scenario_file),
            "summary": str(self.summary_file),
        }

    @property
    def summary_file(self) -> Path:
        """Outcome of the run."""
        return self.path / "summary.json"

    @property
    def lab(self) -> Path:
        """Whole vectors, if recorded."""
        return self.path / "lab"

    @property
    def transcript_folder(self) -> Path:
        """Folder of all transcripts."""
        return self.path / "transcripts"

    @property
    def frame_folder(self) -> Path:
        """Folder of kept messages, by SHA-256."""
        return self.transcript_folder / FRAMES

    def transcript_names(self) -> tuple[str, ...]:
        """Return names of all transcripts, empty ones and later starts included."""
        return names_in(self.transcript_folder)

    def write_text(self, name: str, text: str) -> Path:
        """Write a file atomically and durably; after a failure an earlier file is unchanged."""
        path = self.path / name
        with writing(path):
            files.write_whole(path, text.encode(), durable=True)
        return path

    def write_json(self, name: str, value: JsonValue) -> Path:
        """Write an indented JSON value; numbers that are not finite become null.

        Raises:
            UsageError: the value is not JSON.
        """
        return self.write_text(name, _dumps(value, indent=2) + "\n")

    def write_scenario(self, scenario: Scenario) -> Path:
        """Write the resolved scenario."""
        return self.write_text(_SCENARIO, to_toml(scenario))

    def check_free(self, scenario: Scenario, *, resumes: bool = False) -> None:
        """Refuse a folder with the outcome of another run, or with another scenario.

        It may hold other files, such as a server's keys; if the run ``resumes`` its own outcome so far.

        Raises:
            ConfigError: a file is at the path of one of this run.
        """
        for path in (self.metrics_file, self.summary_file, self.round_models):
            if path.exists() and not resumes:
                raise ConfigError(
                    "--out",
                    f"{self.path} holds another run already ({path.name})",
                    "choose another --out, or move it away",
                )
        check_first_model(self.path, scenario)
        if not self.scenario_file.exists():
            return
        try:
            there = self.read_scenario()
        except ConfigError:
            there = None
        if there != scenario:
            raise ConfigError(
                "--out",
                f"{self.scenario_file} is another scenario than that of this run",
                "choose another --out",
            )

    def keep_first_model(self, scenario: Scenario) -> None:
        """Copy the first model's file, once."""
        keep_first_model(self.path, scenario)

    def keep_scenario(self, scenario: Scenario) -> None:
        """Write the resolved scenario, unless a user's own file is there."""
        if not self.scenario_file.exists():
            self.write_scenario(scenario)

    def metrics(self, earlier: Sequence[RoundRecord] = ()) -> MetricsFile:
        """Begin ``metrics.jsonl``, or continue one with exactly these records.

        Raises:
            ConfigError: it exists already, and there are no earlier records.
        """
        if not earlier:
            return MetricsFile(self.metrics_file)
        self.write_text(self.metrics_file.name, "".join(_dumps(record.row()) + "\n" for record in earlier))
        return MetricsFile(self.metrics_file, append=True)

    def more_metrics(self) -> MetricsFile:
        """Continue ``metrics.jsonl`` after its last whole row; remove an incomplete one.

        Raises:
            ConfigError: it cannot be written to.
        """
        try:
            with self.metrics_file.open("r+b") as file:
                file.truncate(sum(len(line) for line in file if line.endswith(b"\n")))
        except FileNotFoundError:
            pass
        except OSError as error:
            raise disk_failure(self.metrics_file, error) from error
        return MetricsFile(self.metrics_file, append=True)

    def each_record(self) -> Iterator[RoundRecord]:
        """Yield the records of all existing rounds."""
        for number, row in enumerate(self._each_row(), start=1):
            try:
                _check_numbers(row)
                yield RoundRecord.from_row(row)
            except (KeyError, TypeError, ValueError, AttributeError) as error:
                reason = f"is damaged: row {number} {_fault(error)}"
                raise ConfigError(str(self.metrics_file), reason, _RESTORE) from error

    def read_records(self, before: int | None = None) -> tuple[RoundRecord, ...]:
        """Return the records of all existing rounds, or of those before ``before``.

        Raises:
            ConfigError: unreadable, or some are missing, also by the summary of a run that has ended.
        """
        # The last rows are on disk before the summary.
        ended = self._rounds_by_summary() if before is None else 0
        records = tuple(islice(self.each_record(), before))
        found = sum(record.update_norm is not None for record in records)
        if found < ended:
            reason = f"is damaged: it has {found} of the {ended} rounds with a new model in summary.json"
            raise ConfigError(str(self.metrics_file), reason, _RESTORE)
        if before is not None and [record.round for record in records] != list(range(before)):
            raise ConfigError(
                str(self.metrics_file),
                f"lacks some of the first {before} rounds",
                "restore the file, or choose another --out",
            )
        return records

    def _rounds_by_summary(self) -> int:
        """Return the number of rounds with a new model by the summary; 0 while the run is unfinished."""
        outcome = self.read_summary().get("outcome") if self.summary_file.exists() else None
        rounds = outcome.get("rounds") if isinstance(outcome, dict) else None
        return rounds if isinstance(rounds, int) else 0

    def read_scenario(self) -> Scenario:
        """Return the scenario of the run."""
        return load_scenario(self.scenario_file)

    def read_metrics(self) -> tuple[dict[str, Any], ...]:
        """Return the rows of all rounds that ended."""
        return tuple(self._each_row())

    def _each_row(self) -> Iterator[dict[str, Any]]:
        path = self.metrics_file
        with files.reading(path), path.open(encoding="utf-8") as file:
            for number, line in enumerate(file, start=1):
                if line.endswith("\n"):
                    yield _object(line, f"{path}:{number}")

    def read_summary(self) -> dict[str, Any]:
        """Return the outcome, which a run without an end lacks."""
        return _object(_read(self.summary_file), str(self.summary_file))

    def read_transcripts(self) -> dict[str, Transcript]:
        """Return all verified transcripts by vantage point, without empty ones.

        Raises:
            ConfigError: unreadable, a broken chain, or transcripts of different runs.
        """
        read: dict[str, Transcript] = {}
        for name in self.transcript_names():
            with suppress(EmptyTranscriptError):
                read[name] = read_transcript(self.transcript_folder / f"{name}.jsonl")
        runs = {transcript.run for transcript in read.values()}
        if len(runs) > 1:
            raise ConfigError(
                str(self.transcript_folder),
                f"holds transcripts of different runs: {', '.join(sorted(map(ascii, runs)))}",
                "remove those that do not belong here",
            )
        return read


class MetricsFile:
    """Writer of ``metrics.jsonl``."""

    def __init__(self, path: Path, *, append: bool = False) -> None:
        self._lines = LineFile(path, append=append)

    def append(self, row: Mapping[str, JsonValue]) -> None:
        """Write one row to the operating system; after a failure earlier rows stay readable.

        Raises:
            UsageError: a value is not JSON.
        """
        self._lines.write(_dumps(row).encode("ascii"))
        self._lines.flush()

    def close(self) -> None:
        """Wait for the disk and close."""
        self._lines.close()


def _create_empty(path: Path) -> bool:
    try:
        path.touch(exist_ok=False)
    except FileExistsError:
        return False
    return True


def _fresh(path: Path) -> Path:
    """Create ``path``, or ``path-2`` and so on: two runs may start within a second."""
    for number in range(1, 1000):
        candidate = path if number == 1 else path.with_name(f"{path.name}-{number}")
        try:
            candidate.mkdir(parents=True)
        except FileExistsError:
            continue
        return candidate
    raise ConfigError(str(path), "holds 1,000 runs of this second already", "choose --out")


def _dumps(value: JsonValue, indent: int | None = None) -> str:
    try:
        return json.dumps(without_infinities(value), indent=indent, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise UsageError(f"cannot write a value as JSON: {error}") from error


def _read(path: Path) -> str:
    with files.reading(path):
        return path.read_text(encoding="utf-8")


def _check_numbers(row: dict[str, Any]) -> None:
    for name, kinds in (("round", int), ("accuracy", (int, float)), ("loss", (int, float))):
        if not isinstance(row[name], kinds) and (name == "round" or row[name] is not None):
            raise ValueError(f"has a wrong value: {name} is not a number")


def _fault(error: Exception) -> str:
    """Return what is wrong with a row, as the predicate of a sentence."""
    match error:
        case KeyError():
            return f"lacks {error.args[0]}"
        case ValueError() if str(error).startswith("has "):
            return str(error)
        case _:
            return "has a value of a wrong type"


def _object(text: str, where: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, dict):
        raise ConfigError(where, "is not a JSON object", "it was changed after the run: restore the file")
    return value
