"""Throw-away certificate authority for demos and tests on one machine.

Real deployments need their own: this authority's key is discarded, and nothing can be added or revoked later.
"""

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from ipaddress import IPv4Address, IPv6Address
from pathlib import Path
from typing import NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from securefl.base.errors import UsageError

_LIFETIME = timedelta(days=30)


class ClientFiles(NamedTuple):
    """PEM files of one client. With keys in memory ``key_file`` is not on disk."""

    cert_file: Path
    key_file: Path


@dataclass(frozen=True, slots=True)
class LocalTls:
    """Files of the authority; ``clients`` by party name, the certificate's common name."""

    ca_file: Path
    server_cert: Path
    server_key: Path
    clients: Mapping[str, ClientFiles]
    _held: tuple[int, ...] = ()

    def close(self) -> None:
        """Close keys in memory. Files stay."""
        for memory in self._held:
            os.close(memory)


def make_local_tls(directory: Path, names: Iterable[str], *, keys_in_memory: bool = False) -> LocalTls:
    """Create an authority, a certificate for a broker on this machine and one per name (P-256, 30 days).

    All files have mode 0600, a new ``directory`` 0700. The broker's certificate is valid for ``localhost``,
    ``127.0.0.1`` and ``::1`` only. With ``keys_in_memory`` (Linux; elsewhere ignored) private keys are memory
    of this process (memfd_create(2)) until its end or :meth:`LocalTls.close`; processes of the same user can
    open them.

    Raises:
        UsageError: a name that cannot be a common name or a file name.
    """
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    ca_key = ec.generate_private_key(ec.SECP256R1())
    ca_name = _name("securefl local test authority")
    ca_usage = x509.KeyUsage(
        digital_signature=False,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=True,
        crl_sign=True,
        encipher_only=False,
        decipher_only=False,
    )
    ca = (
        _certificate_builder(ca_name, ca_name, ca_key.public_key())
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(ca_usage, critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(ca_key.public_key()), critical=False)
        .sign(ca_key, hashes.SHA256())
    )

    def issue(stem: str, common_name: str, usage: x509.ObjectIdentifier, hosts: bool) -> ClientFiles:
        key = ec.generate_private_key(ec.SECP256R1())
        builder = (
            _certificate_builder(_name(common_name), ca_name, key.public_key())
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(x509.ExtendedKeyUsage([usage]), critical=False)
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_public_key(ca_key.public_key()), critical=False
            )
        )
        if hosts:
            local: list[x509.GeneralName] = [
                x509.DNSName("localhost"),
                x509.IPAddress(IPv4Address("127.0.0.1")),
                x509.IPAddress(IPv6Address("::1")),
            ]
            builder = builder.add_extension(x509.SubjectAlternativeName(local), critical=False)
        certificate = builder.sign(ca_key, hashes.SHA256())
        cert_file = directory / f"{stem}.crt"
        _write(cert_file, certificate.public_bytes(serialization.Encoding.PEM))
        encoded = key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        if keys_in_memory and hasattr(os, "memfd_create"):
            held.append(_remember(stem, encoded))
            return ClientFiles(cert_file, Path(f"/proc/{os.getpid()}/fd/{held[-1]}"))
        key_file = directory / f"{stem}.key"
        _write(key_file, encoded)
        return ClientFiles(cert_file, key_file)

    held: list[int] = []
    ca_file = directory / "ca.crt"
    _write(ca_file, ca.public_bytes(serialization.Encoding.PEM))
    broker = issue("broker", "localhost", ExtendedKeyUsageOID.SERVER_AUTH, hosts=True)
    clients: dict[str, ClientFiles] = {}
    for name in names:
        if not name or len(name) > 64 or set(name) & set("/\\+#\0") or name.startswith("."):
            raise UsageError(
                "name of a client certificate must have 1 to 64 characters, no leading dot, none of / \\"
                f" + # NUL; found {name!r}"
            )
        clients[name] = issue(f"client-{name}", name, ExtendedKeyUsageOID.CLIENT_AUTH, hosts=False)
    return LocalTls(ca_file, broker.cert_file, broker.key_file, clients, tuple(held))


def _name(common_name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def _certificate_builder(
    subject: x509.Name, issuer: x509.Name, public_key: ec.EllipticCurvePublicKey
) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(public_key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(minutes=5))
        .not_valid_after(now + _LIFETIME)
    )


def _remember(name: str, content: bytes) -> int:
    """Write an anonymous file that only this user can read; return its descriptor."""
    memory = os.memfd_create(name)
    os.fchmod(memory, 0o600)
    os.write(memory, content)
    return memory


def _write(path: Path, content: bytes) -> None:
    """Write a file that only this user can read from the start."""
    path.unlink(missing_ok=True)
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(content)
