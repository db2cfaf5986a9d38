"""Lab mode: a party's encoded updates on disk."""

from dataclasses import replace
from pathlib import Path

import numpy as np

from securefl.base.arrays import I64
from securefl.base.ids import PartyId
from securefl.protocol.round import Seams, UpdateId
from securefl.runtime import transcript
from securefl.runtime.process.settings import ProcessSettings

LAB_FRAMES = "broker.frames"
"""Frames that a lab observer received, each after its length (4 bytes, little endian)."""


def upload_file(out: Path, party: PartyId, round_: int, work: int = 0) -> Path:
    """Return the file of one training's encoded update: i64 ``(d,)`` npy."""
    return out / "lab" / "uploads" / f"{party}-{round_}-{work}.npy"


def recording(seams: Seams, settings: ProcessSettings) -> Seams:
    """Return seams that also write the final encoded update to disk.

    The new ``encoded`` raises RunAbortedError if the disk is full.
    """

    def keep(values: I64, occasion: UpdateId) -> I64:
        final = seams.encoded(values, occasion)
        path = upload_file(settings.out, settings.name, occasion.round, occasion.work)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            np.save(path, final, allow_pickle=False)
        except OSError as error:
            path.unlink(missing_ok=True)
            raise transcript.disk_failure(path, error) from error
        return final

    return replace(seams, encoded=keep)
