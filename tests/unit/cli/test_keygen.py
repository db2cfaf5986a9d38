"""Keys: made once, private, never written over, never half of a set."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from securefl.base.crypto.keyfiles import read_identity, read_public, read_roster
from tests.unit.cli.programs import call, files, refusal


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_a_party_makes_its_own_pair(tmp_path: Path) -> None:
    result = call("keygen", "--party", "alice", "--out", tmp_path / "new")
    assert result.exit_code == 0
    key, pub = tmp_path / "new" / "alice.key", tmp_path / "new" / "alice.pub"
    assert read_identity(key).public == read_public(pub)
    assert mode(key) == 0o600
    assert read_public(pub).fingerprint() in result.stdout
    secret = read_identity(key)
    for hidden in (secret.signing_key.hex(), secret.sealing_key.hex()):
        assert hidden not in result.stdout + pub.read_text()


def test_a_roster_is_made_of_public_files(tmp_path: Path) -> None:
    for name in ("server", "alice", "bob"):
        call("keygen", "--party", name, "--out", tmp_path)
    pubs = [
        option for name in ("server", "alice", "bob") for option in ("--roster", tmp_path / f"{name}.pub")
    ]
    result = call("keygen", *pubs, "--out", tmp_path)
    assert result.exit_code == 0
    roster = read_roster(tmp_path / "roster.toml")
    assert set(roster.parties) == {"alice", "bob"}
    assert roster.digest().hex()[:16] in result.stdout


def test_all_in_one_says_that_it_is_for_demos(tmp_path: Path) -> None:
    result = call("keygen", "--all-in-one", "3", "--out", tmp_path)
    assert result.exit_code == 0
    assert "LOCAL DEMO" in result.stdout
    names = ("p00", "p01", "p02", "server")
    accounts = {"p00.account", "p01.account", "p02.account"}
    assert files(tmp_path) == {"roster.toml", *(f"{n}.{s}" for n in names for s in ("key", "pub"))} | accounts
    assert all(mode(tmp_path / f"{name}.key") == 0o600 for name in names)
    assert len(read_roster(tmp_path / "roster.toml").parties) == 3


@pytest.mark.parametrize("in_the_way", ["p02.key", "server.pub", "roster.toml"])
def test_all_in_one_writes_everything_or_nothing(in_the_way: str, tmp_path: Path) -> None:
    (tmp_path / in_the_way).write_text("precious")
    reason = refusal(call("keygen", "--all-in-one", "3", "--out", tmp_path))
    assert in_the_way in reason
    assert "exists already" in reason
    assert files(tmp_path) == {in_the_way}
    assert (tmp_path / in_the_way).read_text() == "precious"


@pytest.mark.parametrize("suffix", ["key", "pub"])
def test_no_key_is_written_over(suffix: str, tmp_path: Path) -> None:
    (tmp_path / f"alice.{suffix}").write_text("precious")
    assert "exists already" in refusal(call("keygen", "--party", "alice", "--out", tmp_path))
    assert files(tmp_path) == {f"alice.{suffix}"}


@pytest.mark.parametrize(
    "arguments",
    [
        (),
        ("--party", "a", "--all-in-one", "2"),
        ("--party", "../a"),
        ("--party", "all"),
        ("--party", "A"),
        ("--all-in-one", "0"),
        ("--all-in-one", "-3"),
        ("--all-in-one", "1000000"),
        ("--roster", "no-such-file.pub"),
    ],
)
def test_nonsense_is_refused_and_writes_nothing(arguments: tuple[str, ...], tmp_path: Path) -> None:
    refusal(call("keygen", *arguments, "--out", tmp_path / "new"))
    assert files(tmp_path) == set()


def test_rosters_with_gaps_are_refused(tmp_path: Path) -> None:
    for name in ("server", "alice"):
        call("keygen", "--party", name, "--out", tmp_path)
    server, alice = tmp_path / "server.pub", tmp_path / "alice.pub"
    before = files(tmp_path)
    for pubs, why in (
        ((alice,), "0 of these files are keys of a server"),
        ((server, server, alice), "2 of these files are keys of a server"),
        ((server, alice, alice), "two of these files belong to the same party"),
        ((server, tmp_path / "alice.key"), "is not a securefl public identity file"),
    ):
        arguments = [option for pub in pubs for option in ("--roster", pub)]
        assert why in refusal(call("keygen", *arguments, "--out", tmp_path))
    assert files(tmp_path) == before


def test_a_folder_that_cannot_be_made_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert "cannot be made" in refusal(call("keygen", "--party", "a", "--out", tmp_path / "file" / "x"))


@pytest.mark.parametrize("name", ["all", "observer"])
def test_a_reserved_name_is_called_one(name: str, tmp_path: Path) -> None:
    reason = refusal(call("keygen", "--party", name, "--out", tmp_path))
    assert reason == f"--party: {name!r} is a reserved name (choose another one)"
    assert files(tmp_path) == set()
