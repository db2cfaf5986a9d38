"""Messages that processes of a verified run keep beside their transcripts, for whoever verifies it later.

A transcript has digests of messages only. Who is to check signatures needs frames as they were signed: those
of announcements, nonces, freezes, certificates and attests, and the roster. They are files of
``transcripts/frames``, each named after its SHA-256, so that what everybody is sent is there once. In the lab
models and proofs are kept, too.
"""

import hashlib
import re
from pathlib import Path
from typing import Final

from securefl.base import files
from securefl.protocol import messages, wire
from securefl.runtime.transcript import JsonValue, files_of, names_in, start_of, writing

FRAMES: Final = "frames"
"""The folder, beside the transcripts."""
_ALWAYS: Final = (
    messages.Attest,
    messages.BindingFreeze,
    messages.Certificate,
    messages.ChainedAnnounce,
    messages.Retry,
    messages.Reveals,
)
_NAMED: Final = re.compile(rb'"(?:kept|claim|roster)":"([0-9a-f]{64})"')
"""What an entry, or the first line of a transcript, names."""
_IN_THE_LAB: Final = (messages.ModelAnnounce, messages.OpeningProof, messages.StepProof)
"""As long as models."""


class FrameKeeper:
    """Keeps what came in, by content.

    Args:
        folder: of the transcripts.
        lab: whether models and proofs are kept as well.
    """

    def __init__(self, folder: Path, *, lab: bool) -> None:
        self._folder = folder / FRAMES
        self._kinds = (*_ALWAYS, *_IN_THE_LAB) if lab else _ALWAYS

    def fields_of(self, delivery: wire.Delivery) -> dict[str, JsonValue]:
        """Return what the entry of a message that came in says besides, once that is on disk.

        ``kept``: the SHA-256 of the frame as it was signed; of a message that came in parts, of the message.
        ``claim``: that of the claim that a proof is about, which is kept by itself. ``length``: parameters of
        a model.

        Raises:
            RunAbortedError: the disk is full or gone.
        """
        said, fields = delivery.message, dict[str, JsonValue]()
        if isinstance(said, self._kinds):
            fields["kept"] = self.keep(delivery.signed or wire.encode(said))
        if isinstance(said, messages.OpeningProof | messages.StepProof):
            fields["claim"] = self.keep(wire.encode(said.claim))
        if isinstance(said, messages.ModelAnnounce):
            fields["length"] = len(said.params) // 4
        return fields

    def forget(self, transcript: Path) -> None:
        """Delete what no transcript of the folder names any more, since its oldest rounds were deleted.

        Where other processes write to the folder, everything stays: they may have kept what they have not
        named yet.

        Args:
            transcript: of this process; what it has written is in the hands of the operating system.

        Raises:
            RunAbortedError: the disk is gone.
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
        """Keep this in a file, and return the name: its SHA-256, hex.

        Raises:
            RunAbortedError: the disk is full or gone.
        """
        name = hashlib.sha256(content).hexdigest()
        path = self._folder / name
        if path.exists():
            return name
        with writing(path):
            self._folder.mkdir(parents=True, exist_ok=True)
            files.write_whole(path, content)
        return name
