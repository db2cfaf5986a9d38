"""What a client asks of a broker's certificate, and of its own."""

from __future__ import annotations

import ssl
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.x509.oid import ExtendedKeyUsageOID

from securefl.base.errors import ConfigError
from securefl.runtime.transport.base import parse_broker_url
from securefl.runtime.transport.connecting import tls_context
from securefl.runtime.transport.local_tls import LocalTls, make_local_tls


@pytest.fixture(scope="module")
def tls(tmp_path_factory: pytest.TempPathFactory) -> LocalTls:
    return make_local_tls(tmp_path_factory.mktemp("x") / "tls", ["p1", "p2"])


def test_the_brokers_name_and_certificate_are_checked_under_tls_1_2_or_later(tls: LocalTls) -> None:
    context = tls_context(parse_broker_url("mqtts://localhost", ca_file=tls.ca_file))
    assert context.check_hostname
    assert context.verify_mode is ssl.CERT_REQUIRED
    assert context.minimum_version is ssl.TLSVersion.TLSv1_2
    (authority,) = context.get_ca_certs()
    assert "securefl local test authority" in str(authority["subject"])


def test_the_own_certificate_needs_its_own_key(tls: LocalTls) -> None:
    def context(certificate: Path, key: Path) -> ssl.SSLContext:
        url = parse_broker_url("mqtts://localhost", ca_file=tls.ca_file, cert_file=certificate, key_file=key)
        return tls_context(url)

    one, two = tls.clients["p1"], tls.clients["p2"]
    assert context(one.cert_file, one.key_file)
    with pytest.raises(ConfigError, match="not a certificate with its unencrypted key"):
        context(one.cert_file, two.key_file)


def test_no_client_is_an_authority(tls: LocalTls) -> None:
    for file in (tls.server_cert, *(client.cert_file for client in tls.clients.values())):
        certificate = x509.load_pem_x509_certificate(file.read_bytes())
        assert not certificate.extensions.get_extension_for_class(x509.BasicConstraints).value.ca


def test_certificates_serve_one_side_only(tls: LocalTls) -> None:
    def serves(file: Path) -> list[x509.ObjectIdentifier]:
        certificate = x509.load_pem_x509_certificate(file.read_bytes())
        return list(certificate.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value)

    assert serves(tls.server_cert) == [ExtendedKeyUsageOID.SERVER_AUTH]
    for client in tls.clients.values():
        assert serves(client.cert_file) == [ExtendedKeyUsageOID.CLIENT_AUTH]
