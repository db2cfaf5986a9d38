"""Unmasking: from the released shares of a round to its opened sums.

A sum that too few members released, whose shares do not fit together, or that is longer than what its
members may have sent is lost, and the round goes on with the others.
"""

from __future__ import annotations

from securefl.base.errors import PeerError
from securefl.base.text import count
from securefl.protocol.kernel import Reject, Report
from securefl.protocol.round.party.draw import Effects
from securefl.protocol.round.server.phases import Releasing, ServerContext
from securefl.protocol.round.server.slots import due_now, is_count
from securefl.protocol.round.server.stacking import ClusterSum
from securefl.protocol.round.shared.reports import InstanceLost, SumOpened


def unmask_all(ctx: ServerContext, phase: Releasing) -> tuple[list[ClusterSum], Effects]:
    """Open every sum that is due, as far as its releases allow; what is lost is reported."""
    frozen, round_, server = phase.frozen, phase.standing.round, ctx.plan.sums.server
    sums: list[ClusterSum] = []
    effects: list[Report | Reject] = []
    due = due_now(ctx.plan, phase)
    for key, instance in sorted(frozen.instances.items()):
        if key not in due:
            continue
        releases, needed = phase.shares.get(key, {}), instance.needed(frozen.survivors)
        if len(releases) < needed:
            reason = f"{count(len(releases), 'member')} released shares, {needed} are needed"
            effects.append(Report(InstanceLost(round_, *key, reason)))
            continue
        try:
            ring = server.open(instance, frozen.survivors, releases, ctx.store)
        except PeerError as error:
            effects += [
                Reject(error.culprit, error.reason),
                Report(InstanceLost(round_, *key, f"{error.culprit} {error.reason}")),
            ]
            continue
        doubt = server.doubt(instance, ring, phase.view.drawn.weights)
        if doubt:
            effects.append(Report(InstanceLost(round_, *key, doubt)))
            continue
        members = instance.setup.members
        alive = tuple(members[i] for i in instance.alive(frozen.survivors))
        opened = ClusterSum(*key, members=members, survivors=alive, ring=ring)
        sums.append(opened)
        if not is_count(ctx.plan, key):
            effects.append(Report(SumOpened(round_, opened)))
    return sums, tuple(effects)
