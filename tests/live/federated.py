"""Running whole federations as a user would, and reading what they leave behind.

:func:`run_program` starts ``securefl`` as a shell does; seconds of imports go before anything happens, in the
launcher and in its fork server. :func:`run` calls the same command line in this process: broker, server and
parties are processes as ever, from one fork server that all such runs of a test process share.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from securefl.base.arrays import I64
from securefl.base.ids import PartyId
from securefl.methods.clustering.sizes import work_of
from securefl.runtime.process.ground_truth import upload_file
from securefl.runtime.report.rundir import RunDirectory
from securefl.runtime.transcript.chain import Transcript, read_transcript
from securefl.runtime.transport.broker import find_mosquitto
from tests.unit.cli.programs import call

BROKERS = [
    pytest.param(
        "mosquitto",
        marks=pytest.mark.skipif(find_mosquitto() is None, reason="mosquitto is not installed"),
    ),
    "embedded",
]
LIMIT = 180.0
"""Seconds after which a run counts as hanging."""
STEPS = ("hello", "reveal", "keys", "shares", "training", "certify", "release")
PATIENT = tuple(part for step in STEPS for part in ("--set", f"deadlines.{step}=60"))
"""For bundled scenarios in which nobody is waited for in vain: a machine that runs all processes may stall
for longer than their deadlines are, and whoever misses one is left out."""


@dataclass(frozen=True)
class Run:
    """A run that has ended."""

    exit_code: int
    stdout: str
    stderr: str
    directory: RunDirectory

    @property
    def summary(self) -> dict[str, Any]:
        return self.directory.read_summary()

    @property
    def rows(self) -> tuple[dict[str, Any], ...]:
        return self.directory.read_metrics()

    def transcript(self, vantage: str) -> Transcript:
        return read_transcript(self.directory.transcript_folder / f"{vantage}.jsonl")

    def vector(self, digest: str) -> np.ndarray[Any, Any]:
        vector: np.ndarray[Any, Any] = np.load(
            self.directory.path / "lab" / f"{digest}.npy", allow_pickle=False
        )
        return vector

    def upload(self, party: str, round_: int, work: int = 0) -> I64:
        path = upload_file(self.directory.path, PartyId(party), round_, work)
        values: I64 = np.load(path, allow_pickle=False)
        return values


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "securefl", *arguments]


def environment() -> dict[str, str]:
    return {**os.environ, "PYTHONUNBUFFERED": "1", "COLUMNS": "120"}


@contextmanager
def interruptible() -> Iterator[None]:
    """Whoever is started in here heeds SIGINT, whatever a shell made of this process in the background."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def run_program(scenario: Path, out: Path, *arguments: str) -> Run:
    """``securefl run`` as a program of its own, to its end."""
    done = subprocess.run(
        command("run", str(scenario), "--out", str(out), "--json", *arguments),
        capture_output=True,
        text=True,
        timeout=LIMIT,
        env=environment(),
        check=False,
    )
    return Run(done.returncode, done.stdout, done.stderr, RunDirectory.open(out))


def run(scenario: Path, out: Path, *arguments: str) -> Run:
    """``securefl run`` to its end, its launcher in this process."""
    return _called("run", scenario, out, *arguments)


def simulate(scenario: Path, out: Path, *arguments: str) -> Run:
    """``securefl simulate --exact`` to its end, in this process, without a word on stderr."""
    ended = _called("simulate", scenario, out, "--exact", *arguments)
    assert ended.stderr == ""
    return ended


def _called(program: str, scenario: Path, out: Path, *arguments: str) -> Run:
    with _no_longer_than(LIMIT):
        done = call(program, scenario, "--out", out, "--json", *arguments)
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    return Run(done.exit_code, done.stdout, done.stderr, RunDirectory.open(out))


class HangingError(BaseException):
    """A run took longer than ``LIMIT``. No program may catch it."""


@contextmanager
def _no_longer_than(seconds: float) -> Iterator[None]:
    def hangs(*_: object) -> None:
        raise HangingError

    before = signal.signal(signal.SIGALRM, hangs)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def events(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


def assert_sums_are_exact(ended: Run) -> int:
    """Every sum that the server opened is, bit for bit, the sum of what its survivors encoded."""
    checked, scenario = 0, ended.directory.read_scenario()
    for entry in ended.transcript("server").of_kind("sum_opened"):
        fields: dict[str, Any] = dict(entry.fields)
        opened = fields["opened"]
        ring = ended.vector(opened["ring"]["digest"])
        work = work_of(scenario.clustering, opened["reclustering"])
        parts = [ended.upload(party, fields["round"], work) for party in opened["survivors"]]
        total = np.sum(parts, axis=0)
        assert np.array_equal(ring, total.astype(np.uint32))
        checked += 1
    return checked
