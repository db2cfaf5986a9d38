"""Signed files and messages between operator and machines: a JSON object with text and signatures."""

import base64
import hashlib
from pathlib import Path
from typing import Final, Literal, Self, TypeVar

import msgspec
from msgspec import Struct

from securefl.base import crypto, files
from securefl.base.errors import ConfigError

ContentT = TypeVar("ContentT", bound=Struct)
Kind = Literal[
    "securefl request", "securefl answer", "securefl submission", "securefl stop order", "securefl notice"
]
LARGEST: Final = 64 * 2**20
"""Bytes of a file that is read."""


class SignedFile(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Text with its signatures. Unverified until a reader has checked them."""

    kind: Kind
    body: str
    """JSON text, signed as it stands here."""
    signature: str
    """Ed25519 signature by the identity that the text names, 128 hexadecimal digits; empty for a broker."""
    tls_signature: str = ""
    """In requests: signature by the TLS key, in Base64."""

    @classmethod
    def sign(cls, kind: Kind, body: str, signer: crypto.Identity) -> Self:
        """Return a text signed by an identity."""
        return cls(kind=kind, body=body, signature=signer.sign(message_of(kind, body)).hex())

    @property
    def message(self) -> bytes:
        """Bytes under the signatures."""
        return message_of(self.kind, self.body)

    def content(self, kind: type[ContentT], source: str, remedy: str) -> ContentT:
        """Decode the text.

        Raises:
            ConfigError: a field is unknown, missing or invalid.
        """
        try:
            return msgspec.json.decode(self.body, type=kind)
        except (msgspec.DecodeError, RecursionError) as error:
            raise ConfigError(source, f"has a damaged body: {_brief(error)}", remedy) from None

    def verify(self, signer: crypto.PublicIdentity, source: str, remedy: str) -> None:
        """Check the signature.

        Raises:
            ConfigError: it is not by ``signer``.
        """
        if not signer.verify(self.message, from_hex(self.signature)):
            raise ConfigError(source, f"is not signed by the key of {signer.name} that it names", remedy)


def message_of(kind: Kind, body: str) -> bytes:
    """Return the bytes that are signed for a text."""
    return crypto.encode("securefl/1", f"provision: {kind}", body)


def read_signed(path: Path, kind: Kind, remedy: str) -> SignedFile:
    """Read a signed file, unverified.

    Raises:
        ConfigError: it cannot be read, or is of another kind.
    """
    with files.reading(path, remedy), path.open("rb") as file:
        raw = file.read(LARGEST + 1)
    if len(raw) > LARGEST:
        raise ConfigError(
            str(path), f"is larger than {LARGEST // 2**20} MiB: it is not {_article(kind)}", remedy
        )
    return decode_signed(raw, kind, str(path), remedy)


def decode_signed(raw: bytes, kind: Kind, source: str, remedy: str) -> SignedFile:
    """Decode a signed file or message, unverified.

    Raises:
        ConfigError: it is damaged, or of another kind; the error begins with ``source``.
    """
    try:
        found = msgspec.json.decode(raw, type=SignedFile)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise ConfigError(source, f"is not {_article(kind)}: {_brief(error)}", remedy) from None
    if found.kind != kind:
        raise ConfigError(source, f"is another signed file, not {_article(kind)}", remedy)
    return found


def _article(kind: Kind) -> str:
    noun = kind.removeprefix("securefl ")
    return f"{'an' if noun == 'answer' else 'a'} {noun}"


def write_signed(path: Path, signed: SignedFile) -> None:
    """Write a signed file in one step, for all to read.

    Raises:
        ConfigError: it cannot be written.
    """
    write_file(path, msgspec.json.format(msgspec.json.encode(signed), indent=1) + b"\n")


def write_file(path: Path, content: bytes, *, private: bool = False) -> None:
    """Write a file durably in one step.

    Raises:
        ConfigError: it cannot be written.
    """
    try:
        files.write_whole(path, content, durable=True, private=private)
    except OSError as error:
        raise ConfigError(
            str(path), f"cannot be written: {error.strerror}", "choose a folder that you may write"
        ) from error


def from_hex(text: str) -> bytes:
    """Return the bytes of lower-case hexadecimal digits; empty for other text, which no check accepts."""
    try:
        found = bytes.fromhex(text)
    except ValueError:
        return b""
    return found if found.hex() == text else b""


def from_base64(text: str) -> bytes:
    """Return the bytes of a Base64 text; empty if it is none."""
    try:
        return base64.b64decode(text, validate=True)
    except ValueError:
        return b""


def sha256(content: bytes) -> str:
    """Return a SHA-256 digest, 64 hexadecimal digits."""
    return hashlib.sha256(content).hexdigest()


def _brief(error: Exception) -> str:
    text = str(error) or type(error).__name__
    return text[:200] if text[1:2].isupper() else text[:1].lower() + text[1:200]
