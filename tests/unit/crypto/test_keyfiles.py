from __future__ import annotations

import os
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest

from securefl.base.crypto.identity import Identity
from securefl.base.crypto.keyfiles import (
    read_identity,
    read_public,
    read_roster,
    write_identity,
    write_public,
    write_roster,
)
from securefl.base.crypto.roster import Roster
from securefl.base.entropy import InsecureSeededEntropy
from securefl.base.errors import ConfigError
from securefl.base.ids import SERVER, PartyId

ALICE, BOB, CHIEF = (
    Identity.generate(PartyId(name), InsecureSeededEntropy(3).child(name))
    for name in ("alice", "bob", SERVER)
)
ROSTER = Roster(CHIEF.public, {ALICE.name: ALICE.public, BOB.name: BOB.public})
SECRETS = (ALICE.signing_key.hex(), ALICE.sealing_key.hex())
Edit = Callable[[str], str]


def names_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def edited(path: Path, edit: Edit) -> Path:
    before = path.read_text()
    after = edit(before)
    assert after != before
    path.write_text(after)
    return path


def test_round_trips(tmp_path: Path) -> None:
    write_identity(tmp_path / "alice.key", ALICE)
    write_public(tmp_path / "alice.pub", ALICE.public)
    write_roster(tmp_path / "roster", ROSTER)
    assert read_identity(tmp_path / "alice.key") == ALICE
    assert read_public(tmp_path / "alice.pub") == ALICE.public
    assert read_roster(tmp_path / "roster") == ROSTER
    assert names_in(tmp_path) == ["alice.key", "alice.pub", "roster"]


def test_files_say_what_they_are(tmp_path: Path) -> None:
    write_identity(tmp_path / "key", ALICE)
    write_public(tmp_path / "pub", ALICE.public)
    write_roster(tmp_path / "roster", ROSTER)
    private, public, roster = ((tmp_path / name).read_text() for name in ("key", "pub", "roster"))
    assert "SECRET. This is the private identity of alice" in private[:200]
    assert public.startswith("# The public identity of alice")
    assert ALICE.public.fingerprint() in public
    assert roster.startswith("# The roster")
    assert ROSTER.digest().hex() in roster
    for text in (public, roster):
        assert not any(secret in text for secret in SECRETS)
    assert all(tomllib.loads(text)["kind"] for text in (private, public, roster))


@pytest.mark.parametrize("umask", [0o000, 0o022, 0o077])
def test_a_private_file_is_its_owners_alone(tmp_path: Path, umask: int) -> None:
    before = os.umask(umask)
    try:
        write_identity(tmp_path / "key", ALICE)
    finally:
        os.umask(before)
    assert (tmp_path / "key").stat().st_mode & 0o7777 == 0o600


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o660, 0o644, 0o601, 0o777])
def test_a_private_file_that_others_can_use_is_refused(tmp_path: Path, mode: int) -> None:
    write_identity(tmp_path / "key", ALICE)
    (tmp_path / "key").chmod(mode)
    with pytest.raises(ConfigError) as caught:
        read_identity(tmp_path / "key")
    assert caught.value.path == str(tmp_path / "key")
    assert caught.value.remedy == f"chmod 600 {tmp_path / 'key'}"


def test_nothing_is_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("precious")
    with pytest.raises(ConfigError, match="exists already"):
        write_identity(path, ALICE)
    with pytest.raises(ConfigError, match="exists already"):
        write_public(path, ALICE.public)
    with pytest.raises(ConfigError, match="exists already"):
        write_roster(path, ROSTER)
    assert path.read_text() == "precious"
    assert names_in(tmp_path) == ["file"]


def test_a_dangling_link_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "key").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ConfigError, match="exists already"):
        write_identity(tmp_path / "key", ALICE)
    assert not (tmp_path / "elsewhere").exists()


def test_a_failed_write_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(ConfigError, match="No space left"):
        write_identity(tmp_path / "key", ALICE)
    assert names_in(tmp_path) == []


def test_missing_folders_and_files_are_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be written"):
        write_identity(tmp_path / "no" / "key", ALICE)
    for read in (read_identity, read_public, read_roster):
        with pytest.raises(ConfigError, match="cannot be read"):
            read(tmp_path / "none")
        with pytest.raises(ConfigError, match="cannot be read"):
            read(tmp_path)


def test_kinds_are_not_mixed_up(tmp_path: Path) -> None:
    write_identity(tmp_path / "key", ALICE)
    write_public(tmp_path / "pub", ALICE.public)
    write_roster(tmp_path / "roster", ROSTER)
    (tmp_path / "pub").chmod(0o600)
    (tmp_path / "roster").chmod(0o600)
    for read, own in ((read_identity, "key"), (read_public, "pub"), (read_roster, "roster")):
        for other in {"key", "pub", "roster"} - {own}:
            with pytest.raises(ConfigError, match="is not a securefl"):
                read(tmp_path / other)


def swap(text: str, one: bytes, other: bytes) -> str:
    return text.replace(one.hex(), other.hex())


BAD_PRIVATE: dict[str, tuple[Edit, str]] = {
    "signing key of another": (
        lambda t: swap(t, ALICE.signing_key, BOB.signing_key),
        "private and public key do not match: the file was edited or damaged",
    ),
    "sealing key of another": (
        lambda t: swap(t, ALICE.sealing_key, BOB.sealing_key),
        "private and public key do not match: the file was edited or damaged",
    ),
    "verify key of another": (
        lambda t: swap(t, ALICE.public.verify_key, BOB.public.verify_key),
        "private and public key do not match: the file was edited or damaged",
    ),
    "seal key of another": (
        lambda t: swap(t, ALICE.public.seal_key, BOB.public.seal_key),
        "private and public key do not match: the file was edited or damaged",
    ),
    "one digit less": (lambda t: swap(t, ALICE.signing_key, ALICE.signing_key[:-1]), "signing_key is not 64"),
    "one byte more": (lambda t: t.replace(SECRETS[1], SECRETS[1] + "00"), "sealing_key is not 64"),
    "no hex digit": (lambda t: t.replace(SECRETS[0], "g" + SECRETS[0][1:]), "signing_key is not 64"),
    "upper case": (lambda t: t.replace(SECRETS[0], SECRETS[0].upper()), "signing_key is not 64"),
    "broken quotes": (lambda t: t.replace(SECRETS[0] + '"', SECRETS[0]), "is not TOML"),
    "a key left out": (lambda t: t.replace("signing_key", "# signing_key"), "has no field signing_key"),
    "is not a field": (lambda t: t + 'extra = "1"\n', "unknown fields: 'extra'"),
    "number for a key": (lambda t: t.replace(f'"{SECRETS[0]}"', "7"), "signing_key is not 64"),
    "number for the name": (lambda t: t.replace('"alice"', "7"), "its field name is not a valid party name"),
    "name with a slash": (
        lambda t: t.replace('"alice"', '"../alice"'),
        "its field name is not a valid party name",
    ),
    "another kind": (lambda t: t.replace('kind = "', 'kind = "other '), "is not a securefl private"),
    "no kind": (lambda t: t.replace("kind", "# kind"), "is not a securefl private"),
    "lists no party": (lambda _: "", "is not a securefl private"),
    "nested too deeply": (lambda _: "a = " + "[" * 100_000, "is not TOML"),
}


@pytest.mark.parametrize("name", BAD_PRIVATE)
def test_bad_private_files_are_refused_without_quoting_a_secret(tmp_path: Path, name: str) -> None:
    edit, reason = BAD_PRIVATE[name]
    write_identity(tmp_path / "key", ALICE)
    with pytest.raises(ConfigError, match=reason) as caught:
        read_identity(edited(tmp_path / "key", edit))
    assert caught.value.path == str(tmp_path / "key")
    seen: BaseException | None = caught.value
    while seen is not None:
        assert not any(secret[1:20] in str(seen).lower() for secret in SECRETS)
        seen = None if seen.__suppress_context__ else seen.__cause__ or seen.__context__


@pytest.mark.parametrize("raw", [b"\xff\xfe", b"kind = \x00", bytes(100)])
def test_what_is_no_text_is_refused(tmp_path: Path, raw: bytes) -> None:
    (tmp_path / "file").write_bytes(raw)
    (tmp_path / "file").chmod(0o600)
    for read in (read_identity, read_public, read_roster):
        with pytest.raises(ConfigError, match="is not TOML"):
            read(tmp_path / "file")


def without_server(text: str) -> str:
    return text[: text.index('[[member]]\nname = "server"')]


BAD_ROSTER: dict[str, tuple[Edit, str]] = {
    "no server": (without_server, "lists no server"),
    "no party": (
        lambda t: t[: t.index("\n[[")] + t[t.index('\n[[member]]\nname = "server"') :],
        "lists no party",
    ),
    "twice the same name": (lambda t: t.replace('"bob"', '"alice"'), "alice occurs more than once"),
    "twice the same key": (
        lambda t: swap(t, BOB.public.seal_key, ALICE.public.seal_key),
        ": alice, bob",
    ),
    "low order": (lambda t: swap(t, BOB.public.seal_key, bytes(32)), "low order"),
    "is not a field": (lambda t: t + 'extra = "1"\n', "unknown fields"),
    "no member": (lambda t: t[: t.index("\n[[")], "has no field member"),
    "members that are no tables": (lambda t: t[: t.index("\n[[")] + "member = [1]\n", "not a list of tables"),
    "a member that is a table": (lambda t: t[: t.index("\n[[")] + "[member]\n", "not a list of tables"),
    "short key": (lambda t: t.replace(BOB.public.seal_key.hex(), "00"), "seal_key is not 64"),
}


@pytest.mark.parametrize("name", BAD_ROSTER)
def test_bad_rosters_are_refused(tmp_path: Path, name: str) -> None:
    edit, reason = BAD_ROSTER[name]
    write_roster(tmp_path / "roster", ROSTER)
    with pytest.raises(ConfigError, match=reason) as caught:
        read_roster(edited(tmp_path / "roster", edit))
    assert caught.value.path == str(tmp_path / "roster")
