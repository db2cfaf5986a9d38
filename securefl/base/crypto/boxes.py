"""Authenticated encryption of short messages: AES-256-GCM (NIST SP 800-38D).

Hazards:

- The nonce is 96 random bits, so one key is for at most 2^32 boxes (SP 800-38D, section 8.3). Keys here serve
  one secure sum or one sealed message.
- GCM does not commit to its key: a box may open under two keys that its maker chose together. Only the signed
  envelope identifies the maker.
- A box hides content, not length.
- ``associated`` must name instance, sender, recipient and purpose, or an honest box can be moved.
"""

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from securefl.base.entropy import Entropy
from securefl.base.errors import SecureflError, UsageError

KEY_BYTES = 32
NONCE_BYTES = 12
TAG_BYTES = 16
OVERHEAD = NONCE_BYTES + TAG_BYTES
"""Length of a box beyond its plaintext, bytes."""


class BoxError(SecureflError):
    """Box that does not open: cut off, altered, moved to another context, or made under another key.

    Its text does not distinguish these cases: it would be an oracle.
    """

    def __init__(self) -> None:
        super().__init__("cannot decrypt: another key, another context, or altered bytes")


def seal_box(key: bytes, plaintext: bytes, associated: bytes, entropy: Entropy) -> bytes:
    """Encrypt ``plaintext`` and authenticate ``associated``, which the box does not contain.

    Returns:
        Nonce (12 bytes, from ``entropy``), ciphertext (as long as ``plaintext``), tag (16 bytes).

    Raises:
        UsageError: the key is not 32 bytes long.
    """
    nonce = entropy.draw(NONCE_BYTES)
    return nonce + _cipher(key).encrypt(nonce, plaintext, associated)


def open_box(key: bytes, box: bytes, associated: bytes) -> bytes:
    """Decrypt a box that :func:`seal_box` made with the same ``key`` and ``associated``.

    Raises:
        BoxError: the box does not open.
        UsageError: the key is not 32 bytes long.
    """
    cipher = _cipher(key)
    if len(box) < OVERHEAD:
        raise BoxError
    try:
        return cipher.decrypt(box[:NONCE_BYTES], box[NONCE_BYTES:], associated)
    except InvalidTag:
        raise BoxError from None


def _cipher(key: bytes) -> AESGCM:
    if len(key) != KEY_BYTES:
        raise UsageError(f"a box key must have {KEY_BYTES} bytes, found {len(key)}")
    return AESGCM(key)
