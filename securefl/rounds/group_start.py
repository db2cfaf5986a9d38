"""Where the models of task groups start without an oracle: one plain model, split by what clusters sum to.

In the first ``groups.warmup`` rounds everybody learns the first model. The sums of the last of them are then
split, and each part tilts a copy of the model towards what it has in common: enough for parties to tell the
copies apart by their loss. It takes no message and no sum that a plain round does not have.
"""

from __future__ import annotations

import numpy as np

from securefl.arrays import F32, F64
from securefl.crypto.labels import digest
from securefl.groups.kmeans import trimmed_kmeans
from securefl.rounds.plan import Plan

TRIM = 0.1
"""Share of the sums that k-means leaves out."""


def chooses(plan: Plan, round_: int) -> bool:
    """Whether parties choose among models in a round; before, all learn the first."""
    return plan.models > 1 and round_ >= plan.scenario.groups.warmup


def splits_after(plan: Plan, round_: int) -> bool:
    """Whether the models are split at the end of a round."""
    return plan.models > 1 and round_ == plan.scenario.groups.warmup - 1


def split_models(plan: Plan, model: F32, means: F64, seed: bytes) -> F32:
    """K models, f32 ``(k d,)``, around one.

    Means are taken from their coordinate-wise median, shortened to the median length, reduced to the k - 1
    directions in which most of them differ, and split by trimmed k-means. A part's model is the plain one and
    its mean deviation times the members of a cluster, as in :func:`securefl.groups.starts.split`.

    Args:
        plan: of the run.
        model: the plain one, f32 ``(d,)``.
        means: of clusters, f64 ``(c, d)``.
        seed: of the round, which nobody could choose.
    """
    groups = min(plan.models, len(means))
    away = means - np.median(means, axis=0)
    lengths = np.sqrt(np.einsum("cd,cd->c", away, away))
    away *= np.minimum(1.0, np.median(lengths) / np.maximum(lengths, 1e-300))[:, np.newaxis]
    # Not a matrix product, whose bits depend on the number of threads.
    products: F64 = np.einsum("id,jd->ij", away, away)
    values, vectors = np.linalg.eigh(products)
    leading = np.argsort(-values, kind="stable")[: max(1, groups - 1)]
    places = np.ascontiguousarray(vectors[:, leading] * np.sqrt(np.maximum(values[leading], 0.0)))
    rng = np.random.default_rng(int.from_bytes(digest("group start", seed)[:8], "big"))
    parts = trimmed_kmeans(places, groups, TRIM if len(means) - groups > TRIM * len(means) else 0.0, rng)
    models = []
    for group in range(plan.models):
        members = parts.nearest == group
        tilt = away[members].mean(axis=0) if members.any() else np.zeros(plan.length)
        models.append(model + plan.scenario.clustering.size * tilt)
    return np.concatenate(models).astype(np.float32)
