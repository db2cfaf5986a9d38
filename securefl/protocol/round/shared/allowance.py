"""Time allowed for the steps of a run: their deadlines, extended for large vectors."""

import math
from typing import Literal

from securefl.base import sums
from securefl.methods import clustering, feasibility
from securefl.protocol.round.shared.plan import RunPlan

Step = Literal["hello", "shares", "training", "verify"]
"""Steps that transfer vectors."""

BYTES_PER_SECOND = 1e6
"""Least bandwidth of each party's connection."""


def allowed_seconds(plan: RunPlan, step: Step) -> float:
    """Return the seconds for a step: its deadline, or the transfer of its vectors if longer."""
    wanted: float = getattr(plan.scenario.deadlines, step)
    return max(wanted, vector_bytes(plan, step) / BYTES_PER_SECOND)


def vector_bytes(plan: RunPlan, step: Step) -> int:
    """Return the most bytes of vectors through one party's connection in a step.

    ``hello`` has the models, four bytes per parameter; ``verify`` proofs; others all the party's sums.
    """
    if step == "hello":
        return 4 * plan.total_parameters
    if step == "verify":
        return sums.exact_sum(proof_bytes(plan))
    words = plan.scenario.clustering.reclusterings * plan.length
    if clustering.hides_groups(plan.scenario.groups):
        words = plan.sum_length(clustering.COUNTS) + plan.total_parameters
    vectors = plan.sums.vectors(step, plan.limits.max_cluster_size)
    return words * plan.limits.ring_bits // 8 * vectors


def proof_bytes(plan: RunPlan) -> tuple[int, int]:
    """Return the most bytes of vectors in the proof of an opening and of a step; 0 if not verified.

    Opening: all vectors of a cluster. Step: all sums of a round, moments (eight bytes per parameter), the
    next model (four).
    """
    proofs = feasibility.proofs_of(plan.scenario, plan.limits.ring_bits, plan.length)
    return proofs.opening, proofs.step


def extra_seconds(plan: RunPlan) -> float:
    """Return the seconds by which vectors may extend a round."""
    steps: tuple[Step, ...] = ("hello", "shares", "training", "verify")
    return math.fsum(
        allowed_seconds(plan, step) - float(getattr(plan.scenario.deadlines, step)) for step in steps
    )
