"""Tip of an account: its length and last hash, on the machine, apart from the account (ADR 0043).

It detects an account rolled back or copied from another machine, but no rollback of the machine. The history
of an operator has one too (ADR 0069).
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import re
import socket
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from securefl.base import crypto
from securefl.base.errors import ConfigError, DecisionError, RunAbortedError

STATE_VARIABLE = "SECUREFL_STATE"
MACHINE_VARIABLE = "SECUREFL_MACHINE"
"""Variable with a machine name that outlives a container's host name."""
_MACHINE_ID = Path("/etc/machine-id")
_SET = f"set {STATE_VARIABLE} to a folder that this user can write, and keep that folder"
_LASTING = frozenset({errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR, errno.ENOENT, errno.EEXIST})


def state_folder() -> Path:
    """Return the folder with this machine's tips (``$SECUREFL_STATE``).

    Raises:
        ConfigError: the variable is not set, and the user has no home folder.
    """
    if chosen := os.environ.get(STATE_VARIABLE):
        return Path(chosen)
    base = os.environ.get("XDG_STATE_HOME")
    return (Path(base) if base else _home() / ".local" / "state") / "securefl"


def check_state_folder() -> None:
    """Refuse a state folder that this process cannot use; write nothing.

    Raises:
        ConfigError: the folder is unusable.
    """
    folder = state_folder()
    there = next(one for one in (folder, *folder.absolute().parents) if os.path.lexists(one))
    if not os.path.isdir(there):  # noqa: PTH112 - Path.is_dir raises where a parent may not be entered
        raise _unusable(folder, os.strerror(errno.ENOTDIR))
    if not os.access(there, os.R_OK | os.W_OK | os.X_OK):
        raise _unusable(folder, os.strerror(errno.EACCES))


def _home() -> Path:
    """Return the user's home folder.

    Service accounts often lack one: HOME is missing, empty or names no folder.
    """
    try:
        home = Path.home() if os.environ.get("HOME") != "" else None
    except RuntimeError:
        home = None
    if home is None:
        raise ConfigError(
            "state folder", "cannot be found: the user of this process has no home folder", _SET
        )
    if not os.path.isdir(home):  # noqa: PTH112 - as above
        raise ConfigError("state folder", f"{home}, the home of this user, does not exist", _SET)
    return home


def machine_name() -> str:
    """Return a digest, 32 hex digits, of ``$SECUREFL_MACHINE``, else of the machine's id and host name."""
    if chosen := os.environ.get(MACHINE_VARIABLE):
        return crypto.digest("named machine", chosen).hex()[:32]
    try:
        own = _MACHINE_ID.read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError):
        own = ""
    return crypto.digest("machine", own, socket.gethostname()).hex()[:32]


@dataclass(frozen=True, slots=True)
class AccountHead:
    """Tip of one key."""

    path: Path

    @classmethod
    def of(cls, key: str) -> AccountHead:
        """Return this machine's tip of the key with digest ``key``."""
        return cls(state_folder() / f"{key[:32]}.tip")

    def read(self) -> tuple[int, str] | None:
        """Return the number of lines and the last hash; None without a tip.

        Raises:
            ConfigError: the file is unreadable or damaged.
        """
        try:
            stored = json.loads(self.path.read_bytes())
            lines, last = stored["lines"], stored["last"]
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            raise ConfigError(str(self.path), f"cannot be read: {error.strerror}", _KEEP) from error
        except (ValueError, KeyError, TypeError, RecursionError):
            lines = last = None
        if not isinstance(lines, int) or not isinstance(last, str):
            raise DecisionError(str(self.path), "is damaged: it is not a state file", _KEEP)
        return lines, last

    def hold(self) -> int | None:
        """Lock the key on this machine, for all copies of its account.

        Returns:
            A handle that holds the lock until closed; None if another process holds it.

        Raises:
            ConfigError: this user cannot write the state folder.
            RunAbortedError: the write failed otherwise; the caller must not release.
        """
        handle = None
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
            handle = os.open(self.path.with_suffix(".lock"), flags, 0o600)
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            if handle is not None:
                os.close(handle)
            if isinstance(error, BlockingIOError):
                return None
            if error.errno in _LASTING:
                raise _unusable(self.path.parent, error.strerror) from error
            raise self._unwritable(error) from error
        return handle

    def forget(self) -> None:
        """Delete the tip, so that the owner can begin a new account.

        Raises:
            ConfigError: this user cannot write the state folder.
        """
        try:
            self.path.unlink(missing_ok=True)
        except OSError as error:
            raise _unusable(self.path.parent, error.strerror) from error

    def write(self, lines: int, last: str) -> None:
        """Replace the tip durably.

        Raises:
            RunAbortedError: the write failed; the caller must not release.
        """
        new = self.path.with_suffix(".new")
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
            with os.fdopen(os.open(new, flags, 0o600), "wb", buffering=0) as file:
                file.write(json.dumps({"lines": lines, "last": last}).encode("ascii"))
                os.fsync(file.fileno())
            new.replace(self.path)
        except OSError as error:
            raise self._unwritable(error) from error

    def _unwritable(self, error: OSError) -> RunAbortedError:
        return RunAbortedError(
            f"state of the account {self.path}: {error.strerror or error} (nothing was released; free some"
            f" space, or set {STATE_VARIABLE} to another folder and adopt the account)"
        )


def _unusable(folder: Path, reason: str | None) -> ConfigError:
    return ConfigError("state folder", f"{folder} cannot be written: {reason}", _SET)


_KEEP = f"if the account beside the key is complete: securefl account --adopt; or set {STATE_VARIABLE}"


MOUNTS: Final = Path("/proc/self/mountinfo")
"""See proc(5)."""
_PASSING: Final = frozenset({"tmpfs", "ramfs", "overlay", "overlayfs", "aufs", "devtmpfs"})
"""File systems that end with the machine's uptime or a container."""
_ESCAPE: Final = re.compile(r"\\([0-7]{3})")


@dataclass(frozen=True, slots=True)
class Mount:
    """A mounted file system."""

    point: Path
    kind: str

    @property
    def is_durable(self) -> bool:
        """True if the file system outlives a container and a reboot."""
        return self.kind not in _PASSING


def mount_of(path: Path, mounts: Path = MOUNTS) -> Mount | None:
    """Return the mount of ``path``, which need not exist; None if unlisted."""
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
        # Of several mounts on one point, the last is visible.
        if real.is_relative_to(point) and (found is None or found.point in {point, *point.parents}):
            found = Mount(point, kind[0])
    return found
