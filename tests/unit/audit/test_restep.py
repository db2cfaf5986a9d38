"""Machines of a seeded run, stepped again."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from msgspec import structs

from securefl.base.errors import ConfigError
from securefl.base.ids import SERVER
from securefl.lab.audit.finding import Finding, Severity
from securefl.lab.audit.load import load, load_truth
from securefl.lab.audit.recorded import Recorded
from securefl.protocol.messages.control import Software
from securefl.runtime.process.ground_truth import LAB_FRAMES
from securefl.runtime.transcript.chain import Entry
from tests.recorded.restepping import restepped
from tests.recorded.wiretap import frames_of
from tests.simulation.world import scenario
from tests.unit.audit.runs import record


def stepped(run: Path, recorded: Recorded | None = None) -> list[Finding]:
    recorded = recorded or load(run)
    return list(restepped(recorded, load_truth(run, recorded)))


def test_all_machines_of_a_seeded_run_come_out_the_same(plain: Path) -> None:
    """The round in which p04 is silent ends by a deadline, which no transcript records."""
    (found,) = stepped(plain)
    assert found.severity is Severity.HOLDS, found.claim
    assert "7 machines (server, p00" in found.claim


def test_machines_report_the_versions_of_their_processes(tmp_path: Path) -> None:
    """They are those of the run: the audit may run on another version than any of its processes."""
    own = Software(python="3.98.1", numpy="1.99", securefl="0.2.0")
    newer = structs.replace(own, python="3.99.0")
    record(
        tmp_path / "run",
        scenario(6, rounds="1"),
        lab=True,
        software=lambda name: newer if name == "p03" else own,
    )
    (found,) = stepped(tmp_path / "run")
    assert found.severity is Severity.HOLDS, found.claim
    assert "7 machines (server, p00" in found.claim


@pytest.mark.parametrize("vantage", [SERVER, "p02"])
def test_another_message_than_the_machine_sends_is_a_breach(plain: Path, vantage: str) -> None:
    recorded = load(plain)
    (transcript,) = recorded.transcripts[vantage]
    number = [e.n for e in transcript.entries if e.kind == "sent"][5]

    def forged(entry: Entry) -> Entry:
        return replace(entry, fields={**entry.fields, "sha256": "00" * 32}) if entry.n == number else entry

    changed = (replace(transcript, entries=tuple(map(forged, transcript.entries))),)
    found = stepped(plain, replace(recorded, transcripts={**recorded.transcripts, vantage: changed}))
    (breach,) = [one for one in found if one.severity is Severity.BREACH]
    assert breach.claim.startswith(f"{vantage} did not do what its machine does")
    assert breach.evidence[0].entry == number


def test_another_seed_gives_other_machines(plain: Path) -> None:
    recorded = load(plain)
    others = {
        name: tuple(replace(t, header={**t.header, "seed": 2}) for t in some)
        for name, some in recorded.transcripts.items()
    }
    found = stepped(plain, replace(recorded, transcripts=others))
    assert Severity.HOLDS not in {one.severity for one in found}


def test_why_nothing_can_be_stepped_is_said(plain: Path, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(plain, tmp_path / "copy"))
    frames = copy / "lab" / LAB_FRAMES
    assert "--lab" in next(restepped(load(copy), None)).claim
    with frames.open("ab") as file:
        file.write(b"\x07\x00")
    with pytest.raises(ConfigError, match="cut off"):
        frames_of(frames.parent)
    frames.unlink()
    (note,) = stepped(copy)
    assert "no observer" in note.claim
    recorded = load(copy)
    secret = {
        name: tuple(replace(t, header={**t.header, "entropy": "operating system"}) for t in some)
        for name, some in recorded.transcripts.items()
    }
    (note,) = stepped(copy, replace(recorded, transcripts=secret, summary={}))
    assert "--insecure-seeded-entropy" in note.claim


def test_frozen_parameters_are_those_of_the_run(tmp_path: Path) -> None:
    """Every hello has their digest: without it the server refuses all parties, and seemed another program."""
    record(tmp_path / "run", scenario(4, size="4", rounds="2"), lab=True, frozen=bytes(31) + b"1")
    (found,) = stepped(tmp_path / "run")
    assert found.severity is Severity.HOLDS, found.claim


def test_parties_whose_updates_wait_for_a_deadline_come_out_the_same(tmp_path: Path) -> None:
    """With noise a masked input leaves at ``deadlines.submit``, not at the end of its training."""
    noise = {
        "privacy__unit": "party",
        "privacy__multiplier": "0.5",
        "privacy__delta": "0.05",
        "encoding__clip": "64.0",
        "encoding__scale_bits": "2",
    }
    record(tmp_path / "run", scenario(6, rounds="2", **noise), lab=True)
    (found,) = stepped(tmp_path / "run")
    assert found.severity is Severity.HOLDS, found.claim
    assert "7 machines (server, p00" in found.claim


def test_parties_with_metrics_are_left_out_and_said(tmp_path: Path) -> None:
    """What a site measures is in no file. The server comes out the same."""
    made = scenario(
        4,
        size="4",
        rounds="2",
        model__type='"weights"',
        evaluation__samples="20",
        evaluation__repeats='"accept"',
        evaluation__metrics='[{name="loss", kind="mean", upper=8, better="lower"}]',
    )
    record(tmp_path / "run", made, lab=True)
    server, parties = stepped(tmp_path / "run")
    assert server.severity is Severity.HOLDS, server.claim
    assert "1 machine (server)" in server.claim
    assert "the metrics that it measured are not recorded anywhere" in parties.claim
