"""``securefl trace``: envelopes of captured frames, and nothing of payloads."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner

from securefl.base import crypto
from securefl.base.entropy import InsecureSeededEntropy
from securefl.base.ids import PartyId
from securefl.cli.app import app
from securefl.protocol import wire

SECRET = b"a payload that no output may show"


@pytest.fixture
def roster(tmp_path: Path) -> tuple[dict[PartyId, crypto.Identity], Path]:
    names = (PartyId("p00"), PartyId("p01"))
    identities, public = crypto.make_identities(names, InsecureSeededEntropy(0))
    crypto.write_roster(tmp_path / "roster.json", public)
    return identities, tmp_path / "roster.json"


@pytest.fixture
def frame(roster: tuple[dict[PartyId, crypto.Identity], Path]) -> bytes:
    header = wire.Header("run-1", 3, 0, 2, 0, "MaskedInput", "p00", "server", b"12345678", 7, 0, 1)
    return wire.seal_frame(header, SECRET, roster[0][PartyId("p00")])


def traced(*arguments: str | Path, stdin: bytes | None = None) -> tuple[int, str]:
    result = CliRunner().invoke(app, ["trace", *map(str, arguments)], input=stdin)
    assert SECRET.decode() not in result.output
    assert SECRET.hex() not in result.output
    return result.exit_code, result.output


@pytest.mark.parametrize("form", [bytes, lambda frame: f"{frame.hex()}\n".encode()], ids=["raw", "hex"])
def test_a_frame_is_decoded_up_to_its_payload(
    form: Callable[[bytes], bytes],
    frame: bytes,
    roster: tuple[dict[PartyId, crypto.Identity], Path],
    tmp_path: Path,
) -> None:
    file = tmp_path / "frame"
    file.write_bytes(form(frame))
    code, output = traced(file, "--roster", roster[1], "--json")
    assert code == 0
    (found,) = json.loads(output)["frames"]
    assert found["kind"] == "MaskedInput"
    assert (found["sender"], found["recipient"], found["round"], found["cluster"]) == ("p00", "server", 3, 2)
    assert (found["frame_bytes"], found["payload_bytes"]) == (len(frame), len(SECRET))
    assert found["signature"] == "valid"


def test_several_frames_come_from_standard_input(frame: bytes) -> None:
    code, output = traced("-", stdin=f"{frame.hex()}\n{frame.hex()}\n".encode())
    assert code == 0
    assert output.count("kind: MaskedInput") == 2
    assert output.count("signature: not checked") == 2


def test_messages_that_are_no_frames_are_counted(frame: bytes) -> None:
    code, output = traced("-", stdin=f"{b'probe'.hex()}\n{frame.hex()}\n".encode())
    assert code == 0
    assert "1 message of other kinds" in output


@pytest.mark.parametrize("place", [0, -1])
def test_a_wrong_signature_ends_with_1(
    place: int, frame: bytes, roster: tuple[dict[PartyId, crypto.Identity], Path], tmp_path: Path
) -> None:
    changed = bytearray(frame)
    changed[place] ^= 1
    (tmp_path / "frame").write_bytes(changed)
    code, output = traced(tmp_path / "frame", "--roster", roster[1])
    assert code == 1
    assert "signature: WRONG" in output


@pytest.mark.parametrize(
    ("content", "words"), [(b"", "is empty"), (b"nothing", "has no frame of securefl"), (b"ab" * 80, "is")]
)
def test_what_is_no_frame_is_refused(content: bytes, words: str, tmp_path: Path) -> None:
    (tmp_path / "frame").write_bytes(content)
    code, output = traced(tmp_path / "frame")
    assert code == 2
    assert words in output


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    code, output = traced(tmp_path / "none")
    assert (code, "cannot be read" in output) == (2, True)
