"""Time allowed for the steps of a run: their deadlines, and never less than their vectors need."""

import math
from typing import Literal

from securefl.base import sums
from securefl.methods import clustering, feasibility
from securefl.protocol.round.shared.plan import RunPlan

Step = Literal["hello", "shares", "training", "verify"]
"""Steps in which vectors travel: the model, what members of a sum send each other, and what they submit."""

RATE = 1e6
"""Bytes a second that each party's connection carries at least."""


def allowed(plan: RunPlan, step: Step) -> float:
    """Seconds for a step: its deadline, or what its vectors take at :data:`RATE` if that is longer."""
    wanted: float = getattr(plan.scenario.deadlines, step)
    return max(wanted, vector_bytes(plan, step) / RATE)


def vector_bytes(plan: RunPlan, step: Step) -> int:
    """Bytes of vectors that pass one party's connection in a step, at most.

    In ``hello`` the models come, four bytes a parameter; in ``verify`` proofs. In the others there are words
    for each coordinate of each of its sums, as many times as the kind of sum says.
    """
    if step == "hello":
        return 4 * plan.broadcast
    if step == "verify":
        return sums.exact_sum(proof_bytes(plan))
    words = plan.scenario.clustering.reclusterings * plan.length
    if clustering.hides_groups(plan.scenario.groups):
        words = plan.words(clustering.COUNTS) + plan.broadcast
    vectors = plan.sums.vectors(step, plan.limits.max_cluster_size)
    return words * plan.limits.ring_bits // 8 * vectors


def proof_bytes(plan: RunPlan) -> tuple[int, int]:
    """Bytes of vectors in the proof of one opening, and in that of a step, at most; 0 where nobody verifies.

    All vectors of a cluster; all sums of a round, the optimiser's moments, eight bytes a parameter each, and
    the next model, four bytes a parameter.
    """
    proofs = feasibility.proofs_of(plan.scenario, plan.limits.ring_bits, plan.length)
    return proofs.opening, proofs.step


def extra(plan: RunPlan) -> float:
    """Seconds by which a round may exceed the sum of its deadlines, for its vectors."""
    steps: tuple[Step, ...] = ("hello", "shares", "training", "verify")
    return math.fsum(allowed(plan, step) - float(getattr(plan.scenario.deadlines, step)) for step in steps)
