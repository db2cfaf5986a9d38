"""Audits of what was collected from several machines: names of a roster, holes, transcripts in segments."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from securefl.base.crypto.keyfiles import write_roster
from securefl.base.errors import ConfigError
from securefl.base.ids import SERVER, PartyId
from securefl.lab.audit.chain import Known
from securefl.lab.audit.finding import Severity
from securefl.lab.audit.load import load
from securefl.lab.audit.recorded import Recorded
from securefl.lab.audit.report import AuditReport
from securefl.lab.audit.run import audit
from securefl.runtime.report.rundir import RunDirectory
from securefl.runtime.transcript.chain import TranscriptWriter, read_transcript
from securefl.runtime.transcript.segments import former_segments
from tests.simulation.lying import verified
from tests.simulation.rosters import seeded_identities
from tests.simulation.world import scenario
from tests.tiers import covering, sampled
from tests.unit.audit.runs import record

NAMES = tuple(map(PartyId, ("bern", "north", "oslo", "rome", "south", "west")))
SMALL = 2_000
"""Bytes: less than a round, so that each process has the last whole one and the one at work."""


def claims(report: AuditReport, severity: Severity) -> list[str]:
    return [finding.claim for finding in report.findings if finding.severity is severity]


def audits(report: AuditReport, severity: Severity) -> set[str]:
    """Which audits found something of this severity: how much differs with the number of rounds."""
    return {finding.audit for finding in report.findings if finding.severity is severity}


def said(report: AuditReport, *words: str) -> str:
    """The one claim with these words."""
    (found,) = [f.claim for f in report.findings if all(word in f.claim for word in words)]
    return found


def clean(report: AuditReport) -> AuditReport:
    assert claims(report, Severity.BREACH) == []
    assert report.exit_code == 0
    return report


def transcript(folder: Path, name: str) -> Path:
    return folder / "transcripts" / f"{name}.jsonl"


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A server's folder with everybody's transcripts in it: its summary knows the end of its own only."""
    out = tmp_path_factory.mktemp("collected") / "run"
    directory = record(out, scenario(6, rounds="4"), roster=NAMES)
    summary = directory.read_summary()
    summary["transcripts"] = {"server": summary["transcripts"]["server"]}
    directory.write_json("summary.json", summary)
    return out


@pytest.fixture
def collected(kept: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(kept, tmp_path / "run"))


def test_names_are_those_of_the_roster(collected: Path) -> None:
    recorded = load(collected, ["oslo"])
    assert recorded.parties == NAMES
    assert recorded.watched == NAMES
    report = clean(audit(recorded))
    assert "missing" not in " ".join(finding.claim for finding in report.findings)
    said(report, "The clusters of 4 rounds follow from their certified seeds")
    said(report, "by 6 party transcripts and the server's")


def test_whoever_is_missing_is_named(collected: Path) -> None:
    for name in ("oslo", "west"):
        transcript(collected, name).unlink()
    report = clean(audit(load(collected)))
    assert said(report, "missing").startswith("2 transcripts missing (oslo, west): ")
    transcript(collected, "server").unlink()
    (collected / "summary.json").unlink()
    report = clean(audit(load(collected)))
    said(report, "The server's transcript is missing")
    said(report, "2 transcripts missing (oslo, west)")


def test_of_a_torn_transcript_the_rounds_that_are_lost_are_said(collected: Path) -> None:
    path = transcript(collected, "north")
    lines = path.read_bytes().splitlines(keepends=True)
    at = next(
        n for n, line in enumerate(lines) if b'"kind":"shares_released"' in line and b'"round":2' in line
    )
    path.write_bytes(b"".join(lines[:at]) + lines[at][:40])
    report = clean(audit(load(collected)))
    claim = said(report, "break off in the middle of a line: north")
    assert claim.endswith("is not checked (north from round 2 on; the run has 4 rounds).")
    # Cut at the end of a line, as by a process that was killed as it waited.
    path.write_bytes(b"".join(lines[:at]))
    claim = said(clean(audit(load(collected))), "without an orderly end: north")
    assert claim.endswith("(north from round 2 on; the run has 4 rounds).")


def test_of_a_process_that_was_started_again_only_what_lies_between_is_lost(collected: Path) -> None:
    path = transcript(collected, "north")
    lines = path.read_bytes().splitlines(keepends=True)
    at = next(
        n for n, line in enumerate(lines) if b'"kind":"clusters_drawn"' in line and b'"round":1' in line
    )
    header = json.loads(lines[0])
    path.write_bytes(b"".join(lines[:at]))
    del header["n"], header["kind"], header["prev"], header["hash"]
    with TranscriptWriter(transcript(collected, "north.2"), header) as again:
        again.append("sat_out", {"round": 2})
    claim = said(clean(audit(load(collected))), "without an orderly end: north")
    assert claim.endswith("(north from round 1 to its next start; the run has 4 rounds).")


def test_the_servers_own_transcript_is_held_to_its_summary(collected: Path) -> None:
    path = transcript(collected, "server")
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(ConfigError, match=r"server\.jsonl: ends with entry .*put back the whole file"):
        load(collected)


def test_a_stranger_is_refused_with_the_names_that_there_are(collected: Path) -> None:
    with TranscriptWriter(transcript(collected, "p00"), {"run": "test", "vantage": "p00"}):
        pass
    with pytest.raises(ConfigError, match="is of 'p00', which is not in this run \\(parties: bern, north"):
        load(collected)


def test_rosters_that_differ_are_refused_until_one_is_given(collected: Path, tmp_path: Path) -> None:
    transcript(collected, "west").unlink()
    other = {"run": "test", "vantage": "west", "parties": [*NAMES[:5], "mars"]}
    with TranscriptWriter(transcript(collected, "west"), other):
        pass
    with pytest.raises(
        ConfigError, match=r"of different rosters: bern\.jsonl and west\.jsonl .*--roster FILE"
    ):
        load(collected)
    roster, fewer = tmp_path / "roster.toml", tmp_path / "fewer.toml"
    write_roster(roster, seeded_identities(NAMES, 1)[1])
    assert load(collected, roster=roster).parties == NAMES
    write_roster(fewer, seeded_identities(NAMES[:4], 1)[1])
    with pytest.raises(ConfigError, match="names 4 parties, but the scenario has 6"):
        load(collected, roster=fewer)


def test_transcripts_that_name_nobody_need_a_roster(collected: Path, tmp_path: Path) -> None:
    """As those of earlier versions."""
    for path in (collected / "transcripts").glob("*.jsonl"):
        old = read_transcript(path)
        path.unlink()
        header = {name: value for name, value in old.header.items() if name != "parties"}
        with TranscriptWriter(path, header) as writer:
            for entry in old.entries:
                writer.append(entry.kind, entry.fields)
    (collected / "summary.json").unlink()
    with pytest.raises(ConfigError, match=r"parties: p00, p01.*give the roster of this run"):
        load(collected)
    roster = tmp_path / "roster.toml"
    write_roster(roster, seeded_identities(NAMES, 1)[1])
    clean(audit(load(collected, roster=roster)))


def test_the_names_of_a_launcher_are_not_written_down(plain: Path) -> None:
    recorded = load(plain)
    headers = [each.header for some in recorded.transcripts.values() for each in some]
    assert all("parties" not in header for header in headers)


MODES: dict[str, dict[str, str]] = {
    "plain": {},
    "momentum": {"server_optimiser__momentum": "0.9"},
    "two reclusterings": {"reclusterings": "2", "leakage__mode": '"report"'},
    "atoms": {"size": "4", "reclusterings": "2", "clustering__atoms": "2"},
    "active": {"server": "active", "size": "6", "threshold": "4", "min_survivors": "5"},
    "noise": {
        "privacy__unit": "party",
        "privacy__multiplier": "0.5",
        "privacy__delta": "0.05",
        "encoding__clip": "64.0",
        "encoding__scale_bits": "2",
    },
    "hidden": {
        "size": "6",
        "threshold": "6",
        "min_survivors": "6",
        "clustering__atoms": "6",
        "weighting__mode": "ignore",
        "groups__count": "2",
        "groups__mode": "hidden",
    },
    "crypten": {"secure_sum__kind": "crypten"},
}
WHO: dict[str, Callable[[PartyId], int | None]] = {
    "everybody": lambda _name: SMALL,
    "the server": lambda name: SMALL if name == SERVER else None,
    "the parties": lambda name: None if name == SERVER else SMALL,
    "one party": lambda name: SMALL if name == "oslo" else None,
}


@pytest.fixture(scope="module")
def baseline(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], AuditReport]:
    """What audits say of the whole run in a mode."""

    @cache
    def whole(mode: str) -> AuditReport:
        made = scenario(6, rounds="6", **MODES[mode])
        return audit(load(record(tmp_path_factory.mktemp("whole") / "run", made, roster=NAMES).path))

    return whole


def first_rounds(recorded: Recorded) -> dict[str, int]:
    return {
        name: each.round
        for name, some in recorded.transcripts.items()
        for each in some
        if each.round is not None
    }


@pytest.mark.parametrize(("mode", "who"), covering(MODES, WHO))
def test_without_its_first_rounds_an_honest_run_is_no_worse(
    mode: str, who: str, baseline: Callable[[str], AuditReport], tmp_path: Path
) -> None:
    """What was deleted is told; nothing is concluded from its absence."""
    whole = baseline(mode)
    made = scenario(6, rounds="6", **MODES[mode])
    recorded = load(record(tmp_path / "run", made, roster=NAMES, bounds=WHO[who]).path)
    rotated = {name for name in (SERVER, *NAMES) if WHO[who](name) is not None}
    begins = first_rounds(recorded)
    assert begins.keys() == rotated
    assert set(begins.values()) == {4}
    report = audit(recorded)
    claim = said(report, "without the first rounds")
    assert all(f"{name} lacks rounds 0 to 3" in claim for name in rotated)
    assert "--transcript-megabytes" in claim
    assert claims(report, Severity.BREACH) == claims(whole, Severity.BREACH)
    assert audits(report, Severity.WARNING) <= audits(whole, Severity.WARNING)
    assert report.exit_code == whole.exit_code


def test_a_missing_segment_in_between_is_a_warning(tmp_path: Path) -> None:
    directory = record(tmp_path / "run", scenario(6, rounds="8"), roster=NAMES, bounds=lambda _name: 300_000)
    path = directory.transcript_folder / "server.jsonl"
    former = former_segments(path)
    assert len(former) >= 2
    former[-1][1].unlink()
    report = clean(audit(load(directory.path)))
    claim = said(report, "Segments of the transcript server are missing")
    assert former[0][1].name in claim
    assert "Not checked: rounds 0 to" in claim
    assert claim in claims(report, Severity.WARNING)


def test_a_rotated_transcript_is_held_to_the_summary(tmp_path: Path) -> None:
    directory = record(tmp_path / "run", scenario(6, rounds="4"), bounds=lambda _name: SMALL)
    summary = directory.read_summary()
    ends = summary["transcripts"]
    whole = read_transcript(directory.transcript_folder / "p03.jsonl")
    assert ends["p03"] == {"entries": whole.length, "head": whole.head}
    ends["p03"]["head"] = "00" * 32
    RunDirectory(directory.path).write_text("summary.json", json.dumps(summary))
    with pytest.raises(ConfigError, match=rf"p03\.jsonl: ends with entry {whole.length - 1},"):
        load(directory.path)


@pytest.mark.parametrize("who", sampled(WHO, ["one party"]))
def test_the_chain_of_a_verified_run_is_followed_from_where_it_begins(who: str, tmp_path: Path) -> None:
    """The links before are not known, as to a party that came late; signatures are those of the roster."""
    names = tuple(PartyId(f"h{number:02d}") for number in range(12))
    named = {"oslo": names[3]}
    bounds = (lambda name: SMALL if name == named["oslo"] else None) if who == "one party" else WHO[who]
    made = verified(rounds="6")
    whole = record(tmp_path / "whole", made, length=16, roster=names)
    cut = record(tmp_path / "run", made, length=16, roster=names, bounds=bounds)
    first = np.zeros(16, np.float32)
    reports = [audit(load(each.path), None, Known(first=first)) for each in (whole, cut)]
    assert "without the first rounds" in " ".join(finding.claim for finding in reports[1].findings)
    assert claims(reports[1], Severity.BREACH) == claims(reports[0], Severity.BREACH) == []
    assert audits(reports[1], Severity.WARNING) <= audits(reports[0], Severity.WARNING)
    assert reports[1].exit_code == 0
