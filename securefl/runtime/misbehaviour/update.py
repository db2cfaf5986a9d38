"""Update, encoded and release seams."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from msgspec.structs import replace

from securefl import scenario
from securefl.base.arrays import F64, I64
from securefl.base.entropy import Entropy
from securefl.base.errors import RunAbortedError
from securefl.base.ids import PartyId
from securefl.methods import encoding
from securefl.methods.attacks import acting, sparse_energy
from securefl.protocol import messages
from securefl.protocol.round import HONEST, Encode, RunPlan, Seams, UpdateId, attack_entropy
from securefl.runtime.misbehaviour.knowledge import Insight


def seams_of(behaviours: Sequence[scenario.Behaviour], me: PartyId, own: Entropy, insight: Insight) -> Seams:
    """Return seams for attacks on updates, false clipping and noise, and ``wrong-share``."""
    attacks = tuple(b for b in behaviours if isinstance(b, scenario.UpdateAttack))
    unclipped = tuple(b for b in behaviours if isinstance(b, scenario.NoClip))
    sparse = tuple(b for b in behaviours if isinstance(b, scenario.SparseEnergy))
    silent = tuple(b for b in behaviours if isinstance(b, scenario.NoNoise))
    liars = tuple(b for b in behaviours if isinstance(b, scenario.FalseMetrics))
    spoiled = tuple(b for b in behaviours if isinstance(b, scenario.WrongShare))
    encode = _Unbounded(unclipped) if unclipped else HONEST.encode
    return Seams(
        update=_Attacked(attacks, me, own, insight) if attacks else HONEST.update,
        clip=_Unclipped(unclipped) if unclipped else HONEST.clip,
        encode=_Concentrated(sparse, encode) if sparse else encode,
        noise=_Noiseless(silent) if silent else HONEST.noise,
        left_out_components=_Bare(silent) if silent else HONEST.left_out_components,
        metrics=_Lied(liars) if liars else HONEST.metrics,
        release=_WrongShares(spoiled) if spoiled else HONEST.release,
    )


@dataclass(frozen=True, slots=True)
class _Attacked:
    """Update seam that replaces the trained update of an actor."""

    attacks: tuple[scenario.UpdateAttack, ...]
    me: PartyId
    own: Entropy
    insight: Insight

    def __call__(self, update: F64, occasion: UpdateId) -> F64:
        for attack in self.attacks:
            if not attack.acts(occasion.round):
                continue
            actors = actors_of(attack, occasion)
            if attack.actors is None or self.me in actors:
                entropy = attack_entropy(self.own, occasion.round, occasion.work)
                with attack.blame_part():
                    crafted = _craft_update(
                        attack, update, occasion, max(1, len(actors)), entropy, self.insight
                    )
                if attack.is_own and (not isinstance(crafted, np.ndarray) or crafted.shape != update.shape):
                    shape = getattr(crafted, "shape", type(crafted).__name__)
                    raise RunAbortedError(
                        f"the attack {attack.name} returned {shape}, expected f64 {update.shape}"
                    )
                return crafted
        return update


def _craft_update(
    attack: scenario.UpdateAttack,
    update: F64,
    occasion: UpdateId,
    actors: int,
    entropy: Entropy,
    insight: Insight,
) -> F64:
    """Return the update to send: the trained one if too few mates trained for the attack."""
    if not isinstance(attack, scenario.CoalitionAttack):
        return attack.craft(update, occasion.parameters, entropy)
    knowledge = insight(attack, occasion)
    if len(knowledge) < attack.rows_needed:
        return update
    if not attack.alike:
        return attack.collude(knowledge.rows(), actors, entropy)
    return knowledge.common(attack, lambda rows: attack.collude(rows, actors, entropy))


def actors_of(attack: scenario.UpdateAttack, occasion: UpdateId) -> frozenset[PartyId]:
    """Return the members of the coalition ``attack.parties`` that act on an update."""
    coalition = tuple(PartyId(name) for name in attack.parties)
    if attack.actors is None:
        return frozenset(coalition)
    return _placed(coalition, occasion.clusters, attack.actors, attack.placement)


# In a simulation all members compute the same.
_placed = lru_cache(maxsize=4)(acting)


@dataclass(frozen=True, slots=True)
class _Shown:
    behaviours: tuple[scenario.Behaviour, ...]

    def acts(self, round_: int) -> bool:
        return any(behaviour.acts(round_) for behaviour in self.behaviours)


class _Unclipped(_Shown):
    """Clip seam that ignores the scenario's bound."""

    def __call__(self, update: F64, bound: float | None, occasion: UpdateId) -> F64:
        honest = not self.acts(occasion.round)
        return encoding.clip_l2(update, bound if honest else None)


class _Unbounded(_Shown):
    """Encode seam that ignores the bound of an unclipped update."""

    def __call__(self, plan: RunPlan, values: F64, entropy: Entropy, occasion: UpdateId) -> encoding.Encoded:
        if not self.acts(occasion.round):
            return HONEST.encode(plan, values, entropy, occasion)
        return plan.fixed_point.encode(values, entropy)


@dataclass(frozen=True, slots=True)
class _Concentrated:
    """Encode seam that adds energy on few coordinates to the result of ``encode``."""

    behaviours: tuple[scenario.SparseEnergy, ...]
    encode: Encode

    def __call__(self, plan: RunPlan, values: F64, entropy: Entropy, occasion: UpdateId) -> encoding.Encoded:
        encoded, mechanism = self.encode(plan, values, entropy, occasion), plan.mechanism
        shown = next((b for b in self.behaviours if b.acts(occasion.round)), None)
        if shown is None or mechanism is None:
            return encoded
        norm = shown.spreads * mechanism.shares.share_std
        sent = sparse_energy(encoded.values, values, norm, shown.coordinates)
        limit = plan.fixed_point.steps
        return encoding.Encoded(np.clip(sent, -limit, limit), encoded.saturated)


class _Noiseless(_Shown):
    """Noise seam that adds no noise."""

    def __call__(self, noise: I64, occasion: UpdateId) -> I64:
        if not self.acts(occasion.round):
            return noise
        return np.zeros_like(noise)


class _Bare(_Shown):
    """Seam that omits all components of removable noise that are never subtracted from the sum.

    A subtracted component must be present: otherwise it remains with the opposite sign. So components for
    dropouts after the masked input stay in the sum.
    """

    def __call__(self, certain: int, round_: int) -> int:
        return certain if self.acts(round_) else 0


@dataclass(frozen=True, slots=True)
class _Lied:
    """Metric seam that reports the highest, or lowest, possible values."""

    lies: tuple[scenario.FalseMetrics, ...]

    def __call__(self, metrics: F64, occasion: UpdateId) -> F64:
        lie = next((one for one in self.lies if one.acts(occasion.round)), None)
        if lie is None:
            return metrics
        # Values beyond a bound are encoded as the bound; the sample count stays plausible.
        extreme = np.full_like(metrics, np.inf if lie.extreme == "most" else -np.inf)
        extreme[0] = metrics[0]
        return extreme


class _WrongShares(_Shown):
    """Release seam that flips a bit of every share: none matches its published hash."""

    def __call__(self, shares: messages.ReleasedShares, round_: int) -> messages.ReleasedShares:
        if not self.acts(round_):
            return shares
        return messages.ReleasedShares(
            instances=tuple(_spoil_share(instance) for instance in shares.instances)
        )


def _spoil_share(
    instance: messages.InstanceShares | messages.InstanceSeed,
) -> messages.InstanceShares | messages.InstanceSeed:
    if isinstance(instance, messages.InstanceSeed):
        return replace(instance, seed=_flip_bit(instance.seed))
    return replace(
        instance,
        seed_shares=tuple((owner, _flip_bit(share)) for owner, share in instance.seed_shares),
        key_shares=tuple((owner, _flip_bit(share)) for owner, share in instance.key_shares),
    )


def _flip_bit(share: bytes) -> bytes:
    return share[:-1] + bytes([share[-1] ^ 1])
