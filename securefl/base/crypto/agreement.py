"""Key agreement: X25519 (RFC 7748), then HKDF-SHA256 (RFC 5869) with a label and a context.

Hazards:

- A raw X25519 output is not uniformly random, so it is never a key; :func:`shared_key` applies HKDF.
- The context must bind all that both ends agree on (instance, key list, model digest, ...) and both public
  keys: several public keys lead to one X25519 secret.
- Public keys of low order force the secret to zero. ``BadKeyError`` rejects them (RFC 7748, section 6.1).
- A key pair serves one purpose and one attempt (protocol.md, step 3). No code here checks that.
- Python cannot wipe ``bytes``: a private key stays in memory until its page is reused.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from securefl.base.crypto.labels import encode
from securefl.base.entropy import Entropy
from securefl.base.errors import SecureflError, UsageError

KEY_BYTES = 32

_FIELD = 2**255 - 19
_LOW_ORDER = frozenset(
    {
        0,
        1,
        _FIELD - 1,
        0x00B8495F16056286FDB1329CEB8D09DA6AC49FF1FAE35616AEB8413B7C7AEBE0,
        0x57119FD0DD4E22D8868E1C58C45C44045BEF839C55B1D0B1248C50A3BC959C5F,
    }
)
"""u of all points whose order divides 8, on the curve and on its twist."""


class BadKeyError(SecureflError):
    """Unusable public key: wrong length or low order. Its publisher is at fault."""


@dataclass(frozen=True, repr=False)
class KeyPair:
    """X25519 key pair for one purpose, 32 bytes each.

    ``private`` is the scalar before clamping, as RFC 7748 (section 5) stores it.
    """

    private: bytes
    public: bytes

    @classmethod
    def generate(cls, entropy: Entropy) -> KeyPair:
        """Generate a fresh pair."""
        return cls.from_private(entropy.draw(KEY_BYTES))

    @classmethod
    def from_private(cls, private: bytes) -> KeyPair:
        """Return the pair of a private key, such as a reconstructed one.

        Raises:
            UsageError: the private key is not 32 bytes long.
        """
        return cls(private, _private_key(private).public_key().public_bytes_raw())

    def agree(self, peer_public: bytes, context: bytes, *labels: str) -> tuple[bytes, ...]:
        """Return what :func:`shared_key` derives for each label, at the cost of one agreement.

        Raises:
            BadKeyError: the peer's key has the wrong length or low order.
        """
        secret = _exchange(self._own, peer_public)
        return tuple(derive_key(secret, label, context) for label in labels)

    def __repr__(self) -> str:
        return f"KeyPair(public={self.public.hex()[:16]}...)"

    @cached_property
    def _own(self) -> X25519PrivateKey:
        # The library computes the public key at each read of a private one, at the cost of an agreement.
        return _private_key(self.private)


def shared_key(private: bytes, peer_public: bytes, label: str, context: bytes) -> bytes:
    """Return the 32-byte key that both ends of an agreement derive for one purpose.

    X25519, then :func:`derive_key`. Both ends must pass one ``context``: name the two parties in sorted
    order.

    Raises:
        BadKeyError: the peer's key has the wrong length or low order.
        UsageError: ``private`` is not 32 bytes long.
    """
    return derive_key(_exchange(_private_key(private), peer_public), label, context)


def check_public(public: bytes) -> None:
    """Reject a public key with which an agreement would fail.

    Raises:
        BadKeyError: wrong length or low order.
    """
    # An agreement detects it at a hundred times the cost. Clamped scalars are multiples of the cofactors 8
    # and 4 and not of the large prime orders, so exactly the points of low order lead to zero.
    if len(public) != KEY_BYTES:
        raise BadKeyError(f"an X25519 public key has {KEY_BYTES} bytes, not {len(public)}")
    if (int.from_bytes(public, "little") & (2**255 - 1)) % _FIELD in _LOW_ORDER:
        raise BadKeyError("the X25519 public key has low order")


def derive_key(secret: bytes, label: str, context: bytes) -> bytes:
    """Derive a 32-byte key: HKDF-SHA256, no salt, info = encode("securefl/1", label, context).

    Keys with different labels or contexts are independent. ``secret`` must hold 128 bits of entropy: HKDF
    does not slow down guessing.

    Raises:
        UsageError: the secret is shorter than 32 bytes.
    """
    if len(secret) < KEY_BYTES:
        raise UsageError(
            f"the secret to derive keys from must have at least {KEY_BYTES} bytes, found {len(secret)}"
        )
    info = encode("securefl/1", label, context)
    return HKDF(algorithm=SHA256(), length=KEY_BYTES, salt=None, info=info).derive(secret)


def _exchange(own: X25519PrivateKey, peer_public: bytes) -> bytes:
    if len(peer_public) != KEY_BYTES:
        raise BadKeyError(f"an X25519 public key has {KEY_BYTES} bytes, not {len(peer_public)}")
    try:
        return own.exchange(X25519PublicKey.from_public_bytes(peer_public))
    except ValueError:
        # The library's error for an all-zero secret, in constant time.
        raise BadKeyError("the X25519 public key has low order") from None


def _private_key(private: bytes) -> X25519PrivateKey:
    if len(private) != KEY_BYTES:
        raise UsageError(f"an X25519 private key must have {KEY_BYTES} bytes, found {len(private)}")
    return X25519PrivateKey.from_private_bytes(private)
