"""What one run with ``--lab --observe --json`` leaves behind, for people, programs and audits."""

from __future__ import annotations

import struct
from collections.abc import Iterator

import pytest

from securefl.lab.audit.finding import Severity
from securefl.lab.audit.load import load, load_truth
from securefl.lab.audit.run import audit
from securefl.runtime.process.ground_truth import LAB_FRAMES
from tests.live.federated import Run, assert_sums_are_exact, events, run_program
from tests.live.scenarios import write_scenario
from tests.recorded.masks import judge_masks
from tests.recorded.restepping import restepped

pytestmark = pytest.mark.live

PARTIES = [f"p0{index}" for index in range(6)]
ROUNDS = 2


@pytest.fixture(scope="module")
def ended(tmp_path_factory: pytest.TempPathFactory) -> Run:
    folder = tmp_path_factory.mktemp("recorded")
    # Seeded: the tests of masks take at most one honest run in a thousand for no noise.
    seeded = ("--insecure-seeded-entropy", "--seed", "7")
    return run_program(write_scenario(folder, rounds=ROUNDS), folder / "run", "--lab", "--observe", *seeded)


def test_the_broker_carries_no_update_in_clear(ended: Run) -> None:
    """No 4 numbers of any encoded update, in any integer or real form, occur in any frame."""
    assert ended.exit_code == 0, ended.stderr
    frames = (ended.directory.path / "lab" / LAB_FRAMES).read_bytes()
    assert len(frames) > 50_000
    pieces = [piece for piece, _ in windows(ended)]
    assert len(pieces) > 100
    assert not [piece for piece in pieces if piece in frames]


def test_the_run_directory_without_its_lab_holds_no_update(ended: Run) -> None:
    """Nor do transcripts, metrics, summary, journals and model, as bytes, in hexadecimal or as decimals."""
    lab = ended.directory.path / "lab"
    files = [f for f in ended.directory.path.rglob("*") if f.is_file() and lab not in f.parents]
    assert {"metrics.jsonl", "summary.json", "model.safetensors", "server.jsonl"} <= {f.name for f in files}
    written = b"\n".join(f.read_bytes() for f in files)
    text = written.replace(b" ", b"").lower()
    checked = 0
    for piece, values in windows(ended):
        decimals = ",".join(str(v) for v in values).encode()
        assert piece not in written
        assert piece.hex().encode() not in text
        assert len(decimals) < 16 or decimals not in text
        checked += 1
    assert checked > 100


def windows(ended: Run) -> Iterator[tuple[bytes, list[int]]]:
    """Pieces of all encoded updates that are too long for chance, in three forms, and their numbers."""
    for round_ in range(ROUNDS):
        for party in PARTIES:
            values = ended.upload(party, round_)
            for word in ("<u4", "<i8", "<f4"):
                for start in range(0, values.size - 4, values.size // 20):
                    some = values[start : start + 4]
                    piece = some.astype(word).tobytes()
                    if len(set(piece)) >= 8:
                        yield piece, some.tolist()


def test_the_sums_are_exact(ended: Run) -> None:
    assert assert_sums_are_exact(ended) == 2 * ROUNDS


def test_the_json_stream_ends_with_the_summary(ended: Run) -> None:
    lines = events(ended.stdout)
    assert lines[0]["event"] == "start"
    assert lines[-1]["event"] == "summary"
    assert lines[-1]["exit_code"] == ended.exit_code == 0


def test_all_transcripts_are_complete_and_chained(ended: Run) -> None:
    transcripts = ended.directory.read_transcripts()
    assert set(transcripts) == {"server", "observer", *PARTIES}
    assert all(t.complete for t in transcripts.values())
    for party in PARTIES:
        assert len(transcripts[party].of_kind("shares_released")) == ROUNDS


def test_the_machines_of_its_processes_are_repeated_from_the_seed(ended: Run) -> None:
    recorded = load(ended.directory.path)
    truth = load_truth(ended.directory.path, recorded)
    found = [*restepped(recorded, truth), *judge_masks(recorded, truth)]
    assert {one.severity for one in found} == {Severity.HOLDS}, [one.claim for one in found]
    assert found[0].claim.startswith(f"{len(PARTIES) + 1} machines (server, p00")


def test_the_observer_kept_every_frame(ended: Run) -> None:
    raw = (ended.directory.path / "lab" / LAB_FRAMES).read_bytes()
    position = count = 0
    while position < len(raw):
        (length,) = struct.unpack_from("<I", raw, position)
        position += 4 + length
        count += 1
    assert position == len(raw)
    assert count == len(ended.transcript("observer").of_kind("frame"))


def test_the_audit_of_an_honest_run_finds_nothing(ended: Run) -> None:
    recorded = load(ended.directory.path)
    report = audit(recorded, load_truth(ended.directory.path, recorded))
    assert [finding for finding in report.findings if finding.severity >= Severity.WARNING] == []
    assert {chapter.audit for chapter in report.chapters} >= {
        "exposure",
        "views",
        "unmasking",
        "budget",
        "replay",
        "reconstruction",
    }
