"""Journals: a party's submitted rounds, a server's drawn rounds (protocol.md, 9).

One JSON line per entry is on disk before the shell performs any later effect.
"""

import json
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from securefl.base import files
from securefl.base.errors import ConfigError, RunAbortedError
from securefl.base.ids import RunId
from securefl.protocol import kernel
from securefl.protocol.round import NO_CHOICE, Clusters, LastChoice, read_draw_entry


class _Entry(msgspec.Struct, frozen=True):
    run: str
    round: int
    step: str


class FileJournal:
    """Journal of one process; a last entry cut off by a crash is dropped: its effect was not performed.

    Entries of other runs stay, and do not count. A server's file of ``bound`` bytes is rewritten with its
    last round only, also in ``submitted``.

    Raises:
        ConfigError: the file cannot be read, or holds other lines than entries.
    """

    def __init__(self, path: Path, run: RunId, bound: int | None = None) -> None:
        self._path = path
        self._run = run
        self._bound = bound
        self._whole = 0
        self._torn = False
        self.atom_seed = b""
        self.choice = NO_CHOICE
        self.root = b""
        """Last confirmed root of the chain of models."""
        self.rooted = -1
        self.leader = b""
        """Session of the server followed last."""
        self.drew: Clusters = ()
        self.claimed = (-1, b"")
        """Server: round and root of the last claim proven."""
        self.submitted: frozenset[int] = frozenset()
        """Rounds in which a masked input may have been sent; each counts against the privacy budget."""
        self.spent = self._last_round()
        """Last round in the journal; of a server, the last announced draw. -1 if none."""

    def note(self, round_: int, step: str) -> None:
        """Write durably that ``step`` of ``round_`` is about to happen.

        Raises:
            RunAbortedError: the write failed; the file is unchanged and the caller must not release.
            ConfigError: a rewrite found the file damaged.
        """
        line = (json.dumps({"run": self._run, "round": round_, "step": step}) + "\n").encode("ascii")
        try:
            fresh = not self._path.exists()
            if not fresh and self._bound is not None and self._path.stat().st_size >= self._bound:
                self._write_anew(line)
                return
            with self._path.open("ab", buffering=0) as file:
                at = self._whole if self._torn else os.fstat(file.fileno()).st_size
                files.append_durably(file.fileno(), at, line)
                self._torn = False
            if fresh:
                files.sync_folder(self._path.parent)
        except OSError as error:
            raise RunAbortedError(
                f"journal {self._path}: {error.strerror or error} (nothing was released; free disk space "
                "and start again)"
            ) from error

    def _write_anew(self, line: bytes) -> None:
        lines = self._path.read_bytes().split(b"\n")[:-1]
        entries = [entry for _, entry in self._entries(lines)]
        kept = [one + b"\n" for one, stays in zip(lines, _staying(entries, self._run), strict=True) if stays]
        files.write_whole(self._path, b"".join((*kept, line)), durable=True)
        self._torn = False

    def _entries(self, lines: Sequence[bytes]) -> Iterator[tuple[int, _Entry]]:
        for number, line in enumerate(lines, start=1):
            try:
                yield number, msgspec.json.decode(line, type=_Entry)
            except (msgspec.MsgspecError, ValueError, TypeError, RecursionError):
                raise self._no_entry(number) from None

    def _no_entry(self, number: int) -> ConfigError:
        return ConfigError(
            f"{self._path}:{number}",
            "is not a journal entry",
            "restore it: it records rounds that must not be repeated; or join a new run",
        )

    def _last_round(self) -> int:
        raw = files.read_if_there(self._path)
        if raw is None:
            return -1
        *lines, tail = raw.split(b"\n")
        self._whole, self._torn = len(raw) - len(tail), bool(tail)
        last, submitted = -1, set[int]()
        for number, entry in self._entries(lines):
            try:
                if entry.run != self._run or not self._spends(entry.round, entry.step):
                    continue
            except (ValueError, TypeError):
                raise self._no_entry(number) from None
            last = max(last, entry.round)
            if not entry.step.startswith(kernel.REVEALED):
                submitted.add(entry.round)
        self.submitted = frozenset(submitted)
        return last

    def _spends(self, round_: int, step: str) -> bool:
        """Apply one entry; return True if its round must not be repeated."""
        if step.startswith(kernel.LEADS):
            self.leader = bytes.fromhex(step.removeprefix(kernel.LEADS))
        elif step.startswith(kernel.ROOT):
            self.root, self.rooted = bytes.fromhex(step.removeprefix(kernel.ROOT)), round_
        elif step.startswith(kernel.CLAIMED):
            self.claimed = round_, bytes.fromhex(step.removeprefix(kernel.CLAIMED))
        elif step.startswith(kernel.CHOSE):
            self.choice = LastChoice(*map(int, step.removeprefix(kernel.CHOSE).split()))
        elif step.startswith(kernel.ATOMS):
            self.atom_seed = bytes.fromhex(step.removeprefix(kernel.ATOMS)) or self.atom_seed
        elif step == kernel.ANNOUNCED or step.startswith(kernel.DREW):
            self.drew = read_draw_entry(step)
        return _is_of_round(step)


def _is_of_round(step: str) -> bool:
    return not step.startswith((kernel.LEADS, kernel.ROOT, kernel.CHOSE, kernel.CLAIMED))


def _staying(entries: Sequence[_Entry], run: str) -> Iterator[bool]:
    """Yield True for each entry of the last round, of another run, or last of its kind."""
    own = [entry for entry in entries if entry.run == run]
    last = max((entry.round for entry in own if _is_of_round(entry.step)), default=-1)
    latest = {entry.step.partition(" ")[0]: entry for entry in own}
    for entry in entries:
        yield entry.run != run or entry.round == last or any(entry is one for one in latest.values())
