"""The tip of an account: how far it had come, kept on the machine and not beside the account.

An account that was rolled back, from a backup or by an editor, is behind the tip; one that was copied from
another machine has none here. What the tip cannot see is a machine that was rolled back as a whole.
"""

from __future__ import annotations

import fcntl
import json
import os
import socket
from dataclasses import dataclass
from pathlib import Path

from securefl.base.crypto import digest
from securefl.base.errors import ConfigError, DecisionError, RunAbortedError

STATE_VARIABLE = "SECUREFL_STATE"
MACHINE_VARIABLE = "SECUREFL_MACHINE"
"""Environment variable with a name for this machine that outlives its host name, as in a container."""
_MACHINE_ID = Path("/etc/machine-id")


def state_folder() -> Path:
    """Where this machine keeps tips: ``$SECUREFL_STATE``, else ``securefl`` in the user's state folder."""
    if chosen := os.environ.get(STATE_VARIABLE):
        return Path(chosen)
    base = os.environ.get("XDG_STATE_HOME")
    return (Path(base) if base else Path.home() / ".local" / "state") / "securefl"


def machine_name() -> str:
    """Return a digest of this machine's name, 32 hexadecimal digits, from which nobody learns which it is.

    The name is ``$SECUREFL_MACHINE``, else the machine's id and host name.
    """
    if chosen := os.environ.get(MACHINE_VARIABLE):
        return digest("named machine", chosen).hex()[:32]
    try:
        own = _MACHINE_ID.read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError):
        own = ""
    return digest("machine", own, socket.gethostname()).hex()[:32]


@dataclass(frozen=True, slots=True)
class Tip:
    """One key's tip.

    Args:
        path: of its file.
    """

    path: Path

    @classmethod
    def of(cls, key: str) -> Tip:
        """That of the key with this digest, on this machine."""
        return cls(state_folder() / f"{key[:32]}.tip")

    def read(self) -> tuple[int, str] | None:
        """Number of lines and hash of the last one; None where this machine knows of no account.

        Raises:
            ConfigError: it cannot be read, or is damaged.
        """
        try:
            said = json.loads(self.path.read_bytes())
            lines, last = said["lines"], said["last"]
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            raise ConfigError(str(self.path), f"cannot be read: {error.strerror}", _KEEP) from error
        except (ValueError, KeyError, TypeError, RecursionError):
            lines = last = None
        if not isinstance(lines, int) or not isinstance(last, str):
            raise DecisionError(str(self.path), "is no tip of an account", _KEEP)
        return lines, last

    def hold(self) -> int | None:
        """Lock the key on this machine, wherever its account lies: a copy of the file is another file.

        Returns:
            A handle that holds the lock until it is closed; None where another process has it.

        Raises:
            RunAbortedError: it cannot be written; the caller must not go on.
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
            raise self._unwritable(error) from error
        return handle

    def forget(self) -> None:
        """Know of no account any more: the owner begins a new one."""
        self.path.unlink(missing_ok=True)

    def write(self, lines: int, last: str) -> None:
        """Keep it durably, in place of the one before.

        Raises:
            RunAbortedError: it cannot be written; the caller must not go on.
        """
        new = self.path.with_suffix(".new")
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            with new.open("wb", buffering=0) as file:
                file.write(json.dumps({"lines": lines, "last": last}).encode("ascii"))
                os.fsync(file.fileno())
            new.replace(self.path)
        except OSError as error:
            raise self._unwritable(error) from error

    def _unwritable(self, error: OSError) -> RunAbortedError:
        return RunAbortedError(
            f"tip of the account {self.path}: {error.strerror or error} (nothing was released; set"
            f" {STATE_VARIABLE} to a folder that can be written)"
        )


_KEEP = (
    f"if the account beside the key is whole, adopt it (securefl account --adopt), or set {STATE_VARIABLE}"
)
