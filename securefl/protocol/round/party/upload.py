"""The upload of a party: two parameter vectors to ring words, once per update (data flow, 2 to 6).

The seams are where behaviours (attacks) take hold; honest parties have the honest step there.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from securefl.base.arrays import F32, F64, I64, Ring, expect
from securefl.base.entropy import Entropy
from securefl.base.ids import PartyId
from securefl.methods import encoding
from securefl.protocol import messages
from securefl.protocol.round.shared.additions import catalogue
from securefl.protocol.round.shared.additions.addition import NO_VALUES, Contribution, StartValues
from securefl.protocol.round.shared.plan import RunPlan


@dataclass(frozen=True, slots=True, eq=False)
class Occasion:
    """Knowledge of a party when it makes an update, all of it public."""

    round: int
    work: int
    """Which local work of the round the update comes from; 0 unless the scenario has ``new_work``."""
    before: F32 = field(repr=False)
    """The round's global parameters, shape (d,)."""
    clusters: tuple[tuple[tuple[PartyId, ...], ...], ...]
    """The round's assignment: ``clusters[r][j]`` are the members of cluster j in reclustering r."""
    values: StartValues = field(default_factory=lambda: NO_VALUES)
    """Announced values of the round."""


def _update_unchanged(update: F64, _occasion: Occasion) -> F64:
    return update


def _clipped(update: F64, bound: float | None, _occasion: Occasion) -> F64:
    return encoding.clip_l2(update, bound)


def _rounded(plan: RunPlan, values: F64, entropy: Entropy, _occasion: Occasion) -> encoding.Encoded:
    mechanism = plan.mechanism
    if mechanism is None:
        return plan.fixed_point.encode(values, entropy)
    return mechanism.encode(plan.fixed_point, values, entropy)


def _noise_unchanged(noise: I64, _occasion: Occasion) -> I64:
    return noise


def _no_component_left_out(_certain: int, _round: int) -> int:
    return 0


def _encoded_unchanged(values: I64, _occasion: Occasion) -> I64:
    return values


def _shares_unchanged(shares: messages.ReleasedShares, _round: int) -> messages.ReleasedShares:
    return shares


def _said_unchanged(said: F64, _occasion: Occasion) -> F64:
    return said


Encode = Callable[[RunPlan, F64, Entropy, Occasion], encoding.Encoded]
"""Rounds an update to integers, at the seam of that name."""


@dataclass(frozen=True, slots=True)
class Seams:
    """The seams of a party's contribution, at which it may deviate."""

    update: Callable[[F64, Occasion], F64] = _update_unchanged
    """f64 update before the clip, shape (d,)."""
    clip: Callable[[F64, float | None, Occasion], F64] = _clipped
    """The clip itself: update and the scenario's L2 bound, None for no bound."""
    encode: Encode = _rounded
    """Rounding of the clipped and weighted update; with privacy noise it refuses one that was not clipped."""
    noise: Callable[[I64, Occasion], I64] = _noise_unchanged
    """The privacy noise that is about to be added, i64 steps; never asked without any."""
    without: Callable[[int, int], int] = _no_component_left_out
    """How many components of removable noise are left out, the first ones: from those that are never taken
    out of this sum, and the round's number."""
    encoded: Callable[[I64, Occasion], I64] = _encoded_unchanged
    """i64 values after encoding and noise, before the ring."""
    said: Callable[[F64, Occasion], F64] = _said_unchanged
    """f64 metrics of the received model, in samples; never asked where the scenario declares none."""
    release: Callable[[messages.ReleasedShares, int], messages.ReleasedShares] = _shares_unchanged
    """The shares that are about to be sealed to the server, and the round's number."""


HONEST = Seams()


@dataclass(frozen=True, slots=True, eq=False)
class Upload:
    """One encoded update, the same in all attempts and, unless there is ``new_work``, all reclusterings."""

    ring: Ring
    """Shape (d + w,): update and words. It stays at the party unmasked."""
    saturated: int
    """Coordinates beyond the encoding's range."""

    def __repr__(self) -> str:
        return f"Upload({self.ring.size} words)"


def make_upload(
    plan: RunPlan, occasion: Occasion, update: F64, weight: float, entropy: Entropy, seams: Seams = HONEST
) -> Upload:
    """Encode what training changed.

    Args:
        plan: gives clip bound, fixed-point grid and ring.
        occasion: of this update.
        update: what training is to add to the parameters; with metrics followed by what the party says of
            those that it received, f64 ``(d + w,)``.
        weight: the party's public weight in (0, 1].
        entropy: of this party, round and work; rounding and noise are drawn from it once.
        seams: where an attacking party deviates.
    """
    expect(update, "update", np.float64, (plan.brought,))
    sent = seams.update(update[: plan.length], occasion)
    bound = plan.scenario.encoding.clip
    clipped = seams.clip(
        sent / catalogue.unit_of(occasion.values), None if bound == "none" else bound, occasion
    )
    encoded = seams.encode(plan, clipped * weight, entropy.child("rounding"), occasion)
    values, mechanism = encoded.values, plan.mechanism
    if mechanism is not None:
        values = values + seams.noise(mechanism.noise(entropy.child("noise")), occasion)
    values = seams.encoded(values, occasion)
    metrics, bits = update[plan.length :], plan.limits.ring_bits
    said = seams.said(metrics, occasion) if metrics.size else metrics
    words = catalogue.encoded(plan.scenario, bits, Contribution(sent, said, occasion.values), entropy)
    return Upload(encoding.to_ring(np.concatenate((values, *words)), bits), encoded.saturated)
