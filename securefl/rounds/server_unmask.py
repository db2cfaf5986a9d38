"""Unmasking: from the released shares of a round to its opened sums.

A sum that too few members released, whose shares do not fit together, or that is longer than what its
members may have sent is lost, and the round goes on with the others.
"""

from __future__ import annotations

from collections.abc import Mapping

from securefl.arrays import Ring
from securefl.config.wording import count
from securefl.errors import PeerError
from securefl.ids import PartyId
from securefl.kernel.effects import Reject, Report
from securefl.messages.crypten import InstanceSeed
from securefl.messages.rounds import InstanceShares
from securefl.rounds.party_draw import Effects
from securefl.rounds.reports import InstanceLost, SumOpened
from securefl.rounds.server_phases import Frozen, Releasing, ServerContext
from securefl.rounds.server_slots import due_now, is_count
from securefl.rounds.stacking import ClusterSum
from securefl.secure_sum.crypten.server import open_shares
from securefl.secure_sum.masking.opening import open_sum, survivors_of
from securefl.secure_sum.masking.server import CollectingInputs
from securefl.secure_sum.validated.validation import is_too_long


def unmask_all(ctx: ServerContext, phase: Releasing) -> tuple[list[ClusterSum], Effects]:
    """Open every sum that is due, as far as its releases allow; what is lost is reported."""
    frozen, round_ = phase.frozen, phase.standing.round
    sums: list[ClusterSum] = []
    effects: list[Report | Reject] = []
    due = due_now(ctx.plan, phase)
    for key, instance in sorted(frozen.instances.items()):
        if key not in due:
            continue
        releases, needed = phase.shares.get(key, {}), _needed(instance, frozen.survivors)
        if len(releases) < needed:
            reason = f"{count(len(releases), 'member')} released shares, {needed} are needed"
            effects.append(Report(InstanceLost(round_, *key, reason)))
            continue
        try:
            ring = _opened(ctx, frozen, instance, releases)
        except PeerError as error:
            effects += [
                Reject(error.culprit, error.reason),
                Report(InstanceLost(round_, *key, f"{error.culprit} {error.reason}")),
            ]
            continue
        if instance.accepted is not None and is_too_long(ring, _norm_of(ctx, phase, instance)):
            reason = "longer than the accepted updates can be together: somebody's share is wrong"
            effects.append(Report(InstanceLost(round_, *key, reason)))
            continue
        members = instance.setup.members
        alive = tuple(members[i] for i in survivors_of(instance, frozen.survivors))
        opened = ClusterSum(*key, members=members, survivors=alive, ring=ring)
        sums.append(opened)
        if not is_count(ctx.plan, key):
            effects.append(Report(SumOpened(round_, opened)))
    return sums, tuple(effects)


def _needed(instance: CollectingInputs, survivors: frozenset[PartyId]) -> int:
    """How many have to release; of a validated sum all members, as each holds a part of every update."""
    if instance.accepted is not None:
        return len(instance.sharers)
    return instance.setup.needed(len(survivors_of(instance, survivors)))


def _opened(
    ctx: ServerContext,
    frozen: Frozen,
    instance: CollectingInputs,
    releases: Mapping[PartyId, InstanceShares | InstanceSeed],
) -> Ring:
    if instance.setup.everyone:
        seeds = {party: item for party, item in releases.items() if isinstance(item, InstanceSeed)}
        return open_shares(instance, seeds, ctx.store)
    shares = {party: item for party, item in releases.items() if isinstance(item, InstanceShares)}
    return open_sum(instance, frozen.survivors, shares, ctx.store)


def _norm_of(ctx: ServerContext, phase: Releasing, instance: CollectingInputs) -> int:
    """The longest that the sum of the accepted updates can be, in steps."""
    weights, members = phase.view.drawn.weights, instance.setup.members
    return sum(ctx.plan.norm_test(weights[members[i]]).norm for i in instance.accepted or ())
