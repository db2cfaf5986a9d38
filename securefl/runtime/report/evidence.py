"""Evidence on disk: signed values that a process refused, for ``securefl verify`` (ADR 0044, Evidence).

``evidence/<digest>.charge``, beside the transcripts of the process. It may hold all secrets that opened a
cluster's sum, so that only its owner can read it: to show it is to show the sum.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Final

from securefl.base import crypto
from securefl.base.errors import ConfigError
from securefl.protocol.round import Charge, charge_from
from securefl.runtime import transcript

EVIDENCE: Final = "evidence"
"""The folder, beside ``transcripts``."""
_SUFFIX: Final = ".charge"


def keep_evidence(out: Path, charge: bytes) -> Path:
    """Write an encoded charge to a file of its own, atomically and for the owner only; return the file.

    Raises:
        RunAbortedError: it cannot be written.
    """
    path = out / EVIDENCE / (crypto.digest("charge", charge).hex()[:32] + _SUFFIX)
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        # Parties of one run may find the same lie at the same time, and all write it into one folder.
        descriptor, fresh = tempfile.mkstemp(suffix=".tmp", dir=path.parent)
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(charge)
                file.flush()
                os.fsync(file.fileno())
        except BaseException:
            Path(fresh).unlink()
            raise
        Path(fresh).replace(path)
    except OSError as error:
        raise transcript.disk_failure(path, error) from error
    return path


def load_evidence(path: Path) -> Charge:
    """Return the charge of a file (:mod:`securefl.protocol.round.shared.blame` says whom it convicts).

    Raises:
        ConfigError: it cannot be read, or holds no charge.
    """
    try:
        return charge_from(path.read_bytes())
    except OSError as error:
        raise ConfigError(str(path), f"cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise ConfigError(str(path), "holds no charge", "a file of the folder evidence/") from error
