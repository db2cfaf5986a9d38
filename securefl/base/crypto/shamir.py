"""Shamir's secret sharing (CACM 22(11), 1979): 32-byte secrets over the field of 2^256 + 297 elements.

2^256 + 297 is the smallest prime above 2^256, so every 32-byte string is a field element. Shares are values
of a random polynomial of degree ``threshold - 1`` at x = 1, 2, ... (33 bytes, big-endian), the secret its
value at 0. Fewer than ``threshold`` shares are independent of the secret.

Hazards:

- A wrong share yields a wrong secret, mostly without any sign. Owners commit to :func:`share_digest` of each
  share, and callers check the result against its public key or digest.
- Python's integers are not constant-time. Operands are random and used once; timing a single multiplication
  on the same machine is outside the threat model.
"""

from collections.abc import Mapping
from functools import lru_cache

from securefl.base.crypto.labels import digest_with
from securefl.base.entropy import Entropy
from securefl.base.errors import SecureflError, UsageError

PRIME = 2**256 + 297
SECRET_BYTES = 32
SHARE_BYTES = 33
_WIDE_BYTES = 48
_LAZY = 32
"""Steps between reductions: x is small, so a few growing products cost less than a division each."""


_share_digest = digest_with("share", more=2)


class BadShareError(SecureflError):
    """Shares that do not match or are not field elements: a holder is at fault."""


def split(secret: bytes, threshold: int, count: int, entropy: Entropy) -> tuple[bytes, ...]:
    """Split ``secret`` into shares for x = 1, ..., ``count``, any ``threshold`` of which reconstruct it.

    Coefficients are 48 drawn bytes modulo the prime, within 2^-127 of uniform each (RFC 9380, section 5). The
    number of drawn bytes does not depend on their values.

    Returns:
        ``count`` shares of 33 bytes; share i is at index i - 1.

    Raises:
        UsageError: the secret is not 32 bytes long, or not 1 <= threshold <= count < 2^16.
    """
    if len(secret) != SECRET_BYTES:
        raise UsageError(f"secret must have {SECRET_BYTES} bytes, found {len(secret)}")
    if not 1 <= threshold <= count < 2**16:
        raise UsageError(
            "cannot share a secret: 1 <= threshold <= count < 2^16 must hold, found threshold"
            f" {threshold}, count {count}"
        )
    raw = entropy.draw(_WIDE_BYTES * (threshold - 1))
    coefficients = [
        int.from_bytes(raw[at : at + _WIDE_BYTES], "big") % PRIME for at in range(0, len(raw), _WIDE_BYTES)
    ]
    constant = int.from_bytes(secret, "big")
    shares = []
    for x in range(1, count + 1):
        value = 0
        for at in range(0, len(coefficients), _LAZY):
            for coefficient in coefficients[at : at + _LAZY]:
                value = (value + coefficient) * x
            value %= PRIME
        shares.append(((value + constant) % PRIME).to_bytes(SHARE_BYTES, "big"))
    return tuple(shares)


def combine(shares: Mapping[int, bytes], threshold: int) -> bytes:
    """Reconstruct the secret from shares by their x, using exactly the ``threshold`` smallest x.

    Returns:
        32 bytes, unverified.

    Raises:
        UsageError: fewer shares than ``threshold``, a threshold below 1, or an x outside 1, ..., 2^16 - 1.
        BadShareError: a used share is not 33 bytes long or not a field element, or the result is not a
            secret.
    """
    if not 1 <= threshold <= len(shares):
        raise UsageError(
            f"threshold must be from 1 to the number of shares, {len(shares)}, found {threshold}"
        )
    points = tuple(sorted(shares)[:threshold])
    if points[0] < 1 or points[-1] >= 2**16:
        raise UsageError(f"the numbers of shares must be from 1 to 65535, found {points[0]} to {points[-1]}")
    total = 0
    for x, weight in zip(points, _weights_at_zero(points), strict=True):
        total += weight * _element(x, shares[x])
    total %= PRIME
    if total >= 2**256:
        raise BadShareError("the shares do not belong to one 32-byte secret")
    return total.to_bytes(SECRET_BYTES, "big")


def share_digest(share: bytes, context: bytes) -> bytes:
    """Return the SHA-256 of a share under a label and ``context`` (32 bytes), to publish in advance.

    It hides the share, which is uniform over more than 2^256 elements. At threshold 1 the share is the
    secret, so the digest hides it only as well as it resists guessing. ``context`` names instance, owner,
    holder and kind.
    """
    return _share_digest(share, context)


def _element(x: int, share: bytes) -> int:
    if len(share) != SHARE_BYTES:
        raise BadShareError(f"share {x} has {len(share)} bytes, expected {SHARE_BYTES}")
    value = int.from_bytes(share, "big")
    if value >= PRIME:
        raise BadShareError(f"share {x} is no field element")
    return value


@lru_cache(maxsize=1024)
def _weights_at_zero(points: tuple[int, ...]) -> tuple[int, ...]:
    # Lagrange: w_i = product over j != i of x_j / (x_j - x_i). The x are public: the cache reveals nothing.
    weights = []
    for own in points:
        numerator = denominator = 1
        for other in points:
            if other != own:
                numerator = numerator * other % PRIME
                denominator = denominator * (other - own) % PRIME
        weights.append(numerator * pow(denominator, -1, PRIME) % PRIME)
    return tuple(weights)
