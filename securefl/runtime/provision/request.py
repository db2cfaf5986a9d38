"""Keys of a machine, made on it, and the request that it sends to the operator.

Each set of keys has a folder of its own, ``keys-1``, ``keys-2`` and so on, which is never changed. Only the
request leaves the machine. It holds public keys, and is signed by both private ones.
"""

from __future__ import annotations

import base64
import os
import re
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct

from securefl.base import crypto, entropy
from securefl.base.errors import ConfigError
from securefl.base.ids import DEALER, SERVER, PartyId
from securefl.runtime import account
from securefl.runtime.provision import certificates, signed
from securefl.runtime.provision.project import WITHOUT_IDENTITY, is_machine

_NEW_REQUEST: Final = "ask the site for a new request: securefl provision request"
_FOLDER: Final = re.compile(r"keys-([1-9]\d*)")


class RequestBody(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Signed content of a request."""

    name: str
    rotate: bool
    """True if these keys replace earlier ones."""
    verify_key: str
    """64 hexadecimal digits; empty for the broker, as is ``seal_key``."""
    seal_key: str
    csr: str
    """Request for a certificate (PEM)."""


@dataclass(frozen=True)
class KeyRequest:
    """Verified request."""

    body: RequestBody
    name: PartyId
    public: crypto.PublicIdentity | None
    tls_key: certificates.TlsPublicKey
    source: str

    @property
    def fingerprint(self) -> str:
        """Fingerprint of all its keys, for people to compare."""
        return certificates.fingerprint_of(self.name, self.tls_key, self.public)

    @property
    def keys(self) -> list[bytes]:
        """All its public keys."""
        own = [self.public.verify_key, self.public.seal_key] if self.public is not None else []
        return [*own, certificates.point_of(self.tls_key)]


def key_folders(folder: Path) -> list[Path]:
    """Return the folders of the sets of keys in a machine's folder, the oldest first."""
    return sorted((one for one in _list_folder(folder) if _FOLDER.fullmatch(one.name)), key=_number)


def _number(folder: Path) -> int:
    return int(folder.name.removeprefix("keys-"))


def make_request(folder: Path, name: str, *, rotate: bool) -> KeyRequest:
    """Make a set of keys in a machine's folder, and its request, ``NAME.request``.

    Raises:
        ConfigError: the name is not allowed, keys exist already (or, to rotate, do not), or the folder cannot
            be written to.
    """
    if not is_machine(name):
        raise ConfigError(
            "--name",
            f"{name[:40]!r} is not a name of a machine",
            "use that of the project file, server or broker",
        )
    former = key_folders(folder)
    if former and not rotate:
        raise ConfigError(
            str(former[-1]), "exists already: this folder has keys", "choose another --out, or add --rotate"
        )
    if rotate and not former:
        raise ConfigError("--rotate", f"{folder} has no keys that could be replaced", "leave it out")
    if rotate and not (former[-1] / f"{name}.tls.key").exists():
        raise ConfigError("--name", f"{former[-1]} has no keys of {name}", "name its owner")
    # Not their count: a folder may have been deleted.
    number = max((_number(one) for one in former), default=0) + 1
    final, partial = folder / f"keys-{number}", folder / f".keys-{number}.{os.getpid()}.part"
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        partial.mkdir(mode=0o700)
    except OSError as error:
        raise ConfigError(str(folder), f"cannot be made: {error.strerror}", "choose another --out") from error
    try:
        body, file = _make_keys(partial, PartyId(name), rotate=rotate)
        signed.write_signed(partial / f"{name}.request", file)
        partial.rename(final)
    except BaseException:
        shutil.rmtree(partial, ignore_errors=True)
        raise
    try:
        signed.write_signed(folder / f"{name}.request", file)
    except BaseException:
        shutil.rmtree(final, ignore_errors=True)
        raise
    return _verify_request(body, file, str(folder / f"{name}.request"))


def _make_keys(folder: Path, name: PartyId, *, rotate: bool) -> tuple[RequestBody, signed.SignedFile]:
    tls = certificates.new_key()
    certificates.write_key(folder / f"{name}.tls.key", tls)
    identity = None
    if name not in WITHOUT_IDENTITY:
        identity = crypto.Identity.generate(name, entropy.OsEntropy())
        crypto.write_identity(folder / f"{name}.key", identity)
        if name not in {SERVER, DEALER}:
            account.begin_account(account.account_beside(folder / f"{name}.key"), identity.public)
    body = RequestBody(
        name=name,
        rotate=rotate,
        verify_key=identity.public.verify_key.hex() if identity else "",
        seal_key=identity.public.seal_key.hex() if identity else "",
        csr=certificates.make_csr(tls, name),
    )
    text = msgspec.json.encode(body).decode()
    message = signed.message_of("securefl request", text)
    file = signed.SignedFile(
        kind="securefl request",
        body=text,
        signature=identity.sign(message).hex() if identity else "",
        tls_signature=base64.b64encode(certificates.sign_tls(tls, message)).decode(),
    )
    return body, file


def read_request(path: Path) -> KeyRequest:
    """Read and verify a request: both signatures, and every field.

    Raises:
        ConfigError: it cannot be read, is damaged, or was not made by the owner of its keys.
    """
    file = signed.read_signed(path, "securefl request", "name a .request file of securefl provision request")
    return _verify_request(file.content(RequestBody, str(path), _NEW_REQUEST), file, str(path))


def _verify_request(body: RequestBody, file: signed.SignedFile, source: str) -> KeyRequest:
    if not is_machine(body.name):
        raise ConfigError(source, f"field name: {body.name[:40]!r} is not a name of a machine", _NEW_REQUEST)
    name = PartyId(body.name)
    public = None
    if name in WITHOUT_IDENTITY:
        if body.verify_key or body.seal_key or file.signature:
            raise ConfigError(source, f"has protocol keys, which a {name} does not have", _NEW_REQUEST)
    else:
        keys = [signed.from_hex(text) for text in (body.verify_key, body.seal_key)]
        if any(len(key) != 32 for key in keys):
            raise ConfigError(source, "verify_key or seal_key is not 64 hexadecimal digits", _NEW_REQUEST)
        public = crypto.PublicIdentity(name, *keys)
        if public.has_weak_key():
            raise ConfigError(source, "has a weak key (low order), which protects nothing", _NEW_REQUEST)
        file.verify(public, source, _NEW_REQUEST)
    tls_key = certificates.read_csr(body.csr, name, source)
    if not certificates.verify_tls(tls_key, file.message, signed.from_base64(file.tls_signature)):
        raise ConfigError(source, "is not signed by the TLS key that it names", _NEW_REQUEST)
    return KeyRequest(body, name, public, tls_key, source)


def _list_folder(folder: Path) -> list[Path]:
    try:
        return list(folder.iterdir())
    except FileNotFoundError:
        return []
    except OSError as error:
        raise ConfigError(
            str(folder), f"cannot be read: {error.strerror}", "name a folder that you may read"
        ) from error
