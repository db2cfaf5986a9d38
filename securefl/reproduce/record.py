"""What is kept of a panel that was run: one JSON file, from which list, page and plot are made."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct

from securefl.config.draws import chosen_fields
from securefl.config.scenario import Scenario
from securefl.crypto.labels import digest
from securefl.errors import ConfigError, RunAbortedError
from securefl.reproduce.figure import Figure, ScaleName
from securefl.reproduce.freshness import fingerprint
from securefl.reproduce.judging import Accuracies, Verdict, measured
from securefl.reproduce.provenance import refuse_mixed
from securefl.reproduce.shelf import nameless
from securefl.reproduce.task_groups import GroupsRecord

FORMAT = 1
"""Of the files. Counted up when simulations of the same scenario would give other numbers."""
LEAKAGE_REPORTED: Final = "LEAKAGE ONLY REPORTED: sums cross the published limits"
"""Stands on the results of such scenarios, in pictures and on terminals."""


class SeedRecord(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """One simulation."""

    seed: int
    accuracies: Accuracies
    """By round, on the test set; of a round whose model was not tested, that of the last one that was."""
    ended: str
    """Why it ended, where that was not after the last round: destroyed, aborted."""
    seconds: float
    device: str
    dataset: str
    """Title of the data set, as its loader gives it."""
    epsilon: float | None = None
    """As accounted for a party that was in every round, had its noise been secret; None: no noise, or nothing
    that it could hide."""
    guarantee: str = ""
    """The same with unit, neighbouring relation, sampler, denominator and delta, or why there is none."""
    tested_every: int = 1
    """Rounds from test to test, those before the last ``last`` ones, which are all tested."""
    groups: GroupsRecord | None = None
    """What became of task groups; None where there are none, or nobody knows who is in which."""
    commit: str = ""
    """That computed it (:func:`securefl.reproduce.provenance.commit`); empty: not known."""
    draws: str = ""
    """Digest that its clusters were drawn under; empty: of a program that noted none."""


class CurveRecord(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One line of the plot."""

    label: str
    baseline: bool
    scenario: str
    """Digest of its scenario."""
    final: float
    """Mean accuracy over the last rounds and the seeds."""
    seeds: tuple[SeedRecord, ...]


class FigureRecord(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One panel at one scale."""

    format: int
    paper: str
    panel: str
    scale: ScaleName
    title: str
    settings: str
    """Digest of curves, claims and whatever else the verdicts follow from, seeds apart."""
    note: str
    """What the scale leaves out or replaces."""
    parties: int
    rounds: int
    last: int
    leakage_reported: bool
    curves: tuple[CurveRecord, ...]
    verdicts: tuple[Verdict, ...]
    seconds: float
    """Computing time of all simulations together."""
    jobs: int
    """How many of them ran side by side."""
    versions: dict[str, str]
    """Of the program that judged and drew; results that were kept may be older."""

    @property
    def datasets(self) -> tuple[str, ...]:
        """Titles of the data sets, each once."""
        return tuple(sorted({seed.dataset for curve in self.curves for seed in curve.seeds}))

    @property
    def stem(self) -> str:
        """Of the names of its files."""
        return f"{self.panel}-{self.scale}"

    @property
    def fingerprint(self) -> str:
        """Of all its accuracies."""
        return fingerprint({curve.label: [seed.accuracies for seed in curve.seeds] for curve in self.curves})


def scenario_key(scenario: Scenario) -> str:
    """Digest (32 hex digits) of everything that the rounds of a scenario follow from, seed apart.

    Fields at their default do not count: a field that comes to the schema makes no result an old one.
    """
    chosen = msgspec.json.encode(chosen_fields(nameless(scenario)), order="sorted")
    return digest("figure scenario", FORMAT, chosen).hex()[:32]


def settings_key(figure: Figure, scenarios: Mapping[str, Scenario]) -> str:
    """Digest (32 hex digits) of what the verdicts of a panel follow from, seeds apart.

    Args:
        figure: the panel.
        scenarios: of its curves at one scale, by label.
    """
    curves = {label: scenario_key(scenario) for label, scenario in scenarios.items()}
    judged = msgspec.json.encode([figure.last, figure.claims, list(curves.items())], order="sorted")
    return hashlib.sha256(judged).hexdigest()[:32]


def final_of(label: str, seeds: Sequence[SeedRecord], last: int, rounds: int) -> float:
    """Mean final accuracy over the seeds.

    Raises:
        ConfigError: their clusters were drawn differently.
    """
    refuse_mixed(label, {seed.seed: seed.draws for seed in seeds})
    return sum(measured(seed.accuracies, "final", last, rounds) for seed in seeds) / len(seeds)


def encode(record: Struct) -> bytes:
    """The record as JSON for people: indented, a line per list of numbers, a newline at the end."""
    text = msgspec.json.format(msgspec.json.encode(record), indent=1)
    return _folded(text.decode()).encode() + b"\n"


def read_record(path: Path) -> FigureRecord:
    """A panel that was run before.

    Raises:
        ConfigError: the file cannot be read or holds no such record.
    """
    try:
        return msgspec.json.decode(path.read_bytes(), type=FigureRecord)
    except OSError as error:
        raise ConfigError(str(path), f"cannot be read: {error.strerror}") from error
    except msgspec.DecodeError as error:
        raise ConfigError(str(path), f"holds no figure: {error}", "remove it and draw it again") from error


def read_records(folder: Path) -> dict[tuple[str, ScaleName], FigureRecord]:
    """All panels in a folder, by panel and scale.

    Raises:
        ConfigError: one of the files is no such record.
    """
    records = [read_record(path) for path in sorted(folder.glob("*.json"))]
    return {(record.panel, record.scale): record for record in records}


def write_whole(path: Path, content: bytes) -> None:
    """Write a file so that it appears whole or not at all; its folder is made where it is missing.

    Raises:
        RunAbortedError: the disk is full or gone, or the folder cannot be made.
    """
    partial = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        partial.write_bytes(content)
        partial.replace(path)
    except OSError as error:
        partial.unlink(missing_ok=True)
        raise RunAbortedError(f"{path}: cannot be written: {error.strerror}") from error


def _folded(text: str) -> str:
    """Lists of numbers on one line: hundreds of accuracies would fill hundreds of lines."""
    out: list[str] = []
    numbers: list[str] | None = None
    for line in text.splitlines():
        bare = line.strip().rstrip(",")
        if numbers is not None and bare.startswith("]"):
            out[-1] += ", ".join(numbers) + line.strip()
            numbers = None
        elif numbers is not None:
            numbers.append(bare)
        else:
            out.append(line)
            numbers = [] if bare.endswith('"accuracies": [') else None
    return "\n".join(out)
