"""The server's last third of a round: certify, collect releases, open, aggregate, step, evaluate, stop."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from securefl.crypto.boxes import BoxError
from securefl.errors import PeerError
from securefl.ids import EVERYONE, PartyId
from securefl.kernel.effects import Evaluate, Finished, Reject, Report, Send
from securefl.kernel.events import Evaluated, Place
from securefl.messages.control import Goodbye
from securefl.messages.rounds import Certificate, Endorse, InstanceShares, Release, ReleasedShares
from securefl.messages.union import AnyMessage
from securefl.rounds.optimiser import past_update, server_step
from securefl.rounds.party_draw import Effects
from securefl.rounds.reports import (
    ClusterKey,
    InstanceLost,
    ModelFinal,
    ModelStepped,
    RoundDone,
    StepReached,
    SumOpened,
)
from securefl.rounds.server_gather import abort, begin_round
from securefl.rounds.server_phases import (
    Certifying,
    Ended,
    Evaluating,
    Frozen,
    Releasing,
    ServerContext,
    ServerPhase,
    Standing,
)
from securefl.rounds.stacking import ClusterSum, aggregate_round
from securefl.rounds.statement import LEDGER_PASS_THROUGH, release_context
from securefl.secagg.opening import check_release, open_sum, survivors_of
from securefl.wire.codec import decode_struct

MAX_FRUITLESS = 3
"""Rounds in a row without any update after which the run is aborted."""


def on_endorse(
    phase: Certifying, sender: PartyId, place: Place, message: Endorse, signed: bytes
) -> Certifying:
    """Take one endorsement.

    Raises:
        PeerError: not a survivor, a second one, or of something else than the frozen statement.
    """
    if place != Place(phase.standing.round) or sender not in phase.frozen.survivors or not signed:
        raise PeerError(sender, "endorses out of turn")
    if sender in phase.endorsements:
        raise PeerError(sender, "endorses twice")
    if message.statement != phase.frozen.statement or message.ledger_head != LEDGER_PASS_THROUGH:
        raise PeerError(sender, "endorses another statement than the frozen one")
    return replace(phase, endorsements={**phase.endorsements, sender: (message, signed)})


def close_certifying(ctx: ServerContext, phase: Certifying, now: float) -> tuple[ServerPhase, Effects]:
    """Send the certificate; without a quorum nothing will be released."""
    round_, quorum = phase.standing.round, ctx.plan.limits.quorum or 0
    if len(phase.endorsements) < quorum:
        reason = f"{len(phase.endorsements)} endorsements, a certificate needs {quorum}"
        lost = tuple(Report(InstanceLost(round_, r, j, reason)) for r, j in sorted(phase.frozen.instances))
        nothing = Frozen(frozenset(), phase.frozen.statement, {})
        return Releasing(phase.standing, phase.view, nothing, frozenset(), {}, now), lost
    frames = tuple(frame for _, (_, frame) in sorted(phase.endorsements.items()))
    deadline = now + ctx.plan.scenario.deadlines.release
    releasing = Releasing(phase.standing, phase.view, phase.frozen, frozenset(), {}, deadline)
    return releasing, (
        Report(StepReached(round_, "release")),
        Send(EVERYONE, Place(round_), Certificate(endorsements=frames)),
    )


def on_release(
    ctx: ServerContext, phase: Releasing, sender: PartyId, place: Place, message: Release
) -> tuple[Releasing, Effects]:
    """Take one survivor's shares. A wrong share in one instance does not spoil the sender's others.

    Raises:
        PeerError: not a survivor, a second release, or a box that does not open.
    """
    if place != Place(phase.standing.round) or sender not in phase.frozen.survivors:
        raise PeerError(sender, "releases out of turn")
    if sender in phase.released:
        raise PeerError(sender, "releases twice")
    try:
        opened = ctx.identity.open_sealed(message.sealed, release_context(phase.frozen.statement, sender))
    except BoxError as error:
        raise PeerError(sender, "its release does not open") from error
    released = decode_struct(ReleasedShares, opened, sender)
    shares = {key: dict(held) for key, held in phase.shares.items()}
    rejects: list[Reject] = []
    for item in released.instances:
        try:
            shares.setdefault(_checked(phase.frozen, sender, item), {})[sender] = item
        except PeerError as error:
            rejects.append(Reject(error.culprit, error.reason))
    return replace(phase, released=phase.released | {sender}, shares=shares), tuple(rejects)


def _checked(frozen: Frozen, sender: PartyId, item: InstanceShares) -> ClusterKey:
    key = (item.reclustering, item.cluster)
    instance = frozen.instances.get(key)
    if instance is None or item.attempt != instance.setup.instance.attempt:
        raise PeerError(
            sender, f"releases shares of instance {key} attempt {item.attempt}, which is not frozen"
        )
    check_release(instance, frozen.survivors, sender, item)
    return key


def close_releasing(ctx: ServerContext, phase: Releasing) -> tuple[ServerPhase, Effects]:
    """Open what can be opened, aggregate, step and ask for an evaluation."""
    round_, view = phase.standing.round, phase.view
    sums, lost, effects = _open_all(ctx, phase)
    ctx.store.discard_all()
    result = aggregate_round(
        ctx.plan,
        sums,
        view.weights,
        view.seed,
        past_update(ctx.plan.scenario.server_optimiser, phase.standing.velocity),
    )
    standing = phase.standing
    if result.update is None:
        standing = replace(standing, fruitless_rounds=standing.fruitless_rounds + 1)
    else:
        params, velocity = server_step(
            ctx.plan.scenario.server_optimiser, standing.params, standing.velocity, result.update
        )
        standing = replace(
            standing, params=params, velocity=velocity, fruitless_rounds=0, updates=standing.updates + 1
        )
    norm = None if result.update is None else float(np.linalg.norm(result.update))
    done = RoundDone(
        round=round_,
        accuracy=0.0,
        loss=0.0,
        participants=view.assignment.participants,
        survivors=tuple(sorted(phase.frozen.survivors)),
        opened=tuple((s.reclustering, s.cluster) for s in sums),
        lost=lost,
        kept=result.kept,
        rejected=result.rejected,
    )
    return Evaluating(standing, done), (
        *effects,
        Report(ModelStepped(round_, result.kept, result.rejected, norm)),
        Evaluate(round_, standing.params),
    )


def on_evaluated(ctx: ServerContext, phase: Evaluating, event: Evaluated) -> tuple[ServerPhase, Effects]:
    """Report the round; then stop, give up, or begin the next one."""
    standing, stop = phase.standing, ctx.plan.scenario.stop
    done = Report(replace(phase.done, accuracy=event.accuracy, loss=event.loss))
    if standing.fruitless_rounds >= MAX_FRUITLESS:
        ended, effects = abort(f"no sum could be used in {MAX_FRUITLESS} rounds in a row")
        return ended, (done, *effects)
    better = event.accuracy > standing.best_accuracy
    standing = replace(
        standing,
        best_accuracy=max(event.accuracy, standing.best_accuracy),
        stale_rounds=0 if better else standing.stale_rounds + 1,
    )
    reason = ""
    if stop.target_accuracy is not None and event.accuracy >= stop.target_accuracy:
        reason = f"accuracy {event.accuracy:.4f} reached the target {stop.target_accuracy:g}"
    elif stop.patience is not None and standing.stale_rounds >= stop.patience:
        reason = f"no better accuracy in {stop.patience} rounds"
    elif standing.round + 1 >= stop.rounds:
        reason = f"{stop.rounds} rounds done"
    if reason and not standing.updates:
        ended, effects = abort(f"{reason}, and none of them gave an update")
        return ended, (done, Report(ModelFinal(standing.round, standing.params)), *effects)
    if reason:
        return _finish(standing, done, reason)
    following = replace(standing, round=standing.round + 1)
    greeting, effects = begin_round(ctx, following, event.now)
    return greeting, (done, *effects)


def _finish(standing: Standing, done: Report, reason: str) -> tuple[ServerPhase, Effects]:
    goodbye: Send[AnyMessage] = Send(EVERYONE, Place(-1), Goodbye(reason=reason, aborted=False))
    return Ended(), (done, Report(ModelFinal(standing.round, standing.params)), goodbye, Finished(reason))


def _open_all(
    ctx: ServerContext, phase: Releasing
) -> tuple[list[ClusterSum], tuple[ClusterKey, ...], Effects]:
    frozen, round_, threshold = phase.frozen, phase.standing.round, ctx.plan.scenario.secure_sum.threshold
    sums: list[ClusterSum] = []
    effects: list[Report | Reject] = []
    for key, instance in sorted(frozen.instances.items()):
        releases = phase.shares.get(key, {})
        if len(releases) < threshold:
            reason = f"{len(releases)} members released their shares, {threshold} are needed"
            effects.append(Report(InstanceLost(round_, *key, reason)))
            continue
        try:
            ring = open_sum(instance, frozen.survivors, releases, ctx.store)
        except PeerError as error:
            effects += [
                Reject(error.culprit, error.reason),
                Report(InstanceLost(round_, *key, f"{error.culprit} {error.reason}")),
            ]
            continue
        members = instance.setup.members
        alive = tuple(members[i] for i in survivors_of(instance, frozen.survivors))
        opened = ClusterSum(*key, members=members, survivors=alive, ring=ring)
        sums.append(opened)
        effects.append(Report(SumOpened(round_, opened)))
    everything = {(r, j) for r, row in enumerate(phase.view.assignment.clusters) for j in range(len(row))}
    lost = tuple(sorted(everything - {(s.reclustering, s.cluster) for s in sums}))
    return sums, lost, tuple(effects)
