"""Nets of accounts: the lines with which a party's account is refused, and the file of a whole run."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np

from securefl.base.crypto.identity import PublicIdentity
from securefl.base.errors import SecureflError
from securefl.protocol.kernel.effects import Enter
from securefl.protocol.round.shared.reports import RunEffect
from securefl.runtime.account.entries import Run, Sums, Update
from securefl.runtime.account.file import AccountFile, begin_account
from securefl.runtime.account.head import MACHINE_VARIABLE, AccountHead
from securefl.runtime.account.run_account import OpenAccount, OwnData
from securefl.scenario.scenario import Scenario
from securefl.training.data.shards import Shard
from tests.nets.features import FEATURES, OPEN, P, parity, samples
from tests.nets.traced import Traced
from tests.simulation.world import Node, scenario

Lines = list[str]
SHARD = Shard(np.zeros((4, 2), np.float32), np.zeros(4, np.int64), 2, (2,))
JOINED = Run(run="r", scenario="s", server="aa", parties=("bb", "cc"), data="dd", samples=3)


class Booked(Traced):
    """A federation in which p01 keeps an account, as its process does."""

    def __init__(self, folder: Path, made: Scenario) -> None:
        super().__init__(made, length=4, samples=samples, choose=parity)
        self.owner = self.plan.roster.parties[P[1]]
        self.file = folder / "p01.account"
        begin_account(self.file, self.owner)
        self._book = OpenAccount(AccountFile(self.file, self.owner, None), self.plan, OwnData.of(SHARD))

    def _perform(self, node: Node, effects: tuple[RunEffect, ...]) -> None:
        for effect in effects:
            if node.name == P[1] and node.alive and isinstance(effect, Enter):
                self._book.enter(effect.entry)
            super()._perform(node, (effect,))

    def account(self) -> Lines:
        """Return the account's lines after the run."""
        self.run()
        rows = map(json.loads, self.file.read_text().splitlines())
        return [" ".join([f"p01 Account {row.pop('kind')}", *self._pairs(row)]) for row in rows]

    def _pairs(self, row: dict[str, Any]) -> Iterator[str]:
        return (f"{name}={self.digester.text(value)}" for name, value in row.items())


def of_run(**settings: str) -> Lines:
    """Return the account of a party after a run."""
    with tempfile.TemporaryDirectory() as folder:
        return Booked(Path(folder), scenario(6, rounds="2", **settings)).account()


def _owners() -> tuple[PublicIdentity, PublicIdentity]:
    parties = Traced(scenario(6), length=4).plan.roster.parties
    return parties[P[0]], parties[P[1]]


def refusals() -> Lines:
    """Return the line of each refusal of an account that was tampered with."""
    lines: Lines = []
    for name, tamper in TAMPERED.items():
        with tempfile.TemporaryDirectory() as folder, patch.dict(os.environ, {MACHINE_VARIABLE: "here"}):
            try:
                tamper(Path(folder) / "p00.account", AccountHead(Path(folder) / "state" / "p00.tip"))
            except SecureflError as error:
                refusal = str(error).replace(folder, "").replace(" ", "_")
                lines.append(f"p00 Refused {name.replace(' ', '_')} line={refusal}")
            else:
                lines.append(f"p00 Accepted {name.replace(' ', '_')}")
    return lines


def _used(path: Path, tip: AccountHead) -> None:
    begin_account(path, _OWNER)
    with AccountFile(path, _OWNER, tip) as file:
        for entry in (JOINED, Update(round=0, count=1), Sums(round=0, sums={"ee": ((0, 1),)})):
            file.append(entry)


def _open(path: Path, tip: AccountHead, *, adopt: bool = False) -> None:
    with AccountFile(path, _OWNER, tip, adopt=adopt):
        pass


def _missing(path: Path, tip: AccountHead) -> None:
    _open(path, tip)


def _begun_twice(path: Path, tip: AccountHead) -> None:
    _used(path, tip)
    begin_account(path, _OWNER)


def _of_another(path: Path, tip: AccountHead) -> None:
    begin_account(path, _OTHER)
    _open(path, tip)


def _in_use(path: Path, tip: AccountHead) -> None:
    _used(path, tip)
    with AccountFile(path, _OWNER, tip):
        _open(path, tip)


def _empty(path: Path, tip: AccountHead) -> None:
    path.touch(mode=0o600)
    _open(path, tip)


def _rewritten(path: Path, tip: AccountHead, change: Callable[[list[bytes]], list[bytes]]) -> None:
    _used(path, tip)
    path.write_bytes(b"".join(change(path.read_bytes().splitlines(keepends=True))))
    _open(path, tip)


def _edited(path: Path, tip: AccountHead) -> None:
    _rewritten(path, tip, lambda rows: [*rows[:3], rows[3].replace(b'"count":1', b'"count":0'), *rows[4:]])


def _no_entry(path: Path, tip: AccountHead) -> None:
    _rewritten(path, tip, lambda rows: [*rows, b"{}\n"])


def _rolled_back(path: Path, tip: AccountHead) -> None:
    _rewritten(path, tip, lambda rows: rows[:-1])


def _cut_off(path: Path, tip: AccountHead) -> None:
    _rewritten(path, tip, lambda rows: [*rows, rows[-1][:10]])


def _moved(path: Path, tip: AccountHead) -> None:
    _used(path, tip)
    with patch.dict(os.environ, {MACHINE_VARIABLE: "elsewhere"}):
        _open(path, tip)


def _copied(path: Path, tip: AccountHead) -> None:
    _used(path, tip)
    tip.path.unlink()
    _open(path, tip)


def _adopted(path: Path, tip: AccountHead) -> None:
    _used(path, tip)
    tip.path.unlink()
    _open(path, tip, adopt=True)


def _no_tip(path: Path, tip: AccountHead) -> None:
    _used(path, tip)
    tip.path.write_text("[]")
    _open(path, tip)


_OWNER, _OTHER = _owners()
TAMPERED: Mapping[str, Callable[[Path, AccountHead], None]] = {
    "missing": _missing,
    "begun twice": _begun_twice,
    "of another key": _of_another,
    "in use": _in_use,
    "empty": _empty,
    "edited": _edited,
    "no entry": _no_entry,
    "rolled back": _rolled_back,
    "cut off": _cut_off,
    "moved": _moved,
    "copied": _copied,
    "adopted": _adopted,
    "damaged tip": _no_tip,
}


def _nets() -> Iterator[tuple[str, Callable[[], Lines]]]:
    yield "account, refusals", refusals
    yield "account, masking", of_run
    yield "account, noise", lambda: of_run(**FEATURES["noise"].settings)
    yield "account, metrics over atoms", lambda: of_run(**_ATOMS)
    yield "account, open groups", lambda: of_run(**OPEN, groups__choice_epsilon="2.0")
    yield "account, verified", lambda: of_run(**_VERIFIED)


_ATOMS = {
    **FEATURES["metrics"].settings,
    "evaluation__repeats": '"refuse"',
    "clustering__atoms": "2",
    "size": "4",
}
_VERIFIED = {
    "size": "6",
    "threshold": "4",
    "min_survivors": "5",
    "server": "active",
    "secure_sum__verify": '"committee"',
}
ACCOUNTS: Mapping[str, Callable[[], Lines]] = dict(_nets())
