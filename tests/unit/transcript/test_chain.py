from __future__ import annotations

import errno
import json
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from securefl.base.errors import ConfigError, RunAbortedError, UsageError
from securefl.runtime.transcript.chain import EmptyTranscriptError, TranscriptWriter, read_transcript
from securefl.runtime.transcript.lines import JsonValue, canonical, parse
from tests.tiers import examples

HEADER = {"run": "r1", "vantage": "server"}


def written(path: Path, entries: int = 5, run: str = "r1") -> Path:
    with TranscriptWriter(path, {**HEADER, "run": run}) as writer:
        for index in range(entries):
            writer.append("fact", {"time": index / 4, "value": index, "names": ["p00", "p01"]})
    return path


def refusal(path: Path) -> str:
    with pytest.raises(ConfigError) as caught:
        read_transcript(path)
    assert str(path) in str(caught.value)
    return str(caught.value)


def lines(path: Path) -> list[bytes]:
    return path.read_bytes().splitlines(keepends=True)


def test_what_was_written_is_read(tmp_path: Path) -> None:
    transcript = read_transcript(written(tmp_path / "a" / "server.jsonl"))
    assert transcript.complete
    assert transcript.header == HEADER
    assert transcript.run == "r1"
    assert [entry.n for entry in transcript.entries] == [1, 2, 3, 4, 5]
    assert [entry.time for entry in transcript.entries] == [0.0, 0.25, 0.5, 0.75, 1.0]
    assert transcript.of_kind("fact")[2].fields == {"time": 0.5, "value": 2, "names": ["p00", "p01"]}
    assert transcript.of_kind("other") == ()


def test_the_head_commits_to_the_whole(tmp_path: Path) -> None:
    writer = TranscriptWriter(tmp_path / "t.jsonl", HEADER)
    writer.append("fact", {"value": 1})
    writer.close()
    writer.close()
    assert read_transcript(writer.path).head == writer.head
    other = TranscriptWriter(tmp_path / "u.jsonl", {**HEADER, "run": "r2"})
    other.append("fact", {"value": 1})
    other.close()
    assert other.head != writer.head


@pytest.mark.parametrize("line", range(7))
def test_an_altered_entry_is_named(tmp_path: Path, line: int) -> None:
    path = written(tmp_path / "t.jsonl")
    texts = lines(path)
    entry = json.loads(texts[line])
    entry["extra"] = 1
    texts[line] = canonical(entry) + b"\n"
    path.write_bytes(b"".join(texts))
    assert f"entry {line} was altered" in refusal(path)


@given(st.integers(0, 10_000), st.integers(1, 255))
@settings(max_examples=examples(150), deadline=None)
def test_no_byte_can_be_changed(tmp_path_factory: pytest.TempPathFactory, at: int, flip: int) -> None:
    path = written(tmp_path_factory.mktemp("t") / "t.jsonl", entries=2)
    raw = bytearray(path.read_bytes())
    raw[at % len(raw)] ^= flip
    path.write_bytes(raw)
    assert "entry" in refusal(path)


@pytest.mark.parametrize("line", range(6))
def test_a_removed_entry_is_noticed(tmp_path: Path, line: int) -> None:
    path = written(tmp_path / "t.jsonl")
    texts = lines(path)
    del texts[line]
    path.write_bytes(b"".join(texts))
    assert f"entry {line} does not follow" in refusal(path)


def test_reordered_entries_are_noticed(tmp_path: Path) -> None:
    path = written(tmp_path / "t.jsonl")
    texts = lines(path)
    texts[2], texts[3] = texts[3], texts[2]
    path.write_bytes(b"".join(texts))
    assert "entry 2 does not follow" in refusal(path)


def test_an_entry_of_another_run_is_noticed(tmp_path: Path) -> None:
    path, other = written(tmp_path / "t.jsonl"), written(tmp_path / "u.jsonl", run="r2")
    texts = lines(path)
    texts[3] = lines(other)[3]
    path.write_bytes(b"".join(texts))
    assert "entry 3 does not follow" in refusal(path)
    assert "another run" in refusal(path)


def test_two_transcripts_in_one_file_are_refused(tmp_path: Path) -> None:
    path, other = written(tmp_path / "t.jsonl"), written(tmp_path / "u.jsonl", run="r2")
    path.write_bytes(path.read_bytes() + other.read_bytes())
    assert "entry 7" in refusal(path)


@pytest.mark.parametrize("cut", [1, 5, 60])
def test_a_last_line_that_broke_off_is_left_out(tmp_path: Path, cut: int) -> None:
    path = written(tmp_path / "t.jsonl")
    path.write_bytes(path.read_bytes()[:-cut])
    transcript = read_transcript(path)
    assert transcript.torn
    assert not transcript.complete
    assert len(transcript.entries) == 5


def test_half_a_line_after_the_end_is_refused(tmp_path: Path) -> None:
    path = written(tmp_path / "t.jsonl")
    path.write_bytes(path.read_bytes() + b'{"kind"')
    assert "entry 7 stands after the end of the transcript" in refusal(path)


@pytest.mark.parametrize("left", [0, 1, 50])
def test_a_transcript_without_a_whole_line_is_told_from_a_broken_one(tmp_path: Path, left: int) -> None:
    path = written(tmp_path / "t.jsonl")
    path.write_bytes(path.read_bytes()[:left])
    with pytest.raises(EmptyTranscriptError, match="is empty"):
        read_transcript(path)


def test_the_header_is_there_at_once(tmp_path: Path) -> None:
    writer = TranscriptWriter(tmp_path / "t.jsonl", HEADER)
    assert read_transcript(writer.path).run == HEADER["run"]
    writer.abandon()


def test_a_header_for_which_there_is_no_room_leaves_no_file(tmp_path: Path) -> None:
    with disk_of(10), pytest.raises(RunAbortedError, match="cannot be written: File too large"):
        TranscriptWriter(tmp_path / "t.jsonl", HEADER)
    assert not list(tmp_path.iterdir())


def test_a_missing_end_is_incomplete_not_an_error(tmp_path: Path) -> None:
    path = written(tmp_path / "t.jsonl")
    path.write_bytes(b"".join(lines(path)[:-1]))
    transcript = read_transcript(path)
    assert not transcript.complete
    assert len(transcript.entries) == 5


def test_an_exception_leaves_no_end(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"

    def break_off() -> None:
        with TranscriptWriter(path, HEADER) as writer:
            writer.append("fact", {})
            raise KeyError

    with pytest.raises(KeyError):
        break_off()
    transcript = read_transcript(path)
    assert not transcript.complete
    assert len(transcript.entries) == 1


@pytest.mark.parametrize(
    "content", [b"", b"\n", b"[]\n", b"\xff\xfe\n", b'{"n":0}\n', b"[" * 100_000 + b"\n"]
)
def test_other_files_are_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "t.jsonl"
    path.write_bytes(content)
    refusal(path)


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    assert "cannot be read" in refusal(tmp_path / "t.jsonl")


def test_flush_makes_entries_readable(tmp_path: Path) -> None:
    writer = TranscriptWriter(tmp_path / "t.jsonl", HEADER)
    writer.append("fact", {})
    assert len(read_transcript(writer.path).entries) == 0
    writer.flush()
    assert len(read_transcript(writer.path).entries) == 1
    writer.abandon()


def test_an_existing_file_is_never_touched(tmp_path: Path) -> None:
    path = written(tmp_path / "t.jsonl")
    before = path.read_bytes()
    with pytest.raises(ConfigError, match="exists already"):
        TranscriptWriter(path, HEADER)
    assert path.read_bytes() == before


@pytest.mark.parametrize("entry", [{"n": 1}, {"hash": ""}, {"prev": ""}, {"kind": "x"}])
def test_reserved_fields_are_refused(tmp_path: Path, entry: dict[str, JsonValue]) -> None:
    with TranscriptWriter(tmp_path / "t.jsonl", HEADER) as writer, pytest.raises(UsageError):
        writer.append("fact", entry)


@pytest.mark.parametrize("value", [b"key", float("nan"), float("inf"), object(), {1: {2}}])
def test_what_is_no_json_is_refused_and_leaves_the_chain_whole(tmp_path: Path, value: object) -> None:
    with TranscriptWriter(tmp_path / "t.jsonl", HEADER) as writer:
        with pytest.raises(UsageError):
            writer.append("fact", {"value": value})  # type: ignore[dict-item]
        writer.append("fact", {"value": 1})
    assert read_transcript(writer.path).entries[0].fields == {"value": 1}


def test_nothing_follows_the_end(tmp_path: Path) -> None:
    writer = TranscriptWriter(tmp_path / "t.jsonl", HEADER)
    writer.close()
    with pytest.raises(UsageError):
        writer.append("fact", {})


def test_a_header_names_its_run(tmp_path: Path) -> None:
    with pytest.raises(UsageError):
        TranscriptWriter(tmp_path / "t.jsonl", {"vantage": "server"})
    assert not (tmp_path / "t.jsonl").exists()


@contextmanager
def disk_of(size: int) -> Iterator[None]:
    """Files cannot grow beyond ``size``: a write is cut short and the next one fails, as on a full disk."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_full_disk_aborts_and_keeps_whole_entries(tmp_path: Path) -> None:
    writer = TranscriptWriter(tmp_path / "t.jsonl", HEADER)
    writer.append("fact", {"value": 1})
    writer.flush()
    kept = writer.path.read_bytes()
    writer.append("fact", {"value": "x" * 1000})
    with disk_of(len(kept) + 100):
        with pytest.raises(RunAbortedError, match="cannot be written: File too large") as caught:
            writer.flush()
        assert isinstance(caught.value.__cause__, OSError)
        assert caught.value.__cause__.errno == errno.EFBIG
        with pytest.raises(RunAbortedError):
            writer.append("fact", {})
        with pytest.raises(RunAbortedError):
            writer.close()
    assert "\n" not in str(caught.value)
    assert writer.path.read_bytes() == kept
    transcript = read_transcript(writer.path)
    assert not transcript.complete
    assert [entry.fields for entry in transcript.entries] == [{"value": 1}]


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


@given(st.dictionaries(st.text(), json_values, max_size=5))
@settings(deadline=None)
def test_canonical_json_comes_back(value: dict[str, JsonValue]) -> None:
    line = canonical(value)
    assert b"\n" not in line
    assert line.isascii()
    assert parse(line) == value
    assert canonical(parse(line)) == line


@pytest.mark.parametrize(
    "line",
    [b'{"b":1,"a":2}', b'{"a": 1}', b'{"a":1,"a":1}', b'{"a":1.00}', b'{"a":NaN}', b'{"a":1}\n', b'"a"'],
)
def test_other_spellings_are_refused(line: bytes) -> None:
    with pytest.raises(ValueError, match="canonical"):
        parse(line)
