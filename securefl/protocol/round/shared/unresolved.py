"""Number of cluster members without a statement at which a sum is closed."""

from securefl.methods import leakage
from securefl.protocol.round.shared.plan import RunPlan


def max_silent_members(plan: RunPlan) -> int:
    """Return the most members without a statement of a closed cluster.

    A sum that needs all members' shares needs at least ``min_survivors``.
    """
    sums = plan.scenario.secure_sum
    needed = sums.min_survivors if plan.sums.requires_all_members else sums.threshold
    return leakage.silent_members(needed, sums.colluders_per_cluster)
