"""Lab mode: a party's encoded updates on disk, for audits and tests of exactness."""

from dataclasses import replace
from pathlib import Path

import numpy as np

from securefl.base.arrays import I64
from securefl.base.ids import PartyId
from securefl.protocol.round import Seams, UpdateId
from securefl.runtime import transcript
from securefl.runtime.process.settings import ProcessSettings

LAB_FRAMES = "broker.frames"
"""Frames that an observer in lab mode received, each after its length as 4 bytes in little endian."""


def upload_file(out: Path, party: PartyId, round_: int, work: int = 0) -> Path:
    """Return the file of the encoded update of one local training of ``party``: i64 ``(d,)`` npy."""
    return out / "lab" / "uploads" / f"{party}-{round_}-{work}.npy"


def recording(seams: Seams, settings: ProcessSettings) -> Seams:
    """Return the same seams, which also write the final encoded update to disk.

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
