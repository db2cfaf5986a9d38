"""Members of a cluster that must state that they released nothing before its sum counts as closed."""

from securefl.methods import leakage
from securefl.protocol.round.shared.plan import RunPlan


def silent_of(plan: RunPlan) -> int:
    """Return the most members without a statement of a cluster that stays closed.

    A sum that needs the shares of all its members needs those of ``min_survivors`` at least.
    """
    sums = plan.scenario.secure_sum
    needed = sums.min_survivors if plan.sums.everyone else sums.threshold
    return leakage.silent_members(needed, sums.colluders_per_cluster)
