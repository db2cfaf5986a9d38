"""Messages that processes of a verified run keep beside their transcripts (ADR 0044).

Transcripts have only digests; checking signatures needs signed frames and the roster. They are files of
``transcripts/frames`` named after their SHA-256, a broadcast once. The lab also keeps models and proofs.
"""

import hashlib
import re
from pathlib import Path
from typing import Final

from securefl.base import files
from securefl.protocol import messages, wire
from securefl.runtime.transcript import JsonValue, files_of, names_in, start_of, writing

FRAMES: Final = "frames"
_ALWAYS: Final = (
    messages.Attest,
    messages.BindingFreeze,
    messages.Certificate,
    messages.ChainedAnnounce,
    messages.Retry,
    messages.Reveals,
)
_NAMED: Final = re.compile(rb'"(?:kept|claim|roster)":"([0-9a-f]{64})"')
_IN_THE_LAB: Final = (messages.ModelAnnounce, messages.OpeningProof, messages.StepProof)


class FrameKeeper:
    """Store of received messages, by content. Methods raise RunAbortedError if a write fails."""

    def __init__(self, folder: Path, *, lab: bool) -> None:
        self._folder = folder / FRAMES
        self._kinds = (*_ALWAYS, *_IN_THE_LAB) if lab else _ALWAYS

    def fields_of(self, delivery: wire.Delivery) -> dict[str, JsonValue]:
        """Store a received message; return additional fields of its entry.

        ``kept``: SHA-256 of the signed frame, or of a message that arrived in parts. ``claim``: SHA-256 of a
        proof's claim, stored separately. ``length``: parameters of a model.
        """
        message, fields = delivery.message, dict[str, JsonValue]()
        if isinstance(message, self._kinds):
            fields["kept"] = self.keep(delivery.signed or wire.encode(message))
        if isinstance(message, messages.OpeningProof | messages.StepProof):
            fields["claim"] = self.keep(wire.encode(message.claim))
        if isinstance(message, messages.ModelAnnounce):
            fields["length"] = len(message.params) // 4
        return fields

    def forget(self, transcript: Path) -> None:
        """Delete messages without a reference, after this process's oldest rounds were deleted.

        Nothing is deleted if other processes write to the folder: their entries may follow later.
        ``transcript`` must be flushed.
        """
        vantage = start_of(transcript.stem)[0]
        names = names_in(transcript.parent)
        if any(start_of(name)[0] != vantage for name in names) or not self._folder.is_dir():
            return
        named: set[bytes] = set()
        with writing(self._folder):
            for name in names:
                for file in files_of(transcript.with_name(f"{name}.jsonl")):
                    named.update(_NAMED.findall(file.read_bytes()))
            for path in self._folder.iterdir():
                if path.name.encode() not in named:
                    path.unlink()

    def keep(self, content: bytes) -> str:
        """Store the content in a file; return its name, the SHA-256 in hex."""
        name = hashlib.sha256(content).hexdigest()
        path = self._folder / name
        if path.exists():
            return name
        with writing(path):
            self._folder.mkdir(parents=True, exist_ok=True)
            files.write_whole(path, content)
        return name
