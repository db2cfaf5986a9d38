"""Lock of ``--out``: one process of a name at a time, and one run of a server."""

import contextlib
import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from securefl.base.errors import ConfigError
from securefl.base.ids import SERVER, PartyId
from securefl.runtime.process.checkpoint import CHECKPOINT

_MODELS: Final = "model*.safetensors"
_FLAGS: Final = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
_LONGEST_PID: Final = 20


@contextmanager
def claim_folder(out: Path, name: PartyId, holder: str = "") -> Iterator[None]:
    """Lock the folder for the process of this name.

    The kernel's lock (``flock`` on ``.<name>.lock``) ends with a killed process. Errors name ``holder``.

    Raises:
        ConfigError: another process holds it, the server has finished a run there, or it cannot be written.
    """
    path = out / f".{name}.lock"
    lock, pid = _lock(path, holder or f"a process of {name}"), os.getpid()
    try:
        if name == SERVER:
            _refuse_second_run(out)
        yield
    finally:
        # A new owner checks that its file still has this name. A forked child's parent still holds the lock.
        if os.getpid() == pid:
            with contextlib.suppress(OSError):
                path.unlink()
        os.close(lock)


def _lock(path: Path, holder: str) -> int:
    """Return the descriptor; retry if the last owner deletes the file first."""
    while True:
        try:
            lock = os.open(path, _FLAGS, 0o600)
        except OSError as error:
            raise ConfigError(
                str(path), f"cannot be written: {error.strerror}", "choose another --out"
            ) from error
        try:
            _take(lock, path, holder)
            with contextlib.suppress(OSError):
                if os.path.samestat(os.fstat(lock), os.lstat(path)):
                    _sign(lock)
                    return lock
        except BaseException:
            os.close(lock)
            raise
        os.close(lock)


def _take(lock: int, path: Path, holder: str) -> None:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise ConfigError(
            "--out",
            f"{path.parent} is in use: {holder} runs there{_owner(lock)}",
            "wait until it ends, or choose another --out",
        ) from None
    except OSError as error:
        raise ConfigError(
            str(path), f"cannot be locked: {error.strerror}", "choose an --out on another file system"
        ) from error


def _sign(lock: int) -> None:
    with contextlib.suppress(OSError):
        os.ftruncate(lock, 0)
        os.pwrite(lock, f"{os.getpid()}\n".encode("ascii"), 0)


def _owner(lock: int) -> str:
    try:
        pid = os.pread(lock, _LONGEST_PID, 0).decode("ascii").strip()
    except (OSError, ValueError):
        return ""
    return f" (process {pid})" if pid.isdecimal() else ""


def _refuse_second_run(out: Path) -> None:
    if (out / CHECKPOINT).exists():
        return
    left = sorted([*(out / "transcripts").glob(f"{SERVER}*.jsonl"), *out.glob(_MODELS)])
    if left:
        raise ConfigError(
            "--out",
            f"{out} holds an ended run ({left[0].relative_to(out)}), without a checkpoint, and is not "
            "overwritten",
            "start a new run with another --run and another --out",
        )
