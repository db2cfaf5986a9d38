"""Long-term identities: an Ed25519 key for signatures (RFC 8032) and an X25519 key for sealed messages.

One key for two algorithms has no security proof. Sealing is X25519 of a fresh ephemeral key and the
recipient's, HKDF-SHA256 bound to both public keys and the context, AES-256-GCM. The envelope's signature, not
the seal, names the sender. There is no forward secrecy: a thief of the recipient's private file can open
recorded boxes.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from securefl.base.crypto import agreement, boxes, labels
from securefl.base.crypto.boxes import BoxError
from securefl.base.entropy import Entropy
from securefl.base.errors import UsageError
from securefl.base.ids import SERVER, PartyId, is_name

KEY_BYTES = 32
SEAL_OVERHEAD = KEY_BYTES + boxes.OVERHEAD
"""Length of a sealed message beyond its plaintext, bytes."""
_SEAL_LABEL = "seal"
_FIELD = 2**255 - 19


@dataclass(frozen=True)
class PublicIdentity:
    """Name and two 32-byte public keys.

    Raises:
        UsageError: the name is invalid, or a key is not 32 bytes long.
    """

    name: PartyId
    verify_key: bytes
    seal_key: bytes

    def __post_init__(self) -> None:
        _check(self.name, self.verify_key, self.seal_key)

    def __repr__(self) -> str:
        return f"PublicIdentity({self.name!r}, {self.fingerprint()})"

    def verify(self, message: bytes, signature: bytes) -> bool:
        """Return True if this identity signed exactly these bytes; never raises."""
        if self._verifier is None:
            return False
        try:
            self._verifier.verify(signature, message)
        except InvalidSignature:
            return False
        return True

    def seal(self, plaintext: bytes, context: bytes, entropy: Entropy) -> bytes:
        """Encrypt for this identity only; opening needs the same ``context``.

        Returns:
            Ephemeral public key (32 bytes), then a box: ``SEAL_OVERHEAD`` bytes more than the plaintext.

        Raises:
            BadKeyError: this identity's sealing key has low order.
        """
        ephemeral = agreement.KeyPair.generate(entropy)
        key = agreement.shared_key(
            ephemeral.private,
            self.seal_key,
            _SEAL_LABEL,
            labels.encode(ephemeral.public, self.seal_key, context),
        )
        return ephemeral.public + boxes.seal_box(key, plaintext, context, entropy)

    def has_weak_key(self) -> bool:
        """Return True if a key has low order: any party could open its messages or forge its signatures.

        An Ed25519 point maps to the X25519 point u = (1 + y) / (1 - y) of the same order (RFC 7748, 4.1), so
        one test serves both keys.
        """
        y = int.from_bytes(self.verify_key, "little") & (2**255 - 1)
        u = (1 + y) * pow(1 - y, _FIELD - 2, _FIELD) % _FIELD
        try:
            agreement.check_public(u.to_bytes(KEY_BYTES, "little"))
            agreement.check_public(self.seal_key)
        except agreement.BadKeyError:
            return True
        return False

    def fingerprint(self) -> str:
        """Return 80 bits over name and keys as hex, for people to compare two copies.

        80 bits withstand a second preimage, not a party that seeks two identities of its own with one
        fingerprint. The protocol relies on the roster's full digest.
        """
        text = labels.digest("fingerprint", self.name, self.verify_key, self.seal_key).hex()[:20]
        return "-".join(text[at : at + 4] for at in range(0, len(text), 4))

    @cached_property
    def _verifier(self) -> Ed25519PublicKey | None:
        try:
            return Ed25519PublicKey.from_public_bytes(self.verify_key)
        except ValueError:
            return None


@dataclass(frozen=True, repr=False)
class Identity:
    """Name and two 32-byte private keys. Never logged, never sent to a peer."""

    name: PartyId
    signing_key: bytes = field(repr=False)
    sealing_key: bytes = field(repr=False)

    def __post_init__(self) -> None:
        _check(self.name, self.signing_key, self.sealing_key)

    @classmethod
    def generate(cls, name: PartyId, entropy: Entropy) -> Identity:
        """Generate a fresh identity."""
        return cls(name, entropy.draw(KEY_BYTES), entropy.draw(KEY_BYTES))

    def __repr__(self) -> str:
        return f"Identity({self.name!r}, {self.public.fingerprint()})"

    def __reduce__(self) -> tuple[type[Identity], tuple[PartyId, bytes, bytes]]:
        # For the pipe from a launcher to the process; excludes cached values.
        return Identity, (self.name, self.signing_key, self.sealing_key)

    @cached_property
    def public(self) -> PublicIdentity:
        """Public part of the identity."""
        verify_key = self._signer.public_key().public_bytes_raw()
        return PublicIdentity(self.name, verify_key, agreement.KeyPair.from_private(self.sealing_key).public)

    def sign(self, message: bytes) -> bytes:
        """Return the Ed25519 signature (64 bytes) of ``message``, which must contain a label."""
        return self._signer.sign(message)

    def open_sealed(self, box: bytes, context: bytes) -> bytes:
        """Decrypt a message sealed to this identity with the same ``context``.

        Raises:
            BoxError: cut off, altered, sealed to another identity or in another context.
        """
        if len(box) < SEAL_OVERHEAD:
            raise BoxError
        ephemeral, inner = box[:KEY_BYTES], box[KEY_BYTES:]
        binding = labels.encode(ephemeral, self.public.seal_key, context)
        try:
            key = agreement.shared_key(self.sealing_key, ephemeral, _SEAL_LABEL, binding)
        except agreement.BadKeyError:
            raise BoxError from None
        return boxes.open_box(key, inner, context)

    @cached_property
    def _signer(self) -> Ed25519PrivateKey:
        return Ed25519PrivateKey.from_private_bytes(self.signing_key)


def _check(name: PartyId, *keys: bytes) -> None:
    if not (is_name(name) or name == SERVER):
        raise UsageError(
            f"name must be a party name (a-z, 0-9, - and _, at most 32 characters) or {SERVER!r},"
            f" found {name!r}"
        )
    for key in keys:
        if len(key) != KEY_BYTES:
            raise UsageError(
                f"the public keys of {name} must have {KEY_BYTES} bytes each, found one of {len(key)}"
            )
