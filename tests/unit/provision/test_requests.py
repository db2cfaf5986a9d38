"""Keys and requests of machines: made once, private, signed by their own keys."""

from __future__ import annotations

import base64
import json
import os
import re
import shutil
import stat
import textwrap
from pathlib import Path

import pytest

from securefl.base.crypto.keyfiles import read_identity
from securefl.base.errors import ConfigError
from securefl.runtime.provision.certificates import make_csr, new_key, read_csr
from securefl.runtime.provision.request import read_request
from securefl.runtime.provision.signed import message_of
from tests.looped import looped
from tests.unit.cli.programs import call, files, refusal
from tests.unit.provision.machines import Machines, begun, changed_file, contents, done


def test_a_machine_makes_its_keys(tmp_path: Path) -> None:
    told = done("request", "--name", "p00", "--out", tmp_path / "p00")
    names = {"p00.key", "p00.tls.key", "p00.account", "p00.request"}
    assert files(tmp_path / "p00") == {"p00.request", "keys-1", *(f"keys-1/{name}" for name in names)}
    for name in ("p00.key", "p00.tls.key", "p00.account"):
        assert stat.S_IMODE((tmp_path / "p00" / "keys-1" / name).stat().st_mode) == 0o600
    for folder in (tmp_path / "p00", tmp_path / "p00" / "keys-1"):
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    request = read_request(tmp_path / "p00" / "p00.request")
    assert request.public == read_identity(tmp_path / "p00" / "keys-1" / "p00.key").public
    assert request.fingerprint in told


def test_server_and_broker_have_what_they_need(tmp_path: Path) -> None:
    for name in ("server", "broker"):
        done("request", "--name", name, "--out", tmp_path / name)
    assert files(tmp_path / "server" / "keys-1") == {"server.key", "server.tls.key", "server.request"}
    assert files(tmp_path / "broker" / "keys-1") == {"broker.tls.key", "broker.request"}
    assert read_request(tmp_path / "broker" / "broker.request").public is None


@looped("name", ["", "P00", "../p00", "all", "operator", "a" * 33, "a/b"])
def test_a_wrong_name_is_refused(name: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("wrong")
    assert "is not a name of a machine" in refusal(
        call("provision", "request", "--name", name, "--out", folder / "x")
    )
    assert files(folder) == set()


def test_keys_are_not_written_over(tmp_path: Path) -> None:
    done("request", "--name", "p00", "--out", tmp_path)
    before = contents(tmp_path)
    assert "keys-1: exists already" in refusal(
        call("provision", "request", "--name", "p00", "--out", tmp_path)
    )
    assert "has no keys of p01" in refusal(
        call("provision", "request", "--name", "p01", "--rotate", "--out", tmp_path)
    )
    assert contents(tmp_path) == before


def test_rotation_keeps_the_former_keys(tmp_path: Path) -> None:
    reason = refusal(call("provision", "request", "--name", "p00", "--rotate", "--out", tmp_path / "x"))
    assert "has no keys that could be replaced" in reason
    done("request", "--name", "p00", "--out", tmp_path)
    before = contents(tmp_path / "keys-1")
    first = read_request(tmp_path / "p00.request")
    done("request", "--name", "p00", "--rotate", "--out", tmp_path)
    second = read_request(tmp_path / "p00.request")
    assert contents(tmp_path / "keys-1") == before
    assert not set(first.keys) & set(second.keys)
    assert (first.body.rotate, second.body.rotate) == (False, True)


def test_a_rotation_after_keys_were_deleted_takes_a_new_number(tmp_path: Path) -> None:
    done("request", "--name", "p00", "--out", tmp_path)
    for _ in range(2):
        done("request", "--name", "p00", "--rotate", "--out", tmp_path)
    shutil.rmtree(tmp_path / "keys-2")
    kept = contents(tmp_path / "keys-3")
    done("request", "--name", "p00", "--rotate", "--out", tmp_path)
    assert contents(tmp_path / "keys-3") == kept
    assert (tmp_path / "keys-4" / "p00.key").exists()


def test_a_folder_that_cannot_be_made_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    reason = refusal(call("provision", "request", "--name", "p00", "--out", tmp_path / "file" / "x"))
    assert "cannot be" in reason
    assert files(tmp_path) == {"file"}


@pytest.mark.parametrize("full_at", range(4))
def test_a_full_disk_leaves_no_keys(full_at: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced = list[int]()

    def fail(handle: int) -> None:
        synced.append(handle)
        if len(synced) > full_at:
            raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", fail)
    result = call("provision", "request", "--name", "p00", "--out", tmp_path)
    assert result.exit_code in {2, 3}
    assert "No space left on device" in result.stderr
    assert files(tmp_path) == set()


CHANGES = [
    ({"name": "p01"}, "is not signed by the key of p01"),
    ({"name": "P"}, "field name: 'P' is not a name"),
    ({"name": "operator"}, "is not a name of a machine"),
    ({"name": "broker"}, "has protocol keys, which a broker does not have"),
    ({"rotate": True}, "is not signed by the key of p00"),
    ({"rotate": 1}, "has a damaged body"),
    ({"verify_key": "0" * 64}, "weak key"),
    ({"verify_key": "A" * 64}, "is not 64 hexadecimal digits"),
    ({"seal_key": "00"}, "is not 64 hexadecimal digits"),
    ({"seal_key": "0" * 64}, "weak key"),
    ({"csr": "x"}, "is not signed by the key of p00"),
    ({"more": 1}, "has a damaged body"),
]


@looped("fields, reason", CHANGES)
def test_a_changed_request_is_refused(
    fields: dict[str, object], reason: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("changed")
    done("request", "--name", "p00", "--out", folder)
    path = changed_file(folder / "p00.request", folder / "changed", **fields)
    with pytest.raises(ConfigError, match=re.escape(reason)) as found:
        read_request(path)
    assert found.value.path == str(path)
    assert found.value.remedy


@looped("text", ["", "{}", "[]", "\xff", '{"kind": "securefl request"}', "[" * 100_000])
def test_other_files_are_no_requests(text: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.mktemp("other") / "x.request"
    path.write_text(text, encoding="latin-1")
    with pytest.raises(ConfigError, match="is not a request"):
        read_request(path)


def test_an_answer_is_no_request(machines: Machines) -> None:
    with pytest.raises(ConfigError, match="is another signed file, not a request"):
        read_request(machines.answer("p00"))


def test_both_keys_have_to_sign(tmp_path: Path) -> None:
    """A request with the TLS key of another machine, or with its CSR, is not made by the owner of both."""
    for name in ("p00", "p01"):
        done("request", "--name", name, "--out", tmp_path / name)
    mine, other = (json.loads((tmp_path / name / f"{name}.request").read_text()) for name in ("p00", "p01"))
    path = tmp_path / "x.request"
    path.write_text(json.dumps(mine | {"tls_signature": other["tls_signature"]}))
    with pytest.raises(ConfigError, match="is not signed by the TLS key"):
        read_request(path)
    path.write_text(json.dumps(mine | {"signature": other["signature"]}))
    with pytest.raises(ConfigError, match="is not signed by the key of p00"):
        read_request(path)


@looped("name, reason", [("p01", "field csr names"), ("p00", "is not signed by the TLS key")])
def test_the_csr_is_of_the_machine_and_its_key(
    name: str, reason: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """The owner of the roster key signs for a TLS key that it does not have."""
    folder = tmp_path_factory.mktemp("csr")
    done("request", "--name", "p00", "--out", folder)
    path = changed_file(folder / "p00.request", folder / "x", csr=make_csr(new_key(), name))
    outer = json.loads(path.read_text())
    identity = read_identity(folder / "keys-1" / "p00.key")
    outer["signature"] = identity.sign(message_of("securefl request", outer["body"])).hex()
    path.write_text(json.dumps(outer))
    with pytest.raises(ConfigError, match=reason):
        read_request(path)


@looped("old, new", [("06082a8648ce3d030107", "06082a8648ce3d03017f"), ("020100", "020140")])
def test_a_csr_of_an_unknown_kind_is_refused(old: str, new: str) -> None:
    text = "".join(make_csr(new_key(), "p00").splitlines()[1:-1])
    der = base64.b64decode(text).replace(bytes.fromhex(old), bytes.fromhex(new), 1)
    lines = ["-----BEGIN CERTIFICATE REQUEST-----", *textwrap.wrap(base64.b64encode(der).decode(), 64)]
    with pytest.raises(ConfigError, match="field csr is not a certificate request"):
        read_csr("\n".join([*lines, "-----END CERTIFICATE REQUEST-----\n"]), "p00", "x.request")


def test_a_request_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    made = begun(tmp_path)
    assert "cannot be read" in refusal(call("provision", "sign", made.operator, tmp_path / "no.request"))
