"""No private key leaves the machine that made it: a search of all files elsewhere, in each usual form."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from pathlib import Path

from cryptography.hazmat.primitives import serialization

from securefl.base.crypto.keyfiles import read_identity
from securefl.runtime.provision.certificates import read_key
from tests.unit.provision.machines import MACHINES, Machines, done


def forms(secret: bytes) -> Iterator[bytes]:
    """The bytes, in hexadecimal digits, and in Base64 at each of the three offsets in a longer text."""
    yield secret
    yield secret.hex().encode()
    yield secret.hex().upper().encode()
    for before in range(3):
        encoded = base64.b64encode(bytes(before) + secret)
        # The first and last characters also depend on the bytes around.
        inner = encoded[4 if before else 0 : -4]
        yield inner
        yield inner.replace(b"+", b"-").replace(b"/", b"_")


def secrets_of(folder: Path) -> dict[str, bytes]:
    """Every private number of a machine, from all its sets of keys."""
    found = {}
    for path in sorted(folder.rglob("*.key")):
        where = str(path.relative_to(folder))
        if path.name.endswith(".tls.key") or path.name == "authority.key":
            key = read_key(path)
            found[where] = key.private_numbers().private_value.to_bytes(32, "big")
            raw = key.private_bytes(
                serialization.Encoding.DER,
                serialization.PrivateFormat.PKCS8,
                serialization.NoEncryption(),
            )
            found[f"{where} (PKCS 8)"] = raw
            # A line of the PEM file is Base64 of the whole at offset 0.
            found[f"{where} (PEM)"] = b"".join(path.read_bytes().splitlines()[1:-1])
        else:
            identity = read_identity(path)
            found[f"{where} (signing)"] = identity.signing_key
            found[f"{where} (sealing)"] = identity.sealing_key
    return found


def leaks(folder: Path) -> list[str]:
    """Files outside of a machine's folder that hold one of its private keys."""
    owners = {place: secrets_of(place) for place in sorted(folder.iterdir()) if place.is_dir()}
    assert all(owners.values())
    files = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    joined = {path: content.replace(b"\\n", b"").replace(b"\n", b"") for path, content in files.items()}
    return [
        f"{secret} of {owner.name} in {path.relative_to(folder)}"
        for owner, secrets in owners.items()
        for secret, value in secrets.items()
        for form in forms(value)
        for path, content in files.items()
        if not path.is_relative_to(owner) and (form in content or form in joined[path])
    ]


def test_no_private_key_leaves_its_machine(kits: Machines) -> None:
    kits.request("p00", "--rotate")
    kits.request("broker", "--rotate")
    kits.sign("p00", "broker")
    done("renew", kits.operator, "p01")
    done("revoke", kits.operator, "p02", "--reason", "lost")
    kits.request("p02", "--rotate")
    kits.sign("p02")
    kits.accept(*MACHINES)
    places = {path.name for path in kits.folder.iterdir() if path.is_dir()}
    assert places == {"op", *MACHINES}
    assert leaks(kits.folder) == []


def test_public_files_of_a_machine_hold_no_key(kits: Machines) -> None:
    """Also within its own folder, a key is in its own file only: requests and kits may be shown around."""
    for name in (*MACHINES, "op"):
        folder = kits.at(name)
        for secret, value in secrets_of(folder).items():
            own = folder / secret.partition(" ")[0]
            for path in folder.rglob("*"):
                if path.is_file() and path != own:
                    content = path.read_bytes()
                    assert not any(form in content for form in forms(value)), (secret, path)


def test_the_search_finds_each_form(kits: Machines) -> None:
    """The search itself: a key in a file elsewhere is found in each form."""
    identity = read_identity(kits.at("p00") / "keys-1" / "p00.key")
    tls = kits.at("p00") / "keys-1" / "p00.tls.key"
    number = read_key(tls).private_numbers().private_value.to_bytes(32, "big")
    planted = [
        identity.signing_key,
        identity.sealing_key.hex().encode(),
        base64.b64encode(b"{" + identity.signing_key + b"}"),
        base64.urlsafe_b64encode(b"ab" + number + b"c"),
        tls.read_bytes(),
        tls.read_bytes().replace(b"\n", b"\\n"),
    ]
    for content in planted:
        path = kits.at("p01") / "found"
        path.write_bytes(b"some " + content + b" more")
        found = leaks(kits.folder)
        assert found != []
        assert all(one.endswith("of p00 in p01/found") for one in found)
        path.unlink()


def test_private_files_are_for_their_owner(kits: Machines) -> None:
    for path in kits.folder.rglob("*"):
        if path.suffix in {".key", ".account"}:
            assert path.stat().st_mode & 0o077 == 0, path


def test_nothing_printed_is_private(tmp_path: Path) -> None:
    told = done("request", "--name", "p00", "--out", tmp_path)
    for value in secrets_of(tmp_path).values():
        assert not any(form in told.encode() for form in forms(value))
