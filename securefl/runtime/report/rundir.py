"""The run directory: files of one run, and their places.

``scenario.toml`` (resolved), ``first.safetensors`` (copy of the file that sites begin with),
``metrics.jsonl`` (a row per round), ``transcripts/<vantage>.jsonl`` (of each process; simulations have none),
``model.safetensors``, ``summary.json``; ``lab/`` only where asked for. Whole files appear complete or not at
all; files that grow do so by whole lines. Nothing that was written is ever overwritten by a later run.
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
from securefl.runtime.report.kept import FRAMES
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
"""Where runs go when nothing else is said."""
_SCENARIO: Final = "scenario.toml"


@dataclass(frozen=True, slots=True)
class RunDirectory:
    """The files of one run. Made by :meth:`create` or :meth:`open`."""

    path: Path

    @classmethod
    def create(
        cls, out: Path | None, name: str, *, root: Path = RUNS, now: datetime | None = None
    ) -> RunDirectory:
        """Make the directory of a new run.

        Args:
            out: the directory; None for ``<root>/<name>-<UTC time>``, with a number behind it if need be.
            name: the scenario's name.
            root: where directories without a given name go.
            now: the time for the name.

        A given one holds an empty ``scenario.toml`` from here on: whoever comes next finds it taken.

        Raises:
            ConfigError: ``out`` exists and is not empty, or cannot be made.
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
        """The directory of a former run, for reading.

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
        """The resolved scenario."""
        return self.path / _SCENARIO

    @property
    def metrics_file(self) -> Path:
        """A JSON row per round."""
        return self.path / "metrics.jsonl"

    @property
    def model_file(self) -> Path:
        """The final model."""
        return self.path / "model.safetensors"

    @property
    def first_file(self) -> Path:
        """Copy of the file that the first model is read from, if the scenario names one."""
        return self.path / FIRST_MODEL

    @property
    def best_file(self) -> Path:
        """The best model by ``stop.metric``."""
        return self.path / "best.safetensors"

    @property
    def round_models(self) -> Path:
        """The folder of models of single rounds, where the server was told to keep any."""
        return self.path / "models"

    @property
    def statistics_file(self) -> Path:
        """What sites have in their columns, where the run asked for it."""
        return self.path / "statistics.json"

    def models(self, count: int) -> dict[str, str]:
        """Paths of the models to print, by label: of task groups each has one, of a metric the best one."""
        first = self.model_file
        further = {f"model {n}": str(first.with_stem(f"{first.stem}-{n}")) for n in range(1, count)}
        best = {"best model": str(self.best_file)} if self.best_file.exists() else {}
        told = {"statistics": str(self.statistics_file)} if self.statistics_file.exists() else {}
        rounds = {"round models": str(self.round_models)} if self.round_models.exists() else {}
        return {"model": str(first), **further, **best, **rounds, **told}

    def files(self, count: int, *, transcripts: bool = True) -> dict[str, str]:
        """Paths of all that a live run with ``count`` models leaves, by label, in the order to print them."""
        return {
            **self.models(count),
            "metrics": str(self.metrics_file),
            **({"transcripts": str(self.transcript_folder)} if transcripts else {}),
            "scenario": str(self.scenario_file),
            "summary": str(self.summary_file),
        }

    @property
    def summary_file(self) -> Path:
        """The outcome."""
        return self.path / "summary.json"

    @property
    def lab(self) -> Path:
        """Whole vectors, where the run was told to keep them."""
        return self.path / "lab"

    @property
    def transcript_folder(self) -> Path:
        """The folder of all transcripts."""
        return self.path / "transcripts"

    @property
    def frame_folder(self) -> Path:
        """The folder of messages that processes of a verified run keep, by SHA-256."""
        return self.transcript_folder / FRAMES

    def transcript_names(self) -> tuple[str, ...]:
        """Of all transcripts that are there, empty ones, too: vantage points, later starts with a number."""
        return names_in(self.transcript_folder)

    def write_text(self, name: str, text: str) -> Path:
        """Write a file of the directory so that it appears whole and survives a power cut, or not at all.

        Raises:
            RunAbortedError: the disk is full or gone; a former file of this name is untouched.
        """
        path = self.path / name
        with writing(path):
            files.write_whole(path, text.encode(), durable=True)
        return path

    def write_json(self, name: str, value: JsonValue) -> Path:
        """The same for a JSON value, indented for people.

        Numbers that are not finite are written as null.

        Raises:
            RunAbortedError: the disk is full or gone.
            UsageError: the value is no JSON.
        """
        return self.write_text(name, _dumps(value, indent=2) + "\n")

    def write_scenario(self, scenario: Scenario) -> Path:
        """Write the resolved scenario.

        Raises:
            RunAbortedError: the disk is full or gone.
        """
        return self.write_text(_SCENARIO, to_toml(scenario))

    def check_free(self, scenario: Scenario, *, resumes: bool = False) -> None:
        """Refuse a folder that holds the outcome of another run, or a scenario that is not this one.

        It may hold anything else, a server's keys, say; and its own outcome so far, where it goes on
        (``resumes``).

        Raises:
            ConfigError: nothing would be overwritten, but a file stands where this run needs one.
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
        """Copy the file of the first model, if the scenario names one and there is no copy.

        Raises:
            RunAbortedError: the disk is full or gone.
        """
        keep_first_model(self.path, scenario)

    def keep_scenario(self, scenario: Scenario) -> None:
        """Write the resolved scenario, but where :meth:`check_free` has found it: a user's own file stays.

        Raises:
            RunAbortedError: the disk is full or gone.
        """
        if not self.scenario_file.exists():
            self.write_scenario(scenario)

    def metrics(self, earlier: Sequence[RoundRecord] = ()) -> MetricsFile:
        """Begin ``metrics.jsonl``, or go on with one that holds these records and no other.

        Raises:
            ConfigError: it exists already, and there are no earlier records.
            RunAbortedError: the disk is full or gone.
        """
        if not earlier:
            return MetricsFile(self.metrics_file)
        self.write_text(self.metrics_file.name, "".join(_dumps(record.row()) + "\n" for record in earlier))
        return MetricsFile(self.metrics_file, append=True)

    def more_metrics(self) -> MetricsFile:
        """Go on with ``metrics.jsonl`` behind all rows that are there; what was cut off is taken away.

        Raises:
            ConfigError: it does not exist, or cannot be written to.
            RunAbortedError: the disk is full or gone.
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
        """The records of all rounds that are there, one after the other: there may be very many.

        Raises:
            ConfigError: unreadable.
        """
        for row in self._each_row():
            try:
                yield RoundRecord.from_row(row)
            except (KeyError, TypeError, ValueError, AttributeError) as error:
                reason = f"is damaged: {error!r}"
                raise ConfigError(str(self.metrics_file), reason) from error

    def read_records(self, before: int | None = None) -> tuple[RoundRecord, ...]:
        """The records of the rounds before ``before``, or of all that are there, from their rows.

        Raises:
            ConfigError: unreadable, or not all of them are there.
        """
        records = tuple(islice(self.each_record(), before))
        if before is not None and [record.round for record in records] != list(range(before)):
            raise ConfigError(
                str(self.metrics_file),
                f"lacks some of the first {before} rounds",
                "restore the file, or choose another --out",
            )
        return records

    def read_scenario(self) -> Scenario:
        """The scenario that was run.

        Raises:
            ConfigError: unreadable or not a scenario.
        """
        return load_scenario(self.scenario_file)

    def read_metrics(self) -> tuple[dict[str, Any], ...]:
        """The rows of all rounds that ended. A last line that was cut off by a crash is left out.

        Raises:
            ConfigError: unreadable, or a line is no JSON object.
        """
        return tuple(self._each_row())

    def _each_row(self) -> Iterator[dict[str, Any]]:
        path = self.metrics_file
        with files.reading(path), path.open(encoding="utf-8") as file:
            for number, line in enumerate(file, start=1):
                if line.endswith("\n"):
                    yield _object(line, f"{path}:{number}")

    def read_summary(self) -> dict[str, Any]:
        """The outcome.

        Raises:
            ConfigError: missing (the run did not end), unreadable, or no JSON object.
        """
        return _object(_read(self.summary_file), str(self.summary_file))

    def read_transcripts(self) -> dict[str, Transcript]:
        """All transcripts by vantage point, each chain verified, but for those without a whole line.

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
    """``metrics.jsonl``: a row is in the hands of the operating system when :meth:`append` returns."""

    def __init__(self, path: Path, *, append: bool = False) -> None:
        self._lines = LineFile(path, append=append)

    def append(self, row: Mapping[str, JsonValue]) -> None:
        """Write one row.

        Raises:
            RunAbortedError: the disk is full or gone; the rows before stay readable.
            UsageError: a value is no JSON.
        """
        self._lines.write(_dumps(row).encode("ascii"))
        self._lines.flush()

    def close(self) -> None:
        """Wait for the disk and close.

        Raises:
            RunAbortedError: the disk is full or gone.
        """
        self._lines.close()


def _create_empty(path: Path) -> bool:
    """Make an empty file; False where another run, which found the directory empty as well, was faster."""
    try:
        path.touch(exist_ok=False)
    except FileExistsError:
        return False
    return True


def _fresh(path: Path) -> Path:
    """Make ``path``, or ``path-2`` and so on: two runs may start within a second."""
    for number in range(1, 1000):
        candidate = path if number == 1 else path.with_name(f"{path.name}-{number}")
        try:
            candidate.mkdir(parents=True)
        except FileExistsError:
            continue
        return candidate
    raise ConfigError(str(path), "holds 1,000 runs of this second already", "choose --out")


def _dumps(value: JsonValue, indent: int | None = None) -> str:
    """As JSON, with null for a number that it has none for: a run that has ended is not lost to one."""
    try:
        return json.dumps(without_infinities(value), indent=indent, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise UsageError(f"cannot write a value as JSON: {error}") from error


def _read(path: Path) -> str:
    with files.reading(path):
        return path.read_text(encoding="utf-8")


def _object(text: str, where: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, dict):
        raise ConfigError(where, "is not a JSON object", "it was changed after the run: restore the file")
    return value
