"""Runs that an agent knows: a folder for each, beside the kit. It is the agent's memory across restarts."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct

from securefl.base import crypto, files
from securefl.base.errors import ConfigError
from securefl.base.ids import is_name
from securefl.runtime.agents.engine import Choice, PersonDecision
from securefl.runtime.agents.submission import ENDED, Order, State, encode_signed, read_submission
from securefl.runtime.provision import History

AGENT: Final = "agent"
"""Folder of all runs, beside the kit."""
_SUBMISSION: Final = "submission.json"
_RECORD: Final = "record.json"
_DECISION: Final = "decision.json"
_STOP: Final = "stop.json"
LOG: Final = "log.txt"
SCENARIO: Final = "scenario.toml"
ROSTER: Final = "roster.toml"
WEIGHTS: Final = "first.safetensors"
"""First weights. The operator does not choose the name: ``agent.RUN.NAME`` can be imported as a module."""
_LOCK: Final = "process.lock"
_RESTORE: Final = "restore the folder, or submit the run under another id"


class RunRecord(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """State of one run at this agent."""

    submission: str
    state: State
    reason: str = ""
    number: int = 0
    """Number of the last notice."""
    restarts: int = 0


class _StoredDecision(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    submission: str
    choice: Choice
    reason: str = ""


@dataclass
class KnownRun:
    """A run in the register; fields that a restart keeps are in files."""

    folder: Path
    order: Order
    record: RunRecord

    @property
    def run(self) -> str:
        """Id of the run."""
        return self.order.content.run

    @property
    def ended(self) -> bool:
        """True if its state is final."""
        return self.record.state in ENDED

    @property
    def weights(self) -> Path | None:
        """Path of the first weights; None without."""
        return self.folder / WEIGHTS if self.order.content.weights_bytes else None

    def remove_weights(self) -> None:
        """Remove the first weights, which an ended run needs no more."""
        if self.weights is not None:
            self.weights.unlink(missing_ok=True)

    def save(self, record: RunRecord) -> None:
        """Store a new state durably."""
        files.write_whole(self.folder / _RECORD, msgspec.json.encode(record), durable=True)
        self.record = record

    def keep_stop(self, raw: bytes) -> None:
        """Store the operator's stop order."""
        files.write_whole(self.folder / _STOP, raw, durable=True)

    @property
    def stop(self) -> bytes | None:
        """Stop order as it arrived; None without one."""
        return files.read_if_there(self.folder / _STOP)

    def decision(self) -> PersonDecision | None:
        """Return a person's decision; None without one."""
        raw = files.read_if_there(self.folder / _DECISION)
        if raw is None:
            return None
        try:
            found = msgspec.json.decode(raw, type=_StoredDecision)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise ConfigError(str(self.folder / _DECISION), f"is damaged: {error}", "decide again") from None
        return PersonDecision(found.choice, found.reason) if found.submission == self.order.digest else None

    def decide(self, decision: PersonDecision) -> None:
        """Store a person's decision, which the agent reads within a second.

        Raises:
            ConfigError: the agent could not read it, as it is another user's.
        """
        check_owner(self.folder.parents[1])
        stored = _StoredDecision(submission=self.order.digest, choice=decision.choice, reason=decision.reason)
        files.write_whole(self.folder / _DECISION, msgspec.json.encode(stored), durable=True)

    def write_inputs(self, roster: crypto.Roster) -> None:
        """Write scenario and roster of the run for its process."""
        files.write_whole(self.folder / SCENARIO, self.order.content.scenario.encode())
        files.write_whole(self.folder / ROSTER, crypto.roster_text(roster).encode())

    @contextmanager
    def process_lock(self) -> Iterator[int | None]:
        """Yield a locked descriptor for the run's process to inherit; None if an earlier one still runs."""
        handle = os.open(self.folder / _LOCK, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield None
        else:
            yield handle
        finally:
            os.close(handle)


class Register:
    """All runs that an agent has heard of, by id."""

    def __init__(self, kit_folder: Path, history: History) -> None:
        self.folder = kit_folder / AGENT
        self._history = history
        self.runs: dict[str, KnownRun] = {}
        self._read()

    def _read(self) -> None:
        folders = sorted(self.folder.iterdir()) if self.folder.exists() else []
        found = [_read_run(one, self._history) for one in folders if one.is_dir() and is_name(one.name)]
        self.runs = {known.run: known for known in found if known is not None}

    def add(self, order: Order) -> KnownRun:
        """Add a submission whose run is new.

        Raises:
            OSError: it cannot be written.
        """
        folder = self.folder / order.content.run
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        # The order last: a folder without one, and without a later state, is ignored.
        record = RunRecord(submission=order.digest, state="received")
        files.write_whole(folder / _RECORD, msgspec.json.encode(record), durable=True)
        files.write_whole(folder / _SUBMISSION, encode_signed(order.signed), durable=True)
        files.sync_folder(self.folder)
        known = KnownRun(folder, order, record)
        self.runs[known.run] = known
        return known

    def find(self, run: str) -> KnownRun:
        """Return a run by its id.

        Raises:
            ConfigError: the agent has no such run.
        """
        try:
            return self.runs[run]
        except KeyError:
            known = ", ".join(self.runs) or "none"
            raise ConfigError("RUN", f"{run[:40]!r} is not known here", f"runs: {known}") from None

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Hold the register, and read it again: one agent works on it.

        Raises:
            ConfigError: another agent does, or it belongs to another user.
        """
        check_owner(self.folder.parent)
        self.folder.mkdir(mode=0o700, exist_ok=True)
        with files.lock_folder(self.folder, "agent", "stop that one"):
            # The former agent may have changed it until now.
            self._read()
            yield


def check_owner(kit_folder: Path) -> None:
    """Check that the folder of a kit is this user's: an agent could not read what another user writes there.

    Raises:
        ConfigError: it is another user's.
    """
    with files.reading(kit_folder):
        owner = kit_folder.stat().st_uid
    if owner != os.geteuid():
        raise ConfigError(str(kit_folder), f"belongs to the user {owner}", "run this as that user")


def _read_run(folder: Path, history: History) -> KnownRun | None:
    """Return a run; None if the writing of its folder was interrupted."""
    raw, record = files.read_if_there(folder / _SUBMISSION), files.read_if_there(folder / _RECORD)
    found = None if record is None else _read_record(folder / _RECORD, record)
    if raw is None and (found is None or not found.number):
        return None
    if raw is None or found is None:
        raise ConfigError(str(folder), "has no submission or no record", f"{_RESTORE}; move this folder away")
    order = read_submission(raw, history, str(folder / _SUBMISSION))
    if found.submission != order.digest or order.content.run != folder.name:
        raise ConfigError(str(folder), "has the record of another submission", _RESTORE)
    return KnownRun(folder, order, found)


def _read_record(path: Path, raw: bytes) -> RunRecord:
    try:
        return msgspec.json.decode(raw, type=RunRecord)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ConfigError(str(path), f"is damaged: {error}", _RESTORE) from None


def log_tail(folder: Path, lines: int) -> list[str]:
    """Return the last lines of a run's log; empty without one."""
    with suppress(FileNotFoundError), (folder / LOG).open("rb") as file:
        file.seek(0, os.SEEK_END)
        file.seek(max(0, file.tell() - 65_536))
        return file.read().decode("utf-8", "replace").splitlines()[-lines:]
    return []
