"""Mounts of a party's account and of its state folder, which a container or a reboot must not take apart."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

MOUNTS: Final = Path("/proc/self/mountinfo")
"""Mounts of this process, on Linux (proc(5))."""
_PASSING: Final = frozenset({"tmpfs", "ramfs", "overlay", "overlayfs", "aufs", "devtmpfs"})
"""File systems that end with the machine's uptime or with a container."""
_ESCAPE: Final = re.compile(r"\\([0-7]{3})")


@dataclass(frozen=True, slots=True)
class Mount:
    """A mounted file system."""

    point: Path
    kind: str
    """As in ``ext4``."""

    @property
    def is_durable(self) -> bool:
        """True if the file system outlives a container and a reboot."""
        return self.kind not in _PASSING


def mount_of(path: Path, mounts: Path = MOUNTS) -> Mount | None:
    """Return the mount that ``path`` is on, or would be on; None where the system has no list of mounts.

    Args:
        path: a file or folder, which need not exist.
        mounts: the list.
    """
    try:
        lines = mounts.read_text(encoding="utf-8", errors="surrogateescape").splitlines()
    except OSError:
        return None
    real = Path(os.path.realpath(path))
    found = None
    for line in lines:
        left, _, right = line.partition(" - ")
        fields, kind = left.split(), right.split()
        if len(fields) < 5 or not kind:
            continue
        point = Path(_ESCAPE.sub(lambda code: chr(int(code[1], 8)), fields[4]))
        # Of several mounts on one point, the last one is visible.
        if real.is_relative_to(point) and (found is None or found.point in {point, *point.parents}):
            found = Mount(point, kind[0])
    return found
