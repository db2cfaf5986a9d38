"""Both sides of the sizes at which lines are buffered, and at which ends of transcripts are read."""

from __future__ import annotations

from pathlib import Path

import pytest

from securefl.runtime.transcript import ends, lines
from securefl.runtime.transcript.chain import TranscriptWriter, read_transcript
from securefl.runtime.transcript.ends import check_ends, ends_in
from securefl.runtime.transcript.lines import LineFile


@pytest.mark.parametrize("beside", [-2, -1, 0, 1])
def test_lines_beside_the_size_of_the_buffer(beside: int, tmp_path: Path) -> None:
    size = lines._BUFFER + beside
    with LineFile(tmp_path / "lines") as file:
        file.write(b"x" * (size - 1))
        assert (tmp_path / "lines").stat().st_size == (size if beside >= 0 else 0)
        assert file.size == size
        file.write(b"last")
    assert (tmp_path / "lines").read_bytes() == b"x" * (size - 1) + b"\nlast\n"


def written(path: Path, padding: int) -> int:
    with TranscriptWriter(path, {"run": "r1"}) as writer:
        writer.append("note", {"text": "x" * padding})
    return path.stat().st_size


@pytest.mark.parametrize("beside", [-1, 0, 1, 4096])
def test_ends_of_transcripts_beside_the_part_that_is_read(beside: int, tmp_path: Path) -> None:
    """An end that is not found would let a transcript be cut unnoticed."""
    least = written(tmp_path / "least.jsonl", 0)
    path = tmp_path / "whole" / "p00.jsonl"
    path.parent.mkdir()
    assert written(path, ends._TAIL + beside - least) == ends._TAIL + beside
    found = ends_in(path.parent)
    whole = read_transcript(path)
    assert found == {"p00": {"entries": whole.length, "head": whole.head}}
    check_ends(found, {"p00": whole})
