"""Ground truth of a run with ``--lab``, read on demand."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from securefl.base.arrays import I64, digest_of
from securefl.base.errors import ConfigError
from securefl.base.ids import PartyId
from securefl.runtime import process


@dataclass(frozen=True, slots=True)
class GroundTruth:
    """Encoded updates and whole vectors in folder ``lab`` of a run directory."""

    folder: Path

    def upload(self, party: PartyId, round_: int, work: int = 0) -> I64 | None:
        """Return a party's encoded update with noise, i64 ``(d,)``, if kept.

        Raises:
            ConfigError: the file is not such a vector.
        """
        path = process.upload_file(self.folder.parent, party, round_, work)
        if not path.exists():
            return None
        values = _read(path)
        if values.dtype != np.int64 or values.ndim != 1:
            raise ConfigError(
                str(path), f"is not an update: {values.dtype} of shape {values.shape}", "restore the file"
            )
        return values

    def has(self, digest: str) -> bool:
        """Return True if the vector of this hex digest was kept."""
        return (self.folder / f"{digest}.npy").exists()

    def vector(self, digest: str) -> npt.NDArray[Any] | None:
        """Return the vector of this hex digest, if kept.

        Raises:
            ConfigError: the digest of the file differs from its name.
        """
        path = self.folder / f"{digest}.npy"
        if not path.exists():
            return None
        values = _read(path)
        if digest_of(values).hex() != digest:
            raise ConfigError(str(path), "was altered: its digest differs from its name", "restore the file")
        return values


def _read(path: Path) -> npt.NDArray[Any]:
    try:
        values: npt.NDArray[Any] = np.load(path, allow_pickle=False)
    except (OSError, ValueError) as error:
        raise ConfigError(str(path), f"cannot be read: {error}", "restore the file") from error
    return values
