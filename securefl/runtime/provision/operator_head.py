"""Head of an operator's history in the state folder, apart from the operator's folder (ADR 0069).

It detects an operator's folder that was restored from an older copy, before a fork is signed.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from securefl.base import crypto
from securefl.base.errors import ConfigError, DecisionError, RunAbortedError
from securefl.runtime import account
from securefl.runtime.provision import signed
from securefl.runtime.provision.history import History

_RESTORE: Final = "with the newest history of a site: securefl provision restore"


class OperatorHead:
    """Length and last hash of the history that this machine signed last, for one operator's key."""

    def __init__(self, operator: crypto.PublicIdentity) -> None:
        self._tip = account.AccountHead.of(account.key_digest(operator))

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Hold the key on this machine, for all copies of the folder.

        Raises:
            ConfigError: another command holds it, or the state folder is unusable.
            RunAbortedError: the state folder cannot be written.
        """
        try:
            handle = self._tip.hold()
        except RunAbortedError as error:
            raise self._unwritable(error, "nothing was signed; free some space") from error
        if handle is None:
            raise ConfigError(str(self._tip.path), "is in use by another command", "wait for its end")
        with open(handle, "rb"):  # noqa: PTH123 - a handle
            yield

    def check_restored(self, found: History, source: str) -> None:
        """Check a history that is to be continued after a restored backup, if this machine knows another one.

        Raises:
            DecisionError: this machine has signed a longer or another one.
            ConfigError: the head cannot be read.
        """
        remedy = f"ask all sites for a newer one; if there is none, move {self._tip.path} away"
        if (head := self._read()) is not None:
            self._compare(head, found, source, remedy)

    def check(self, found: History, source: str) -> None:
        """Check that a history continues the one that this machine signed last.

        Raises:
            DecisionError: it is older, another one, or of another machine.
            ConfigError: the head cannot be read.
        """
        head = self._read()
        if head is None:
            raise DecisionError(
                source,
                f"was not signed on this machine last, or {account.STATE_VARIABLE} has changed",
                _RESTORE,
            )
        self._compare(head, found, source, _RESTORE)

    def _compare(self, head: tuple[int, str], found: History, source: str, remedy: str) -> None:
        lines, last = head
        if len(found.lines) < lines:
            raise DecisionError(
                source, f"is an older copy: {len(found.lines)} entries, and it had {lines}", remedy
            )
        if signed.sha256(found.lines[lines - 1]) != last:
            raise DecisionError(
                source, f"is not the history that was in use: entry {lines - 1} differs", remedy
            )

    def write(self, found: History) -> None:
        """Store the head of a history that has been written.

        Raises:
            RunAbortedError: the write failed.
        """
        try:
            self._tip.write(len(found.lines), found.head)
        except RunAbortedError as error:
            remedy = "the history is written; free some space, then: securefl provision sign"
            raise self._unwritable(error, remedy) from error

    def _read(self) -> tuple[int, str] | None:
        try:
            return self._tip.read()
        except ConfigError as error:
            remedy = f"restore it; or move it away, then, {_RESTORE}"
            raise type(error)(error.path, error.reason, remedy) from error

    def _unwritable(self, error: RunAbortedError, remedy: str) -> RunAbortedError:
        reason = getattr(error.__cause__, "strerror", None) or "the write failed"
        return RunAbortedError(f"{self._tip.path}: cannot be written: {reason} ({remedy})")
