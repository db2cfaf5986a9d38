"""Task groups in a round: each party's model, and clusters inside groups (docs/adr/0026)."""

from collections.abc import Collection, Mapping

import numpy as np

from securefl.base import crypto, entropy
from securefl.base.arrays import F32
from securefl.base.ids import PartyId
from securefl.methods import clustering
from securefl.protocol import messages
from securefl.protocol.round.shared.plan import RunPlan
from securefl.protocol.round.shared.randomness import group_entropy

NO_GROUPS: Mapping[PartyId, int] = {}


def is_valid_group(plan: RunPlan, group: int) -> bool:
    """Return True if a hello may state ``group``."""
    return (
        0 <= group < plan.models
        if clustering.tells_groups(plan.scenario.groups)
        else group == messages.NO_GROUP
    )


def model_of(plan: RunPlan, params: F32, group: int) -> F32:
    """Return a view of one group's model, f32 ``(d,)``, in all models f32 ``(k d,)``."""
    return params[group * plan.length : (group + 1) * plan.length]


def random_group(own: entropy.Entropy, round_: int, groups: int) -> int:
    """Return a random group for a party without a finite loss.

    It takes part all the same, with zeros, so that this is not observable.
    """
    return int.from_bytes(group_entropy(own, round_).draw(8), "big") % groups


def draw_inside_groups(
    plan: RunPlan, seed: bytes, present: Collection[PartyId], groups: Mapping[PartyId, int]
) -> clustering.Assignment:
    """Draw clusters inside each group in ascending order; groups too small for one wait.

    No party takes part if all clusters together have too few for a round.
    """
    clusters: list[tuple[PartyId, ...]] = []
    tasks: list[int] = []
    for group in range(plan.models):
        members = sorted(party for party in present if groups[party] == group)
        wanted = _participants_of_group(plan, len(members))
        if not wanted:
            continue
        own = crypto.digest("task group", seed, group)
        (row,) = clustering.draw_assignment(own, members, wanted, plan.scenario.clustering.size, 1).clusters
        clusters += row
        tasks += [group] * len(row)
    participants = tuple(sorted(party for members in clusters for party in members))
    if len(participants) < clustering.fewest_participants(plan.scenario):
        return clustering.Assignment((), ((),))
    return clustering.Assignment(participants, (tuple(clusters),), tasks=tuple(tasks))


def _participants_of_group(plan: RunPlan, members: int) -> int:
    size = plan.scenario.clustering.size
    return clustering.most_fitting(members, size, size, clustering.max_cluster_size(plan.scenario))


def likeliest_group(losses: np.ndarray[tuple[int, ...], np.dtype[np.float64]]) -> int | None:
    """Return the first model of least loss, f64 ``(k,)``; None if none is finite."""
    finite = np.isfinite(losses)
    return int(np.where(finite, losses, np.inf).argmin()) if finite.any() else None
