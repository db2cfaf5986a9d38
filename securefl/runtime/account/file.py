"""Account file, appended durably."""

import fcntl
import os
from pathlib import Path
from typing import Self

from securefl.base import crypto, files, text
from securefl.base.errors import ConfigError, DecisionError, RunAbortedError
from securefl.runtime.account.entries import (
    NOTHING,
    Begun,
    Entry,
    Kept,
    hash_of,
    line_of,
    read_lines,
)
from securefl.runtime.account.head import MACHINE_VARIABLE, STATE_VARIABLE, AccountHead, machine_name
from securefl.runtime.account.summary import key_digest

_FLAGS = os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC


def account_beside(key: Path) -> Path:
    """Return the default path of a key's account: ``p00.account`` beside ``p00.key``."""
    return key.with_suffix(".account")


def begin_account(path: Path, owner: crypto.PublicIdentity) -> None:
    """Create an account: the owner states that this key has released nothing.

    Raises:
        ConfigError: the file exists or cannot be written.
    """
    line = line_of(Begun(name=owner.name, key=key_digest(owner)), NOTHING)
    try:
        handle = os.open(path, _FLAGS | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        raise ConfigError(
            str(path), "exists already", "an account is created once; move the file away"
        ) from None
    except OSError as error:
        raise ConfigError(
            str(path), f"cannot be written: {error.strerror}", "choose another place"
        ) from error
    with os.fdopen(handle, "wb", buffering=0) as file:
        file.write(line)
        os.fsync(file.fileno())
    files.sync_folder(path.parent)


class AccountInUseError(ConfigError):
    """Account that another process of this key holds."""


class AccountFile:
    """Account in use, locked against other processes; a last line cut off by a crash is dropped.

    ``tip`` is this machine's, None for a key that ends with the run. To ``adopt`` states that this is the
    whole account and its only copy.

    Raises:
        ConfigError: the file is missing, open to other users, in use, damaged, another owner's, rolled back
            or from another machine.
        RunAbortedError: the tip cannot be written.
    """

    def __init__(
        self, path: Path, owner: crypto.PublicIdentity, head: AccountHead | None, *, adopt: bool = False
    ) -> None:
        self._path = path
        self._tip = head
        self._handle = _lock_file(path, owner)
        self._held: int | None = None
        try:
            self._held = None if head is None else _hold_lock(head, path, owner)
            entries, hashes, self._whole = self._read()
            self._check_owner(entries, owner)
            self._lines, self._last = len(hashes), hashes[-1]
            self._check_place(entries, hashes, adopt=adopt)
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    def close(self) -> None:
        """Release the file and its locks."""
        os.close(self._handle)
        if self._held is not None:
            os.close(self._held)

    @property
    def entries(self) -> tuple[Entry, ...]:
        """All entries, read from the file at each access to save memory.

        Raises:
            ConfigError: the file was damaged while open.
        """
        return self._read()[0]

    def append(self, entry: Entry) -> None:
        """Write an entry durably, then the tip.

        Raises:
            RunAbortedError: the write failed; the file is unchanged and the caller must not release.
        """
        line = line_of(entry, self._last)
        try:
            files.append_durably(self._handle, self._whole, line)
        except OSError as error:
            raise RunAbortedError(
                f"account {self._path}: {error.strerror or error} (nothing was released; free disk space "
                "and start again)"
            ) from error
        self._whole += len(line)
        self._lines, self._last = self._lines + 1, hash_of(line)
        self._note_tip()

    def _note_tip(self) -> None:
        if self._tip is not None:
            self._tip.write(self._lines, self._last)

    def _read(self) -> tuple[tuple[Entry, ...], tuple[str, ...], int]:
        with open(self._handle, "rb", closefd=False) as file:
            file.seek(0)
            raw = file.read()
        whole = raw.rfind(b"\n") + 1
        entries, hashes = read_lines(str(self._path), raw[:whole].splitlines(keepends=True))
        if not entries:
            raise DecisionError(
                str(self._path), "is empty", "restore it from a backup: it records what this key has released"
            )
        return entries, hashes, whole

    def _check_owner(self, entries: tuple[Entry, ...], owner: crypto.PublicIdentity) -> None:
        first = entries[0]
        if isinstance(first, Begun) and first.key != key_digest(owner):
            raise ConfigError(
                str(self._path),
                f"belongs to another key, that of {first.name}",
                f"give the account of {owner.name}",
            )

    def _check_place(self, entries: tuple[Entry, ...], hashes: tuple[str, ...], *, adopt: bool) -> None:
        if self._tip is None:
            return
        here = machine_name()
        kept = [entry.machine for entry in entries if isinstance(entry, Kept)]
        head = None if adopt else self._tip.read()
        if adopt or not (kept or head):
            # The tip first: a process killed between the two has not been elsewhere.
            self._note_tip()
            self.append(Kept(machine=here))
            return
        remedy = "restore the newest copy; if this is the newest: securefl account --adopt"
        if head is None or (kept and kept[-1] != here):
            moved = kept and kept[-1] != here
            where = "last used on another machine" if moved else "in use before, and not on this machine"
            raise DecisionError(
                str(self._path),
                f"was moved ({where}); two copies could spend one budget",
                "if no other copy is in use: securefl account --adopt; in a container keep"
                f" {STATE_VARIABLE} and set {MACHINE_VARIABLE}",
            )
        lines, last = head
        if len(hashes) < lines:
            raise DecisionError(
                str(self._path),
                f"was replaced by an older copy: {text.count(len(hashes), 'line')}, and it had {lines}",
                remedy,
            )
        if hashes[lines - 1] != last:
            raise DecisionError(
                str(self._path), f"is not the file that was in use: it differs from line {lines} on", remedy
            )
        self._note_tip()


def _lock_file(path: Path, owner: crypto.PublicIdentity) -> int:
    try:
        handle = os.open(path, _FLAGS)
    except FileNotFoundError:
        raise DecisionError(
            str(path),
            f"is missing: it records what the key of {owner.name} has released",
            "restore it; for a key that never released anything: securefl account --begin",
        ) from None
    except OSError as error:
        raise ConfigError(str(path), f"cannot be opened: {error.strerror}", "check its owner") from error
    if os.fstat(handle).st_mode & 0o077:
        os.close(handle)
        raise ConfigError(str(path), "can be used by other users", f"chmod 600 {path}")
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(handle)
        if isinstance(error, BlockingIOError):
            raise _in_use(path, owner) from None
        raise ConfigError(
            str(path), f"cannot be locked: {error.strerror}", "keep it on another file system"
        ) from error
    return handle


def _hold_lock(head: AccountHead, path: Path, owner: crypto.PublicIdentity) -> int:
    """Lock the key: a copy of the file has another lock."""
    handle = head.hold()
    if handle is None:
        raise _in_use(path, owner)
    return handle


def _in_use(path: Path, owner: crypto.PublicIdentity) -> ConfigError:
    return AccountInUseError(
        str(path),
        f"is in use: another process runs with {owner.name}'s key",
        "wait for its end: one key serves one process",
    )
