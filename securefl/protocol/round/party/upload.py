"""Upload of a party: from two parameter vectors to ring words, once per update (data flow, 2 to 6)."""

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
class UpdateId:
    """Public facts of an update."""

    round: int
    work: int
    """0 unless the scenario has ``new_work``."""
    parameters: F32 = field(repr=False)
    """Global parameters, (d,)."""
    clusters: tuple[tuple[tuple[PartyId, ...], ...], ...]
    """By reclustering and cluster."""
    values: StartValues = field(default_factory=lambda: NO_VALUES)


def _update_unchanged(update: F64, _occasion: UpdateId) -> F64:
    return update


def _clip(update: F64, bound: float | None, _occasion: UpdateId) -> F64:
    return encoding.clip_l2(update, bound)


def _round_to_grid(plan: RunPlan, values: F64, entropy: Entropy, _occasion: UpdateId) -> encoding.Encoded:
    mechanism = plan.mechanism
    if mechanism is None:
        return plan.fixed_point.encode(values, entropy)
    return mechanism.encode(plan.fixed_point, values, entropy)


def _noise_unchanged(noise: I64, _occasion: UpdateId) -> I64:
    return noise


def _no_component_left_out(_certain: int, _round: int) -> int:
    return 0


def _encoded_unchanged(values: I64, _occasion: UpdateId) -> I64:
    return values


def _shares_unchanged(shares: messages.ReleasedShares, _round: int) -> messages.ReleasedShares:
    return shares


def _metrics_unchanged(metrics: F64, _occasion: UpdateId) -> F64:
    return metrics


Encode = Callable[[RunPlan, F64, Entropy, UpdateId], encoding.Encoded]


@dataclass(frozen=True, slots=True)
class Seams:
    """Points of a party's contribution at which a behaviour (attack) may deviate."""

    update: Callable[[F64, UpdateId], F64] = _update_unchanged
    """f64 update before the clip, (d,)."""
    clip: Callable[[F64, float | None, UpdateId], F64] = _clip
    """Clip to the scenario's L2 bound; None for no bound."""
    encode: Encode = _round_to_grid
    """Rounding of the clipped and weighted update; with privacy noise it must be clipped."""
    noise: Callable[[I64, UpdateId], I64] = _noise_unchanged
    """Noise about to be added, i64 steps; not called without noise."""
    left_out_components: Callable[[int, int], int] = _no_component_left_out
    """Number of first components of removable noise to leave out, given those never removed and the round."""
    encoded: Callable[[I64, UpdateId], I64] = _encoded_unchanged
    """i64 values before the ring."""
    metrics: Callable[[F64, UpdateId], F64] = _metrics_unchanged
    """f64 metrics of the received model, in samples."""
    release: Callable[[messages.ReleasedShares, int], messages.ReleasedShares] = _shares_unchanged
    """Shares about to be sealed, and the round."""


HONEST = Seams()


@dataclass(frozen=True, slots=True, eq=False)
class EncodedUpdate:
    """One encoded update for all attempts and, without ``new_work``, all reclusterings."""

    ring: Ring
    """Update and words, (d + w,); leaves the party only masked."""
    saturated: int

    def __repr__(self) -> str:
        return f"Upload({self.ring.size} words)"


def make_upload(
    plan: RunPlan, occasion: UpdateId, update: F64, weight: float, entropy: Entropy, seams: Seams = HONEST
) -> EncodedUpdate:
    """Encode an update, f64 ``(d + w,)``: change of the parameters, then metrics of the received model.

    ``weight`` is public, in (0, 1].
    """
    expect(update, "update", np.float64, (plan.upload_length,))
    sent = seams.update(update[: plan.length], occasion)
    bound = plan.scenario.encoding.clip
    clipped = seams.clip(
        sent / catalogue.encoded_unit(occasion.values), None if bound == "none" else bound, occasion
    )
    encoded = seams.encode(plan, clipped * weight, entropy.child("rounding"), occasion)
    values, mechanism = encoded.values, plan.mechanism
    if mechanism is not None:
        values = values + seams.noise(mechanism.noise(entropy.child("noise")), occasion)
    values = seams.encoded(values, occasion)
    metrics, bits = update[plan.length :], plan.limits.ring_bits
    metrics_sent = seams.metrics(metrics, occasion) if metrics.size else metrics
    words = catalogue.encode_words(
        plan.scenario, bits, Contribution(sent, metrics_sent, occasion.values), entropy
    )
    return EncodedUpdate(encoding.to_ring(np.concatenate((values, *words)), bits), encoded.saturated)
