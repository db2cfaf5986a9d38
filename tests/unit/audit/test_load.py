from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from securefl.base.errors import ConfigError
from securefl.base.ids import SERVER, PartyId
from securefl.lab.audit.finding import Severity
from securefl.lab.audit.load import load, load_truth
from securefl.lab.audit.run import audit
from securefl.runtime.transcript.chain import TranscriptWriter
from tests.simulation.world import Op, scenario
from tests.unit.audit.runs import record


@pytest.fixture
def copy(plain: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(plain, tmp_path / "copy"))


def transcript(run: Path, name: str) -> Path:
    return run / "transcripts" / f"{name}.jsonl"


def test_a_run_is_read_whole(plain: Path) -> None:
    recorded = load(plain, ["p01"])
    assert recorded.run == "test"
    assert recorded.has_server
    assert len(recorded.watched) == 6
    assert recorded.colluders == {"p01"}
    assert len(recorded.records) == 2
    assert recorded.seeded
    assert recorded.seed == 1
    places: list[Any] = [e.fields["place"] for e, _ in recorded.messages(SERVER, "sent", "ModelAnnounce")]
    assert [place[0] for place in places] == [0, 1]


def unended(run: Path, *names: str) -> None:
    """As if these processes had been killed: the summary knows of no end of theirs."""
    summary = json.loads((run / "summary.json").read_text())
    for name in names:
        del summary["transcripts"][name]
    (run / "summary.json").write_text(json.dumps(summary))


def test_torn_and_empty_transcripts_leave_gaps_and_the_rest_is_audited(copy: Path) -> None:
    torn, empty, mere = (transcript(copy, name) for name in ("p02", "p04", "p05"))
    raw = torn.read_bytes()
    torn.write_bytes(raw[:-40])
    empty.write_bytes(b"")
    mere.write_bytes(mere.read_bytes()[:30])
    unended(copy, "p02", "p04", "p05")
    recorded = load(copy)
    assert recorded.blank == ("p04", "p05")
    assert len(recorded.watched) == 4
    report = audit(recorded)
    claims = {finding.claim: finding for finding in report.findings}
    (broken,) = [claims[claim] for claim in claims if "break off in the middle of a line: p02" in claim]
    assert [(one.source, one.entry) for one in broken.evidence] == [("p02", raw.count(b"\n") - 1)]
    (gone,) = [claims[claim] for claim in claims if "without a complete entry: p04, p05" in claim]
    assert {broken.severity, gone.severity} == {Severity.NOTE}
    assert report.exit_code == 0
    assert (
        "transcripts",
        "5, all hash chains valid, 4 complete; 2 more are empty",
    ) in report.facts
    assert not [claim for claim in claims if "missing" in claim or "orderly end" in claim]


def test_the_servers_own_transcript_may_be_torn_or_empty(copy: Path) -> None:
    unended(copy, "server")
    path = transcript(copy, "server")
    raw = path.read_bytes()
    for left in (raw[: len(raw) // 2], b""):
        path.write_bytes(left)
        assert any("server" in finding.claim for finding in audit(load(copy)).findings)


def test_what_ended_in_good_order_and_is_torn_or_empty_now_is_refused(copy: Path) -> None:
    path = transcript(copy, "p02")
    raw = path.read_bytes()
    path.write_bytes(raw[:-1])
    with pytest.raises(ConfigError, match=r"p02\.jsonl: ends with entry .*cut or replaced after the run"):
        load(copy)
    path.write_bytes(b"")
    with pytest.raises(ConfigError, match=r"is empty, but summary\.json states 46 entries"):
        load(copy)


def test_an_empty_transcript_of_nobody_is_refused(copy: Path) -> None:
    transcript(copy, "stranger").write_bytes(b"")
    with pytest.raises(ConfigError, match=r"stranger\.jsonl: is empty, and its name is of no process"):
        load(copy)


def test_evidence_of_a_second_start_is_named_by_its_file(copy: Path) -> None:
    path = transcript(copy, "p02")
    path.replace(path.with_name("p02.2.jsonl"))
    path.write_bytes(b"")
    unended(copy, "p02")
    sources = {evidence.source for _, evidence in load(copy).of("p02", "sent")}
    assert sources == {"p02.2"}


def test_an_altered_transcript_is_named_with_its_entry(copy: Path) -> None:
    path = transcript(copy, "server")
    lines = path.read_bytes().split(b"\n")
    number = next(n for n, line in enumerate(lines) if b'"kind":"survivors_frozen"' in line)
    lines[number] = lines[number].replace(b'"p05"', b'"p04"')
    path.write_bytes(b"\n".join(lines))
    with pytest.raises(ConfigError, match=rf"server\.jsonl: entry {number} was altered"):
        load(copy)


def test_a_removed_entry_is_named(copy: Path) -> None:
    path = transcript(copy, "p00")
    lines = path.read_bytes().split(b"\n")
    path.write_bytes(b"\n".join(lines[:5] + lines[6:]))
    with pytest.raises(ConfigError, match=r"p00\.jsonl: entry 5 does not follow"):
        load(copy)


@pytest.mark.parametrize("missing", [1, 3])
def test_entries_cut_off_the_end_are_noticed(copy: Path, missing: int) -> None:
    """The chain of what is left holds."""
    path = transcript(copy, "p03")
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:-missing]))
    last = len(lines) - missing - 1
    with pytest.raises(ConfigError, match=rf"p03\.jsonl: ends with entry {last}, .*{len(lines)} entries"):
        load(copy)
    (copy / "summary.json").write_text('{"transcripts": {"p03": 1}}')
    with pytest.raises(ConfigError, match="its field transcripts is not a table"):
        load(copy)


def test_a_process_that_left_no_end_is_read_as_far_as_it_goes(tmp_path: Path) -> None:
    stopped = Op("crash", PartyId("p02"), "MaskedInput")
    record(tmp_path / "run", scenario(6, min_survivors="2", deadlines__training="9"), ops=(stopped,))
    stated = json.loads((tmp_path / "run" / "summary.json").read_text())["transcripts"]
    recorded = load(tmp_path / "run")
    ended = {t.path.stem: t.head for ts in recorded.transcripts.values() for t in ts if t.complete}
    assert {name: end["head"] for name, end in stated.items()} == ended
    assert "p02" in recorded.watched
    assert "p02" not in ended


def test_transcripts_of_different_runs_are_refused(copy: Path) -> None:
    transcript(copy, "p03").unlink()
    with TranscriptWriter(transcript(copy, "p03"), {"run": "another", "vantage": "p03"}):
        pass
    with pytest.raises(ConfigError, match="different runs: 'another', 'test'"):
        load(copy)


def test_a_summary_of_another_run_is_refused(copy: Path) -> None:
    summary = json.loads((copy / "summary.json").read_text())
    (copy / "summary.json").write_text(json.dumps({**summary, "run": "another"}))
    with pytest.raises(ConfigError, match="is of run another, but the transcripts are of test"):
        load(copy)


def test_a_transcript_under_another_name_is_refused(copy: Path) -> None:
    transcript(copy, "p03").replace(transcript(copy, "p02"))
    with pytest.raises(ConfigError, match=r"is the transcript of p03 \(restore its name"):
        load(copy)


@pytest.mark.parametrize(
    ("colluders", "reason"),
    [(["p01", "p99"], "'p99' is not a party"), ([f"p0{k}" for k in range(6)], "names all parties")],
)
def test_colluders_that_make_no_sense_are_refused(plain: Path, colluders: list[str], reason: str) -> None:
    with pytest.raises(ConfigError, match=reason):
        load(plain, colluders)


def test_no_reclustering_at_all_is_refused_by_name(copy: Path) -> None:
    path = copy / "scenario.toml"
    path.write_text(path.read_text().replace("reclusterings = 1", "reclusterings = 0"))
    with pytest.raises(ConfigError, match=r"clustering\.reclusterings"):
        load(copy)


def test_a_directory_without_a_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"is not the directory of a run: scenario\.toml is missing"):
        load(tmp_path)


def test_a_run_without_transcripts_is_refused(copy: Path) -> None:
    shutil.rmtree(copy / "transcripts")
    with pytest.raises(ConfigError, match="contains no transcript"):
        load(copy)


def test_ground_truth_is_refused_without_lab_mode(tmp_path: Path) -> None:
    record(tmp_path / "run", scenario(3))
    recorded = load(tmp_path / "run")
    with pytest.raises(ConfigError, match=r"kept no updates.*securefl run --lab"):
        load_truth(tmp_path / "run", recorded)
    (tmp_path / "run" / "lab").mkdir()
    with pytest.raises(ConfigError, match="of another run"):
        load_truth(tmp_path / "run", recorded)


def test_ground_truth_is_what_the_parties_encoded(plain: Path) -> None:
    truth = load_truth(plain, load(plain))
    update = truth.upload(load(plain).parties[0], 0)
    assert update is not None
    assert update.shape == (64,)
    assert truth.upload(load(plain).parties[0], 7) is None
    kept = min(truth.folder.glob("*.npy"))
    assert truth.vector(kept.stem) is not None
    assert truth.vector("00" * 32) is None


@pytest.mark.parametrize(
    ("kind", "fields", "reason"),
    [
        (
            "shares_released",
            {"round": 0, "instances": [[0, 0]], "attempts": [0, 1]},
            "each instance needs one entry",
        ),
        ("clusters_drawn", {"round": 0, "assignment_digest": "", "clusters": [["p00"]]}, "clusters"),
        ("survivors_frozen", {"round": "0", "survivors": []}, "round"),
        ("received", {"message": "Hello", "place": [0, 0, 0, 0], "from": "server"}, "digest"),
    ],
)
def test_a_writer_that_made_something_up_is_refused(
    copy: Path, kind: str, fields: dict[str, Any], reason: str
) -> None:
    """The chain holds: whoever writes a transcript can write anything into it."""
    transcript(copy, "p03").unlink()
    with TranscriptWriter(transcript(copy, "p03"), {"run": "test", "vantage": "p03"}) as writer:
        writer.append(kind, fields)
    with pytest.raises(ConfigError, match=rf"p03\.jsonl: entry 1 is not a valid {kind}: .*{reason}"):
        load(copy)
