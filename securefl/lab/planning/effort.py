"""CPU seconds that the secure sums of a round cost one party, without its training.

Fitted to `securefl bench secagg` for clusters of 3, 10, 30 and 100 members and 10^4 and 10^5 words, on one
core of a server of 2024 with AES and SHA instructions, Python 3.11: off by 15 % there at most. Other machines
differ by a factor; plans are compared on one.
"""

from __future__ import annotations

from dataclasses import dataclass

from securefl.lab.planning.design import Shape

_PER_SUM = 2.0e-3
_PER_MEMBER = 6.5e-4
"""Two X25519 agreements, two verifications, two boxes, shares and their digests."""
_PER_MASK_BYTE = 0.45e-9
"""AES-256-CTR and one addition in the ring, for each member."""
_PER_BYTE = 3.5e-9
"""SHA-256 of what is signed, and copies."""
_PER_ENCODED = 25e-9
"""Clip, rounding and ring, for each coordinate of an update."""
_PER_NOISE = 35e-9
"""One draw of noise."""
_PER_SIGNATURE = 1.7e-4
"""A relayed statement of another party: verified and decoded."""


@dataclass(frozen=True, slots=True)
class Burden:
    """What else a round's cost depends on."""

    parties: int
    """N: as many hellos and nonces are verified."""
    parameters: int
    """d."""
    word: int
    """Bytes of a ring element: 4 or 8."""
    signatures: int
    """Of a certificate; 0 without."""
    noisy: int
    """Draws of noise for each coordinate of an update."""


def cpu_seconds(shape: Shape, members: int, burden: Burden) -> float:
    """Of one party in one round in which nobody drops out.

    Args:
        shape: of the round.
        members: of its clusters.
        burden: the rest.
    """
    vector = burden.parameters * burden.word
    sums = _PER_SUM + members * (_PER_MEMBER + vector * _PER_MASK_BYTE) + vector * _PER_BYTE
    updates = burden.parameters * (_PER_ENCODED + burden.noisy * _PER_NOISE)
    relayed = (2 * burden.parties + burden.signatures) * _PER_SIGNATURE
    return shape.reclusterings * sums + shape.works * updates + relayed
