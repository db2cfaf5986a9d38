"""The throw-away certificates verify, name the right people, and are readable by their owner only."""

from __future__ import annotations

import os
import ssl
import subprocess
import sys
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.x509.oid import NameOID

from securefl.base.errors import UsageError
from securefl.runtime.transport.local_tls import LocalTls, make_local_tls


@pytest.fixture(scope="module")
def tls(tmp_path_factory: pytest.TempPathFactory) -> LocalTls:
    return make_local_tls(tmp_path_factory.mktemp("x") / "tls", ["server", "p1"])


def handshake(tls: LocalTls, trusted: Path, client: str | None, host: str) -> str:
    """Shake hands in memory; return the common name that the broker sees."""
    broker_context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=tls.ca_file)
    broker_context.load_cert_chain(tls.server_cert, tls.server_key)
    broker_context.verify_mode = ssl.CERT_REQUIRED
    client_context = ssl.create_default_context(cafile=trusted)
    if client is not None:
        client_context.load_cert_chain(*tls.clients[client])
    to_broker, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    broker = broker_context.wrap_bio(to_broker, to_client, server_side=True)
    other = client_context.wrap_bio(to_client, to_broker, server_hostname=host)
    for _ in range(4):
        for side in (other, broker):
            try:
                side.do_handshake()
            except ssl.SSLWantReadError:
                continue
    der = broker.getpeercert(binary_form=True)
    assert der is not None
    (name,) = x509.load_der_x509_certificate(der).subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    return str(name.value)


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "::1"])
def test_both_sides_accept_each_other(tls: LocalTls, host: str) -> None:
    assert handshake(tls, tls.ca_file, "p1", host) == "p1"


def test_other_hosts_authorities_and_strangers_are_refused(tls: LocalTls, tmp_path: Path) -> None:
    other = make_local_tls(tmp_path, [])
    with pytest.raises(ssl.SSLCertVerificationError):
        handshake(tls, tls.ca_file, "p1", "broker.example")
    with pytest.raises(ssl.SSLCertVerificationError):
        handshake(tls, other.ca_file, "p1", "localhost")
    with pytest.raises(ssl.SSLError):
        handshake(tls, tls.ca_file, None, "localhost")


def test_a_client_certificate_is_no_broker_certificate(tls: LocalTls) -> None:
    posing = LocalTls(tls.ca_file, *tls.clients["p1"], tls.clients)
    with pytest.raises(ssl.SSLCertVerificationError):
        handshake(posing, tls.ca_file, "p1", "localhost")


def test_files_are_private_and_the_authority_key_is_gone(tls: LocalTls) -> None:
    directory = tls.ca_file.parent
    assert directory.stat().st_mode & 0o777 == 0o700
    files = sorted(path.name for path in directory.iterdir())
    assert files == sorted(
        ["ca.crt", "broker.crt", "broker.key"]
        + [f"client-{name}.{kind}" for name in ("server", "p1") for kind in ("crt", "key")]
    )
    assert all(path.stat().st_mode & 0o777 == 0o600 for path in directory.iterdir())


def test_names_and_roles(tls: LocalTls) -> None:
    certificate = x509.load_pem_x509_certificate(tls.clients["p1"].cert_file.read_bytes())
    (name,) = certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    assert name.value == "p1"
    assert not certificate.extensions.get_extension_for_class(x509.BasicConstraints).value.ca


@pytest.mark.parametrize("name", ["", "a/b", "../x", ".", "a+", "#", "x" * 65, "nul\0"])
def test_impossible_names(name: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError):
        make_local_tls(tmp_path, [name])


def test_making_them_again_replaces_them(tmp_path: Path) -> None:
    first = make_local_tls(tmp_path, ["p1"])
    before = first.ca_file.read_bytes()
    again = make_local_tls(tmp_path, ["p1"])
    assert again.ca_file.read_bytes() != before
    assert handshake(again, again.ca_file, "p1", "localhost") == "p1"


@pytest.mark.skipif(not hasattr(os, "memfd_create"), reason="keys are in memory on Linux only")
def test_keys_in_memory_are_in_no_file_and_serve_other_processes(tmp_path: Path) -> None:
    tls = make_local_tls(tmp_path / "tls", ["p1"], keys_in_memory=True)
    assert {path.suffix for path in (tmp_path / "tls").iterdir()} == {".crt"}
    files = tls.clients["p1"]
    load = "import ssl, sys; ssl.create_default_context().load_cert_chain(*sys.argv[1:])"
    subprocess.run([sys.executable, "-c", load, files.cert_file, files.key_file], check=True)
    assert files.key_file.stat().st_mode & 0o777 == 0o600
    tls.close()
    assert not files.key_file.exists()
