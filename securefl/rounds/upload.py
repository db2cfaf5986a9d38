"""From two parameter vectors to ring words: steps 2 to 6 of the data's way, once per update.

The seams are where behaviours (attacks) take hold; honest parties have the honest step there.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from securefl.arrays import F32, F64, I64, Ring, expect
from securefl.encoding.clip import clip_l2
from securefl.encoding.ring import to_ring
from securefl.entropy import Entropy
from securefl.messages.rounds import ReleasedShares
from securefl.rounds.plan import Plan


def _update_unchanged(update: F64, _round: int) -> F64:
    return update


def _clipped(update: F64, bound: float | None, _round: int) -> F64:
    return clip_l2(update, bound)


def _encoded_unchanged(values: I64, _round: int) -> I64:
    return values


def _shares_unchanged(shares: ReleasedShares, _round: int) -> ReleasedShares:
    return shares


@dataclass(frozen=True, slots=True)
class Seams:
    """Where what a party contributes may deviate. The last argument of each is the round's number."""

    update: Callable[[F64, int], F64] = _update_unchanged
    """f64 update before the clip, shape (d,)."""
    clip: Callable[[F64, float | None, int], F64] = _clipped
    """The clip itself: update and the scenario's L2 bound, None for no bound."""
    encoded: Callable[[I64, int], I64] = _encoded_unchanged
    """i64 values after the encoding, before the ring."""
    release: Callable[[ReleasedShares, int], ReleasedShares] = _shares_unchanged
    """The shares that are about to be sealed to the server."""


HONEST = Seams()


@dataclass(frozen=True, slots=True, eq=False)
class Upload:
    """One encoded update, the same for all R reclusterings and all attempts of a round."""

    ring: Ring
    """Shape (d,). It never leaves the party unmasked."""
    saturated: int
    """Coordinates beyond the encoding's range."""

    def __repr__(self) -> str:
        return f"Upload({self.ring.size} words)"


def make_upload(
    plan: Plan, before: F32, after: F32, weight: float, round_: int, entropy: Entropy, seams: Seams = HONEST
) -> Upload:
    """Encode what training changed.

    Args:
        plan: gives clip bound, fixed-point grid and ring.
        before: the round's global parameters, shape (d,).
        after: the locally trained parameters, shape (d,).
        weight: the party's public weight in (0, 1].
        round_: the round's number, for the seams.
        entropy: of this party and round; the rounding is drawn from it once.
        seams: where an attacking party deviates.
    """
    expect(after, "trained parameters", np.float32, (plan.length,))
    update = seams.update(after.astype(np.float64) - before.astype(np.float64), round_)
    bound = plan.scenario.encoding.clip
    clipped = seams.clip(update, None if bound == "none" else bound, round_)
    encoded = plan.fixed_point.encode(clipped * weight, entropy.child("rounding"))
    values = seams.encoded(encoded.values, round_)
    return Upload(to_ring(values, plan.limits.ring_bits), encoded.saturated)
