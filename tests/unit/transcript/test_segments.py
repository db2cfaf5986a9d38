"""Transcripts in several files: one chain, a bound that is kept, and gaps that are told."""

from __future__ import annotations

import shutil
from itertools import pairwise
from pathlib import Path

import pytest

from securefl.base.errors import ConfigError, RunAbortedError
from securefl.runtime.transcript.chain import Transcript, TranscriptWriter, read_transcript
from securefl.runtime.transcript.ends import check_ends, ends_in
from securefl.runtime.transcript.segments import former_path, former_segments, names_in
from tests.unit.transcript.test_chain import HEADER, disk_of, lines

ROUND = 10
"""Entries of a round, of about 220 bytes each."""
BOUND = 24_000


def write(path: Path, rounds: int, bound: int | None = BOUND, first: int = 0) -> Path:
    with TranscriptWriter(path, HEADER, bound) as writer:
        for round_ in range(first, first + rounds):
            writer.begin_round(round_)
            for step in range(ROUND):
                writer.append("fact", {"round": round_, "step": step, "noise": "x" * 50})
    return path


def rounds(transcript: Transcript) -> list[int]:
    return sorted({int(str(entry.fields["round"])) for entry in transcript.entries})


def size_of(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.rglob("*.jsonl"))


def refusal(path: Path) -> str:
    with pytest.raises(ConfigError) as caught:
        read_transcript(path)
    return str(caught.value)


def test_one_chain_in_several_files_is_the_transcript_of_one(tmp_path: Path) -> None:
    """A bound that nothing reaches deletes nothing, but divides."""
    path = write(tmp_path / "server.jsonl", 12, bound=80_000)
    whole = read_transcript(write(tmp_path / "one.jsonl", 12, bound=None))
    assert len(former_segments(path)) == 2
    transcript = read_transcript(path)
    assert (transcript.first, transcript.round, transcript.apart) == (0, None, ())
    assert transcript.header == whole.header == HEADER
    assert [entry.fields for entry in transcript.entries] == [entry.fields for entry in whole.entries]
    assert transcript.complete
    # Each later file begins with a line of its own, which takes a number.
    assert transcript.length == whole.length + 2
    numbers = [entry.n for entry in transcript.entries]
    assert numbers == sorted(set(numbers))


def test_the_first_line_of_a_segment_names_the_last_hash_of_the_one_before(tmp_path: Path) -> None:
    path = write(tmp_path / "server.jsonl", 12, bound=80_000)
    files = [*(file for _, file in former_segments(path)), path]
    for before, after in pairwise(files):
        last = lines(before)[-1].split(b'"hash":"')[1][:64]
        assert b'"prev":"' + last + b'"' in lines(after)[0]
        assert b'"kind":"segment"' in lines(after)[0]


def test_the_bound_is_kept_and_the_latest_rounds_stay_whole(tmp_path: Path) -> None:
    path = tmp_path / "server.jsonl"
    with TranscriptWriter(path, HEADER, BOUND) as writer:
        for round_ in range(100):
            writer.begin_round(round_)
            for step in range(ROUND):
                writer.append("fact", {"round": round_, "step": step, "noise": "x" * 50})
            writer.flush()
            assert size_of(tmp_path) <= BOUND
    transcript = read_transcript(path)
    assert transcript.complete
    assert transcript.first > 0
    assert transcript.round is not None
    assert rounds(transcript) == list(range(transcript.round, 100))
    assert len(transcript.entries) == ROUND * (100 - transcript.round)
    assert transcript.length == transcript.entries[-1].n + 2
    assert size_of(tmp_path) > BOUND // 2


def test_without_a_bound_nothing_is_divided(tmp_path: Path) -> None:
    path = write(tmp_path / "server.jsonl", 100, bound=None)
    assert [*tmp_path.iterdir()] == [path]


def test_a_round_is_never_split(tmp_path: Path) -> None:
    """Of rounds beyond the bound the last whole one stays, and the one that is being written."""
    path = write(tmp_path / "server.jsonl", 5, bound=1000)
    transcript = read_transcript(path)
    assert rounds(transcript) == [3, 4]
    assert len(transcript.entries) == 2 * ROUND


def test_earlier_starts_count_for_the_bound_and_go_first(tmp_path: Path) -> None:
    write(tmp_path / "server.jsonl", 4)
    write(tmp_path / "north.jsonl", 4)
    left = [file.read_bytes() for file in sorted(tmp_path.rglob("north*"))]
    second = write(tmp_path / "server.2.jsonl", 12, first=4)
    assert size_of(tmp_path) - sum(map(len, left)) <= BOUND
    assert "server" not in names_in(tmp_path)
    assert rounds(read_transcript(second))[-1] == 15
    assert [file.read_bytes() for file in sorted(tmp_path.rglob("north*"))] == left


def test_the_end_of_a_transcript_is_that_of_its_last_segment(tmp_path: Path) -> None:
    path = write(tmp_path / "server.jsonl", 30)
    stated = ends_in(tmp_path)
    transcript = read_transcript(path)
    assert stated == {"server": {"entries": transcript.length, "head": transcript.head}}
    check_ends(stated, {"server": transcript})
    *whole, _ = lines(path)
    path.write_bytes(b"".join(whole))
    with pytest.raises(
        ConfigError, match=f"ends with entry {transcript.length - 2}, .*{transcript.length} e"
    ):
        check_ends(stated, {"server": read_transcript(path)})


@pytest.mark.parametrize("which", [0, 1])
def test_an_altered_entry_of_any_segment_is_named(which: int, tmp_path: Path) -> None:
    path = write(tmp_path / "server.jsonl", 12, bound=80_000)
    file = former_segments(path)[which][1]
    content = lines(file)
    entry = int(content[7].split(b'"n":')[1].split(b",")[0])
    content[7] = content[7].replace(b'"step":', b'"stap":')
    file.write_bytes(b"".join(content))
    assert f"{file}: entry {entry} was altered" in refusal(path)


def test_a_missing_segment_leaves_those_before_it_apart(tmp_path: Path) -> None:
    path = write(tmp_path / "server.jsonl", 40, bound=200_000)
    numbers = [number for number, _ in former_segments(path)]
    assert numbers == [1, 2, 3]
    former_path(path, 3).unlink()
    transcript = read_transcript(path)
    assert transcript.apart == ("server.0001.jsonl", "server.0002.jsonl")
    assert rounds(transcript) == list(range(int(str(transcript.round)), 40))
    assert transcript.complete


def test_a_segment_that_was_cut_is_missing_with_all_before_it(tmp_path: Path) -> None:
    path = write(tmp_path / "server.jsonl", 20, bound=80_000)
    file = former_path(path, 2)
    raw = file.read_bytes()
    for cut in (raw[:-30], b"".join(lines(file)[:-1])):
        file.write_bytes(cut)
        transcript = read_transcript(path)
        assert transcript.apart == ("server.0001.jsonl", "server.0002.jsonl")
        assert transcript.first > 0


def test_segments_of_another_run_do_not_pass_as_ones_before(tmp_path: Path) -> None:
    path = write(tmp_path / "a" / "server.jsonl", 12, bound=80_000)
    with TranscriptWriter(tmp_path / "b" / "server.jsonl", {**HEADER, "run": "r2"}, 80_000) as other:
        for round_ in range(12):
            other.begin_round(round_)
            for step in range(ROUND):
                other.append("fact", {"round": round_, "step": step, "noise": "x" * 50})
    shutil.copy(former_path(tmp_path / "b" / "server.jsonl", 2), former_path(path, 2))
    transcript = read_transcript(path)
    assert transcript.apart == ("server.0001.jsonl", "server.0002.jsonl")
    assert transcript.run == "r1"


@pytest.mark.parametrize("left", [None, b"", b'{"half'])
def test_a_process_that_is_killed_between_two_files_leaves_what_was_before(
    left: bytes | None, tmp_path: Path
) -> None:
    path = write(tmp_path / "server.jsonl", 12, bound=80_000)
    path.unlink()
    if left is not None:
        path.write_bytes(left)
    assert names_in(tmp_path) == ("server",)
    transcript = read_transcript(path)
    assert transcript.first == 0
    assert (transcript.complete, transcript.torn) == (False, left is not None)
    assert rounds(transcript)[0] == 0


def test_a_full_disk_in_between_aborts_in_one_line(tmp_path: Path) -> None:
    writer = TranscriptWriter(tmp_path / "server.jsonl", HEADER, 1000)
    writer.append("fact", {"noise": "x" * 1000})
    writer.flush()
    with disk_of(50), pytest.raises(RunAbortedError, match="cannot be written: File too large"):
        writer.begin_round(1)
    transcript = read_transcript(writer.path)
    assert [entry.kind for entry in transcript.entries] == ["fact"]


def test_a_folder_in_the_way_aborts_in_one_line(tmp_path: Path) -> None:
    writer = TranscriptWriter(tmp_path / "server.jsonl", HEADER, 1000)
    writer.append("fact", {"noise": "x" * 1000})
    (tmp_path / "segments").write_text("mine")
    with pytest.raises(RunAbortedError, match="cannot be written"):
        writer.begin_round(1)


def test_a_first_line_that_was_made_a_segments_is_noticed(tmp_path: Path) -> None:
    """Who would hide the beginning has to change the hash of what is left."""
    path = write(tmp_path / "server.jsonl", 2, bound=None)
    content = lines(path)
    path.write_bytes(b"".join(content[5:]))
    assert "does not follow the entry before" in refusal(path)
    content[5] = content[5].replace(b'"kind":"fact"', b'"kind":"segment"')
    path.write_bytes(b"".join(content[5:]))
    assert "was altered" in refusal(path)
