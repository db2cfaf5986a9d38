"""Evidence that is missing accuses nobody: transcripts cut at any line, and any of them away."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from securefl.base.errors import ConfigError
from securefl.lab.audit.chain import Known, VerifiedRun, verify_run
from securefl.lab.audit.finding import Severity
from securefl.lab.audit.load import load
from securefl.lab.audit.recorded import Recorded
from securefl.lab.audit.run import audit
from securefl.runtime.report.rundir import RunDirectory
from tests.simulation.lying import distinct, verified
from tests.simulation.world import Op, scenario
from tests.tiers import sampled
from tests.unit.audit.runs import record

FIRST = np.zeros(16, dtype=np.float32)
KNOWN = Known(first=FIRST)
STRIDE = 7
"""Every so many lines a transcript is cut: prime to the number of lines that a round has."""


@pytest.fixture(scope="module")
def chained(tmp_path_factory: pytest.TempPathFactory) -> RunDirectory:
    """A verified run of twelve parties, one of which is lost in round 1. Not to be changed."""
    out = tmp_path_factory.mktemp("missing") / "run"
    lost = Op("drop", "p04", "MaskedInput", 1)
    return record(out, verified(rounds="2"), length=16, train=distinct, lab=True, ops=[lost])


@pytest.fixture(scope="module")
def metered(tmp_path_factory: pytest.TempPathFactory) -> RunDirectory:
    """Six parties with metrics, two clusterings, one silent in round 1."""
    out = tmp_path_factory.mktemp("missing") / "run"
    made = scenario(
        6,
        rounds="2",
        reclusterings="2",
        leakage__mode='"report"',
        model__type='"weights"',
        evaluation__samples="20",
        evaluation__repeats='"accept"',
        evaluation__metrics='[{name="loss", kind="mean", upper=8, better="lower"}]',
    )
    return record(out, made, ops=[Op("drop", "p04", "MaskedInput", 1)])


def without_ends(directory: RunDirectory, out: Path) -> Path:
    """A copy whose summary states the end of no transcript, as that of a server that knows its own only."""
    shutil.copytree(directory.path, out)
    summary = directory.read_summary()
    summary["transcripts"] = {}
    (out / "summary.json").write_text(json.dumps(summary))
    return out


def cuts(directory: RunDirectory, *vantages: str) -> Iterator[tuple[str, int]]:
    for vantage in vantages:
        lines = (directory.transcript_folder / f"{vantage}.jsonl").read_bytes().count(b"\n")
        yield from ((vantage, number) for number in range(1, lines, STRIDE))


def cut(recorded: Recorded, vantage: str, number: int) -> Recorded:
    """The run as if a transcript had this many lines, the header included."""
    (whole,) = recorded.transcripts[vantage]
    entries = tuple(entry for entry in whole.entries if entry.n < number)
    less = replace(whole, entries=entries, complete=False)
    return replace(recorded, transcripts={**recorded.transcripts, vantage: (less,)})


def accusations(recorded: Recorded, known: Known | None = None) -> list[str]:
    report = audit(recorded, None, known)
    return [
        one.claim
        for chapter in report.chapters
        for one in chapter.findings
        if one.severity is Severity.BREACH and one.audit not in {"exposure", "reconstruction"}
    ]


@pytest.mark.parametrize("vantage", ["server", "p00", "p04"])
def test_a_transcript_that_is_cut_accuses_nobody(vantage: str, metered: RunDirectory, tmp_path: Path) -> None:
    recorded = load(without_ends(metered, tmp_path / "run"))
    found = {at: accusations(cut(recorded, *at)) for at in cuts(metered, vantage)}
    assert {at: claims for at, claims in found.items() if claims} == {}


@pytest.mark.parametrize("vantage", sampled(["server", "p00", "p04"], ["p04"]))
def test_nor_does_one_of_verified_rounds(vantage: str, chained: RunDirectory, tmp_path: Path) -> None:
    recorded = load(without_ends(chained, tmp_path / "run"))
    found = {at: accusations(cut(recorded, *at), KNOWN) for at in cuts(chained, vantage)}
    assert {at: claims for at, claims in found.items() if claims} == {}


@pytest.mark.parametrize("vantage", ["server", "p00", "p04"])
def test_nor_does_one_that_is_gone(
    vantage: str, chained: RunDirectory, metered: RunDirectory, tmp_path: Path
) -> None:
    for name, directory, known in (("a", chained, KNOWN), ("b", metered, None)):
        recorded = load(without_ends(directory, tmp_path / name))
        others = {who: some for who, some in recorded.transcripts.items() if who != vantage}
        alone = {vantage: recorded.transcripts[vantage]}
        assert accusations(replace(recorded, transcripts=others), known) == []
        assert accusations(replace(recorded, transcripts=alone), known) == []


def verdict(directory: RunDirectory, known: Known) -> VerifiedRun:
    return verify_run(load(directory.path), known)


def test_another_first_model_here_is_no_proof_if_it_may_be_the_wrong_one(chained: RunDirectory) -> None:
    """Other code, software or data make another first model from the same seed."""
    other = FIRST + np.float32(1)
    certain = verdict(chained, Known(first=other))
    assert (certain.exit_code, certain.refuted) == (1, True)
    doubted = verdict(chained, Known(first=other, doubt="its code may be another version"))
    assert (doubted.exit_code, doubted.proved, doubted.refuted) == (2, False, False)
    claims = " ".join(one.claim for one in doubted.findings)
    assert "here. This proves no fault: its code may be another version" in claims
    longer = verdict(chained, Known(first=np.zeros(17, dtype=np.float32)))
    assert longer.exit_code == 2
    assert "is not proved to follow from" in longer.sentence


def test_a_first_model_that_cannot_be_made_is_missing_evidence(chained: RunDirectory) -> None:
    run = verdict(chained, Known(unknown="no such data set"))
    assert run.exit_code == 2
    assert Severity.BREACH not in {one.severity for one in run.findings}
    assert "is not proved to follow" in run.sentence


def test_other_frozen_parameters_here_are_refused(chained: RunDirectory) -> None:
    """Parties signed their digest in every hello: a breach for each round was reported."""
    with pytest.raises(ConfigError, match="configuration that all parties of the run signed"):
        verdict(chained, Known(first=FIRST, frozen=bytes(32)))
    with pytest.raises(ConfigError, match="configuration that all parties of the run signed"):
        audit(load(chained.path), None, Known(first=FIRST, frozen=bytes(32)))
