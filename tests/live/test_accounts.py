"""Accounts of parties that are processes: one key is one process, and no run forgets another."""

from __future__ import annotations

from pathlib import Path

import pytest

from securefl.base.crypto.keyfiles import read_identity
from securefl.runtime.account.file import AccountFile
from securefl.runtime.account.head import AccountHead
from securefl.runtime.account.summary import by_run, key_digest
from tests.live.deployed import Site, site, until_said
from tests.live.federated import LIMIT
from tests.unit.cli.programs import call

pytestmark = pytest.mark.live


def run_through(place: Site, run: str, *more: str) -> list[tuple[int | None, str, str]]:
    """A whole run; code and words of the server first, then of the parties."""
    place.run = run
    names = ("server", *place.parties)
    programs = {n: place.start(n, *more, out=place.folder / f"{run}-{n}") for n in names}
    # Whom the server has not told of the end, nobody will tell.
    return [programs[name].wait(30.0 if number else LIMIT) for number, name in enumerate(names)]


def test_an_account_holds_what_each_run_was_given(tmp_path: Path) -> None:
    """Two runs that begin with models of their own, as their ids do; nobody sits out."""
    with site(tmp_path, "embedded", rounds=2) as place:
        for run in ("spring", "summer"):
            (code, said, complaint), *parties = run_through(place, run)
            assert (code, complaint) == (0, ""), said
            assert all("sits out" not in words for _, words, _ in parties)
    identity = read_identity(tmp_path / "p00.key")
    with AccountFile(
        tmp_path / "p00.account", identity.public, AccountHead.of(key_digest(identity.public))
    ) as file:
        first, second = by_run(file.entries)
    assert [(one.run.run, one.rounds, one.updates) for one in (first, second)] == [
        ("spring", (0, 1), 2),
        ("summer", (0, 1), 2),
    ]
    assert first.models.isdisjoint(second.models)
    assert first.run.data == second.run.data
    shown = call("account", "--key", tmp_path / "p00.key").stdout
    assert "gave updates to 2 runs" in shown
    assert "spring" in shown
    assert "summer" in shown


def test_runs_that_begin_with_one_model_end_when_it_would_tell_too_much(tmp_path: Path) -> None:
    """Clusters of two: two runs as a rule, seldom three; that six do not is one chance in 10,000."""
    ended: list[int | None] = []
    again = ("--seed", "5", "--set", "deadlines.release=2")
    with site(tmp_path, "embedded", parties=6, rounds=3) as place:
        for number in range(6):
            (code, _, complaint), *parties = run_through(place, f"run-{number}", *again)
            ended.append(code)
            if code:
                break
    assert ended[0] == 0
    assert ended[-1] == 3, ended
    assert "no sum could be used in 3 rounds in a row" in complaint
    assert "give another --seed" in complaint
    # On a loaded machine one of them may have come too late for these rounds.
    reason = "sits out round 0: with sums of earlier rounds or runs on the same model"
    assert sum(reason in said for _, said, _ in parties) >= 4


def test_a_second_process_of_a_key_is_refused_and_the_first_goes_on(tmp_path: Path) -> None:
    with site(tmp_path, "embedded", rounds=2) as place:
        parties = place.start_parties(training=1.0)
        server = place.start("server")
        until_said(server, "round 0:")
        code, said, complaint = place.start("p00", out=tmp_path / "another").wait(LIMIT)
        assert (code, said) == (2, "")
        assert "p00.account: is in use: another process runs with p00's key" in complaint
        assert len(complaint.splitlines()) == 1
        assert server.wait(LIMIT)[0] == 0
        assert parties["p00"].wait(LIMIT)[0] == 0


def test_without_its_account_a_party_is_refused_before_it_connects(tmp_path: Path) -> None:
    with site(tmp_path, "embedded") as place:
        (tmp_path / "p01.account").unlink()
        code, said, complaint = place.start("p01").wait(LIMIT)
        assert (code, said) == (5, "")
        assert "p01.account: is missing: it records what the key of p01 has released" in complaint
        assert "securefl account --begin" in complaint
