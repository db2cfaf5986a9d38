"""Certificates of a federation: authority, requests, certificates of machines, list of revoked ones.

All keys are P-256. The common name of a certificate is its holder, by which the broker knows a client. Only
the broker's certificate is for servers and names hosts; the others are for clients.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import Final, NamedTuple

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from securefl.base import crypto, files
from securefl.base.errors import ConfigError

TlsKey = ec.EllipticCurvePrivateKey
TlsPublicKey = ec.EllipticCurvePublicKey
AUTHORITY_DAYS: Final = 3_650
"""Validity of the authority; no certificate outlives it."""
_SLACK: Final = timedelta(minutes=5)
"""Clocks of the machines may differ by this."""
_UNREADABLE: Final = (ValueError, TypeError, InvalidSignature, UnsupportedAlgorithm, x509.InvalidVersion)
"""Errors of ``cryptography`` for text from elsewhere."""


class Revoked(NamedTuple):
    """Entry of the list of revoked certificates."""

    serial: int
    time: datetime
    compromised: bool
    """True if the key may be known to others."""


def new_key() -> TlsKey:
    """Generate a P-256 key from the operating system's randomness."""
    return ec.generate_private_key(ec.SECP256R1())


def write_key(path: Path, key: TlsKey) -> None:
    """Write a private key for its owner only; never replace a file.

    Raises:
        ConfigError: the file exists, or cannot be written.
    """
    encoded = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    try:
        with os.fdopen(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "wb") as file:
            file.write(encoded)
            file.flush()
            os.fsync(file.fileno())
    except FileExistsError:
        raise ConfigError(
            str(path), "exists already", "choose another folder or move the file away"
        ) from None
    except OSError as error:
        path.unlink(missing_ok=True)
        raise ConfigError(
            str(path), f"cannot be written: {error.strerror}", "choose a folder that you may write"
        ) from error


def read_key(path: Path) -> TlsKey:
    """Read a private key.

    Raises:
        ConfigError: the file cannot be read, other users can read it, or it holds no P-256 key.
    """
    remedy = "restore it; it is made by securefl provision on this machine"
    with files.reading(path, remedy), path.open("rb") as file:
        shared, raw = bool(os.fstat(file.fileno()).st_mode & 0o077), file.read(65_536)
    if shared:
        raise ConfigError(str(path), "can be read by other users", f"chmod 600 {path}")
    try:
        key = serialization.load_pem_private_key(raw, None)
    except (ValueError, TypeError):
        key = None
    if not isinstance(key, ec.EllipticCurvePrivateKey) or not isinstance(key.curve, ec.SECP256R1):
        raise ConfigError(str(path), "is not a P-256 private key without a password", remedy)
    return key


def point_of(key: TlsPublicKey) -> bytes:
    """Return a public key as bytes, equal only for equal keys."""
    return key.public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)


def make_csr(key: TlsKey, name: str) -> str:
    """Return a request for a certificate with this common name, signed by its key (PEM)."""
    builder = x509.CertificateSigningRequestBuilder().subject_name(_subject(name))
    return _text(builder.sign(key, hashes.SHA256()))


def read_csr(text: str, name: str, source: str) -> TlsPublicKey:
    """Return the key of a request for a certificate after all checks.

    Raises:
        ConfigError: it is damaged, names another holder, has another kind of key, or its signature is wrong.
    """
    remedy = "ask the site for a new request: securefl provision request"
    try:
        csr = x509.load_pem_x509_csr(text.encode())
        key, names, signed = csr.public_key(), _common_names(csr.subject), csr.is_signature_valid
    except _UNREADABLE as error:
        raise ConfigError(source, "field csr is not a certificate request", remedy) from error
    if names != [name]:
        raise ConfigError(source, f"field csr names {names}, and the request is of {name}", remedy)
    if not isinstance(key, ec.EllipticCurvePublicKey) or not isinstance(key.curve, ec.SECP256R1):
        raise ConfigError(source, "field csr has no P-256 key", remedy)
    if not signed:
        raise ConfigError(source, "field csr is not signed by its own key", remedy)
    return key


def sign_tls(key: TlsKey, message: bytes) -> bytes:
    """Return the ECDSA signature of a message."""
    return key.sign(message, ec.ECDSA(hashes.SHA256()))


def verify_tls(key: TlsPublicKey, message: bytes, signature: bytes) -> bool:
    """Return True if the owner of the key signed exactly these bytes."""
    try:
        key.verify(signature, message, ec.ECDSA(hashes.SHA256()))
    except InvalidSignature:
        return False
    return True


def make_authority(key: TlsKey, name: str, now: datetime) -> str:
    """Return the certificate of a new authority (PEM)."""
    subject = _subject(f"securefl {name} authority")
    return _text(
        _builder(subject, subject, key.public_key(), now, timedelta(days=AUTHORITY_DAYS))
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(signs_certificates=True), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .sign(key, hashes.SHA256())
    )


def issue(
    authority: str,
    authority_key: TlsKey,
    name: str,
    key: TlsPublicKey,
    days: int,
    now: datetime,
    hosts: Iterable[str] = (),
) -> str:
    """Return a certificate (PEM).

    Args:
        authority: certificate of the authority (PEM).
        authority_key: its key.
        name: common name of the holder.
        key: of the holder.
        days: validity; the authority's end limits it.
        now: time of issue.
        hosts: names and addresses of a broker; none for a client.

    Raises:
        ConfigError: the authority has expired.
    """
    issuer = x509.load_pem_x509_certificate(authority.encode())
    left = issuer.not_valid_after_utc - now
    if left <= timedelta():
        raise ConfigError(
            "authority", f"has expired on {_day(issuer.not_valid_after_utc)}", "begin a new project"
        )
    usage = ExtendedKeyUsageOID.SERVER_AUTH if hosts else ExtendedKeyUsageOID.CLIENT_AUTH
    builder = (
        _builder(_subject(name), issuer.subject, key, now, min(timedelta(days=days), left))
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(signs_certificates=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([usage]), critical=False)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(authority_key.public_key()), critical=False
        )
    )
    if hosts:
        names = [_general_name(host) for host in hosts]
        builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
    return _text(builder.sign(authority_key, hashes.SHA256()))


def make_crl(authority: str, authority_key: TlsKey, revoked: Iterable[Revoked], now: datetime) -> str:
    """Return the list of revoked certificates (PEM).

    It is valid as long as the authority: a broker with a list past its date refuses all clients.
    """
    issuer = x509.load_pem_x509_certificate(authority.encode())
    number = int(now.timestamp())
    builder = (
        x509.CertificateRevocationListBuilder()
        .issuer_name(issuer.subject)
        .last_update(now - _SLACK)
        .next_update(issuer.not_valid_after_utc)
        .add_extension(x509.CRLNumber(number), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(authority_key.public_key()), critical=False
        )
    )
    for one in revoked:
        reason = x509.ReasonFlags.key_compromise if one.compromised else x509.ReasonFlags.superseded
        builder = builder.add_revoked_certificate(
            x509.RevokedCertificateBuilder()
            .serial_number(one.serial)
            .revocation_date(one.time)
            .add_extension(x509.CRLReason(reason), critical=False)
            .build()
        )
    return _text(builder.sign(authority_key, hashes.SHA256()))


def check_crl(text: str, authority: str, serials: Iterable[int], source: str) -> None:
    """Check a list of revoked certificates.

    Raises:
        ConfigError: it is not the authority's, or lacks one of ``serials``.
    """
    remedy = "ask the operator for a new answer"
    issuer = x509.load_pem_x509_certificate(authority.encode()).public_key()
    try:
        crl = x509.load_pem_x509_crl(text.encode())
        valid = isinstance(issuer, ec.EllipticCurvePublicKey) and crl.is_signature_valid(issuer)
    except _UNREADABLE as error:
        raise ConfigError(source, "field crl is not a list of revoked certificates", remedy) from error
    if not valid:
        raise ConfigError(source, "field crl is not signed by the authority", remedy)
    if {one.serial_number for one in crl} != set(serials):
        raise ConfigError(source, "field crl does not fit the history", remedy)


class TlsCertificate:
    """Certificate of a machine or an authority.

    Args:
        text: PEM.
        source: name in errors.

    Raises:
        ConfigError: it is not a certificate with a P-256 key.
    """

    def __init__(self, text: str, source: str) -> None:
        self.text = text
        self._source = source
        try:
            self._x509 = x509.load_pem_x509_certificate(text.encode())
            key = self._x509.public_key()
        except _UNREADABLE as error:
            raise ConfigError(source, "is not a certificate", _NEW_ANSWER) from error
        if not isinstance(key, ec.EllipticCurvePublicKey):
            raise ConfigError(source, "has no P-256 key", _NEW_ANSWER)
        self.key = key

    @property
    def serial(self) -> int:
        """Serial number."""
        return self._x509.serial_number

    @property
    def ends(self) -> datetime:
        """End of its validity."""
        return self._x509.not_valid_after_utc

    @property
    def fingerprint(self) -> str:
        """SHA-256 of the certificate, as ``openssl x509 -fingerprint`` shows it without colons."""
        return self._x509.fingerprint(hashes.SHA256()).hex()

    def names_host(self, host: str) -> bool:
        """Return True if the certificate is valid for this host name or address."""
        try:
            names = self._x509.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        except x509.ExtensionNotFound:
            return False
        return _general_name(host) in names

    def check_issued(self, authority: TlsCertificate, name: str) -> None:
        """Check issuer and holder.

        Raises:
            ConfigError: the authority did not sign it, or it is another name's.
        """
        try:
            self._x509.verify_directly_issued_by(authority._x509)
        except _UNREADABLE as error:
            raise ConfigError(
                self._source, "is not signed by the project's authority", _NEW_ANSWER
            ) from error
        if _common_names(self._x509.subject) != [name]:
            raise ConfigError(self._source, f"is not a certificate of {name}", _NEW_ANSWER)

    def check_dates(self, now: datetime) -> None:
        """Check the dates.

        Raises:
            ConfigError: it is not valid at ``now``.
        """
        if now > self.ends:
            raise ConfigError(
                self._source,
                f"has expired on {_day(self.ends)}",
                "ask the operator to renew it: securefl provision renew",
            )
        if now < self._x509.not_valid_before_utc:
            raise ConfigError(
                self._source,
                f"is valid from {_day(self._x509.not_valid_before_utc)} on only",
                "set this machine's clock",
            )


_NEW_ANSWER: Final = "ask the operator for a new answer: securefl provision sign"


def utc_now() -> datetime:
    """Return the time in whole seconds."""
    return datetime.now(UTC).replace(microsecond=0)


def fingerprint_of(name: str, key: TlsPublicKey, public: crypto.PublicIdentity | None) -> str:
    """Return the fingerprint of all keys in a request, for people to compare: 80 bits."""
    own = (public.verify_key, public.seal_key) if public is not None else ()
    text = crypto.digest("provision fingerprint", name, point_of(key), *own).hex()[:20]
    return "-".join(text[at : at + 4] for at in range(0, len(text), 4))


def _subject(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _common_names(subject: x509.Name) -> list[str]:
    return [str(one.value) for one in subject]


def _general_name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ip_address(host.strip("[]")))
    except ValueError:
        return x509.DNSName(host)


def _builder(
    subject: x509.Name,
    issuer: x509.Name,
    key: TlsPublicKey,
    now: datetime,
    lifetime: timedelta,
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _SLACK)
        .not_valid_after(now + lifetime)
    )


def _usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        encipher_only=False,
        decipher_only=False,
    )


def _text(
    signed: x509.Certificate | x509.CertificateSigningRequest | x509.CertificateRevocationList,
) -> str:
    return signed.public_bytes(serialization.Encoding.PEM).decode()


def _day(time: datetime) -> str:
    return f"{time:%Y-%m-%d}"
