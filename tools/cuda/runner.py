"""Units in order of their worth within one time limit; each result is a line of the file at once.

A *unit* is a suite of tests or a measure on one device. It is a command that prints JSON objects, one a
line, on its standard output, and ends with one of these codes: 0 done, 75 unfinished (its time was up; the
next run continues), any other failed. A unit learns the parts that have a result and its time by two
options: ``--done`` and ``--seconds``.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tools.cuda.lines import (
    DONE,
    FAILED,
    SKIPPED,
    STOPPED,
    UNFINISHED,
    Line,
    LineFile,
    is_done,
    object_of,
    parts_done,
)
from tools.cuda.processes import GRACE, Ended, run_command

CODE_UNFINISHED: Final = 75
"""Exit code of a unit whose time was up (EX_TEMPFAIL)."""
RESERVE: Final = 2.0
"""Seconds at the end of the limit for the last lines and for removing files."""
_SHOWN: Final = 12
"""Lines of a failure that are kept."""


@dataclass(frozen=True, kw_only=True)
class Unit:
    """A suite or a measure on one device."""

    name: str
    device: str
    command: tuple[str, ...]
    estimate: float
    """Seconds that it takes on this device; it is not started with less time left."""
    limit: float
    """Seconds after which it is taken to hang."""
    refusal: str = ""
    """Reason why it cannot run here; empty if it can."""
    required: bool = False
    """True for suites: if one is skipped for time, the run does not count as passed."""

    @property
    def label(self) -> str:
        """Name and device."""
        return f"{self.name} on {self.device}"


class Clock:
    """The time limit of a run, from its start."""

    def __init__(self, limit: float, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._began = now()
        self._limit = limit

    @property
    def passed(self) -> float:
        """Seconds since the start."""
        return self._now() - self._began

    @property
    def left(self) -> float:
        """Seconds that a unit may take, so that it can still be stopped within the limit."""
        return self._limit - self.passed - GRACE - RESERVE


class Runner:
    """Runs units and records their lines.

    Args:
        file: takes the lines.
        clock: the time limit.
        setting: fields that all lines have: machine, run, code and commit.
        environment: variables of the commands, complete.
        root: the checkout, working directory of the commands.
        echo: shows a line on the console.
    """

    def __init__(
        self,
        file: LineFile,
        clock: Clock,
        setting: Line,
        environment: Mapping[str, str],
        root: Path,
        echo: Callable[[str], None] = print,
    ) -> None:
        self._file = file
        self._clock = clock
        self._setting = dict(setting)
        self._environment = environment
        self._root = root
        self._echo = echo
        self._outcomes: dict[str, str] = {}
        self._missed: list[str] = []

    def run(self, units: Sequence[Unit]) -> bool:
        """Run the units one after the other; return True if none failed and no required one was left out.

        Raises:
            KeyboardInterrupt: after the line that says which unit was stopped.
        """
        for unit in units:
            outcome = self._run(unit)
            self._outcomes[unit.label] = outcome
            if unit.required and outcome != DONE:
                self._missed.append(unit.label)
        self._summarise()
        return not self._missed and FAILED not in self._outcomes.values()

    def one(self, unit: Unit) -> Line | None:
        """Run a unit that has one result, whatever earlier runs have; return that result."""
        found: list[Line] = []
        self._outcomes[unit.label] = self._start(unit, found, known=())
        return found[-1] if found else None

    def _run(self, unit: Unit) -> str:
        setting = {**self._setting, "device": unit.device}
        if is_done(self._file.lines, unit.name, setting):
            self._say(f"{unit.label}: has its results from an earlier run of the same code")
            return DONE
        left = self._clock.left
        if unit.refusal:
            return self._end(unit, SKIPPED, unit.refusal)
        if left < unit.estimate:
            why = f"takes about {unit.estimate:.0f} s, and {max(left, 0):.0f} s are left"
            return self._end(unit, SKIPPED, why)
        return self._start(unit, [], known=parts_done(self._file.lines, unit.name, setting))

    def _start(self, unit: Unit, found: list[Line], known: Sequence[str]) -> str:
        seconds = min(unit.limit, self._clock.left)
        # The last seconds are the unit's own, to end in order before it is stopped.
        own = max(1.0, seconds - GRACE)
        command = [*unit.command, "--seconds", f"{own:.0f}", "--done", ",".join(known)]
        spoiled: list[str] = []

        def take(text: str) -> None:
            line = object_of(text)
            if line is not None:
                found.append(line)
                self._record(unit, line)
            elif text.strip():
                spoiled.append(text)

        try:
            self._say(f"{unit.label}, at most {seconds:.0f} s")
            ended = run_command(
                command,
                seconds=seconds,
                on_line=take,
                environment=self._environment,
                folder=self._root,
            )
        except KeyboardInterrupt:
            self._end(unit, STOPPED, "interrupted")
            raise
        errors = self._tail([*spoiled, *ended.errors])
        outcome, why = self._outcome(unit, ended, seconds)
        if outcome == DONE and not (found or known):
            outcome, why = FAILED, "it ended without a result"
        return self._end(
            unit, outcome, why, seconds=ended.seconds, errors=errors if outcome == FAILED else ()
        )

    def _outcome(self, unit: Unit, ended: Ended, seconds: float) -> tuple[str, str]:
        if ended.code is None:
            return FAILED, f"cannot be killed, after {ended.seconds:.0f} s"
        if not ended.in_time:
            if seconds < unit.limit:
                return STOPPED, f"the time limit of the run came after {ended.seconds:.0f} s"
            return FAILED, f"hangs: stopped after {ended.seconds:.0f} s"
        if ended.code == 0:
            return DONE, ""
        if ended.code == CODE_UNFINISHED:
            return UNFINISHED, "its time was up; the next run continues"
        return FAILED, f"signal {-ended.code}" if ended.code < 0 else f"exit code {ended.code}"

    def _record(self, unit: Unit, line: Line) -> None:
        kind = line.get("kind", "result")
        fields = {key: value for key, value in line.items() if key != "kind"}
        self._file.append({"kind": kind, "unit": unit.name, "device": unit.device, **self._setting, **fields})
        self._echo(f"    {_shown(fields)}")

    def _end(
        self, unit: Unit, outcome: str, why: str, seconds: float = 0.0, errors: Sequence[str] = ()
    ) -> str:
        line: dict[str, Any] = {"kind": "end", "unit": unit.name, "device": unit.device, **self._setting}
        line |= {"outcome": outcome, "why": why, "seconds": round(seconds, 1)}
        if errors:
            line["errors"] = list(errors)
        self._file.append(line)
        if outcome != DONE:
            self._say(f"{unit.label}: {outcome}, {why}")
            for error in errors:
                self._echo(f"    | {error}")
        else:
            self._say(f"{unit.label}: done in {seconds:.0f} s")
        return outcome

    def _tail(self, lines: Sequence[str]) -> tuple[str, ...]:
        """Return the last lines of an error, without the folder of the checkout."""
        return tuple(line.replace(str(self._root), ".")[:300] for line in lines if line.strip())[-_SHOWN:]

    def _summarise(self) -> None:
        for outcome in (FAILED, STOPPED, UNFINISHED, SKIPPED):
            labels = [label for label, found in self._outcomes.items() if found == outcome]
            if labels:
                self._say(f"{outcome}: {', '.join(labels)}")
        done = sum(outcome == DONE for outcome in self._outcomes.values())
        self._say(f"{done} of {len(self._outcomes)} units done")

    def _say(self, text: str) -> None:
        self._echo(f"[{self._clock.passed:5.0f} s] {text}")


def _shown(fields: Line) -> str:
    """Return the short values of a line, for the console."""
    texts = []
    for key, value in fields.items():
        if isinstance(value, float):
            texts.append(f"{key} {value:.4g}")
        elif isinstance(value, str | int) and len(str(value)) < 100:
            texts.append(f"{key} {value}")
    return ", ".join(texts)
