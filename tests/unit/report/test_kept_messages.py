"""What a process of a verified run keeps beside its transcript."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from securefl.base.errors import RunAbortedError
from securefl.base.ids import SERVER
from securefl.protocol.kernel.events import Place
from securefl.protocol.messages.rounds import Certificate, ModelAnnounce
from securefl.protocol.messages.union import AnyMessage
from securefl.protocol.messages.verification import RoundClaim, StepProof
from securefl.protocol.wire.codec import encode
from securefl.protocol.wire.inbox import Delivery
from securefl.runtime.report.kept_messages import FRAMES, FrameKeeper
from securefl.runtime.transcript.chain import TranscriptWriter

CLAIM = RoundClaim(
    round=0, previous=bytes(32), statement=bytes(32), sums=(), state=bytes(32), model=bytes(32)
)
PROOF = StepProof(claim=CLAIM, signature=bytes(64), sealed=b"sealed")
MODEL = ModelAnnounce(params=bytes(12))


def came(message: AnyMessage, signed: bytes = b"") -> Delivery:
    return Delivery(SERVER, Place(0), message, signed)


def digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def there(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in (folder / FRAMES).glob("*")}


def test_a_frame_is_kept_as_it_was_signed_and_once(tmp_path: Path) -> None:
    for _ in range(2):
        keeper = FrameKeeper(tmp_path, lab=False)
        fields = keeper.fields_of(came(Certificate(endorsements=()), b"the frame"))
        assert fields == {"kept": digest(b"the frame")}
    assert there(tmp_path) == {digest(b"the frame"): b"the frame"}


def test_of_a_message_in_parts_the_message_is_kept(tmp_path: Path) -> None:
    message = Certificate(endorsements=(b"one",))
    assert FrameKeeper(tmp_path, lab=False).fields_of(came(message)) == {"kept": digest(encode(message))}


def test_models_and_proofs_are_kept_in_the_lab_only(tmp_path: Path) -> None:
    """Elsewhere the claim that a proof is about, and how long the model is."""
    claim = digest(encode(CLAIM))
    keeper = FrameKeeper(tmp_path, lab=False)
    assert keeper.fields_of(came(PROOF, b"a proof")) == {"claim": claim}
    assert keeper.fields_of(came(MODEL, b"a model")) == {"length": 3}
    assert set(there(tmp_path)) == {claim}
    lab = FrameKeeper(tmp_path, lab=True)
    assert lab.fields_of(came(PROOF, b"a proof")) == {"kept": digest(b"a proof"), "claim": claim}
    assert lab.fields_of(came(MODEL, b"a model")) == {"kept": digest(b"a model"), "length": 3}


def test_a_disk_that_takes_nothing_ends_the_run(tmp_path: Path) -> None:
    (tmp_path / FRAMES).write_text("a file is in the way")
    with pytest.raises(RunAbortedError, match="cannot be written"):
        FrameKeeper(tmp_path, lab=False).fields_of(came(Certificate(endorsements=()), b"the frame"))


def named_by(folder: Path, name: str, *contents: bytes) -> Path:
    """A transcript whose entries name frames that are there."""
    path = folder / f"{name}.jsonl"
    with TranscriptWriter(path, {"run": "r1", "roster": digest(b"the roster")}) as writer:
        for number, content in enumerate(contents):
            writer.append("received", {"kept" if number % 2 else "claim": digest(content)})
    return path


def test_what_only_deleted_rounds_named_is_forgotten(tmp_path: Path) -> None:
    keeper = FrameKeeper(tmp_path, lab=False)
    kept = (b"the roster", b"one", b"two", b"three")
    for content in (*kept, b"of a deleted round"):
        keeper.keep(content)
    first = named_by(tmp_path, "north", b"one", b"two")
    second = named_by(tmp_path, "north.2", b"three")
    keeper.forget(second)
    assert set(there(tmp_path)) == set(map(digest, kept))
    first.unlink()
    keeper.forget(second)
    assert set(there(tmp_path)) == {digest(b"the roster"), digest(b"three")}


def test_where_others_write_too_nothing_is_forgotten(tmp_path: Path) -> None:
    """They may have kept what their transcripts do not name yet."""
    keeper = FrameKeeper(tmp_path, lab=False)
    keeper.keep(b"of somebody")
    named_by(tmp_path, "south")
    keeper.forget(named_by(tmp_path, "north", b"one"))
    assert set(there(tmp_path)) == {digest(b"of somebody")}


def test_without_frames_there_is_nothing_to_forget(tmp_path: Path) -> None:
    FrameKeeper(tmp_path, lab=False).forget(named_by(tmp_path, "north"))
    assert not (tmp_path / FRAMES).exists()
