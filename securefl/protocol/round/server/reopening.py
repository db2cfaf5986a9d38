"""Openings that outlive the server: what it keeps before it asks for shares, and asking again (ADR 0056).

Once survivors are certified there is one set of sums that their shares open, whoever asks. A server that is
started again asks for the same shares, and gets the same sealed boxes: the round is not void, and nobody
gives away more than it has. Void it still is with hidden groups, whose shares are asked for in two steps, and
where masked inputs of a verified round are more than ``secure_sum.spool_megabytes``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from securefl.base.arrays import Ring
from securefl.base.ids import EVERYONE, SERVER
from securefl.base.sums import exact_sum
from securefl.methods.clustering import hides_groups, sums_apart
from securefl.methods.encoding import from_wire, to_wire
from securefl.protocol.kernel import Keep, Place, Report, Send
from securefl.protocol.messages import Certificate
from securefl.protocol.round.server.phases import (
    Certified,
    Checkpoint,
    Frozen,
    Releasing,
    RoundView,
    ServerContext,
    Standing,
)
from securefl.protocol.round.shared.draw import drawn_report
from securefl.protocol.round.shared.leakage import Question, withheld
from securefl.protocol.round.shared.reports import (
    ClusterKey,
    Effects,
    RoundStarted,
    StepReached,
    SurvivorsFrozen,
)
from securefl.protocol.secure_sum import added_up

_MEGABYTE = 2**20


def begin_releasing(
    ctx: ServerContext,
    standing: Standing,
    view: RoundView,
    frozen: Frozen,
    certificate: tuple[bytes, ...],
    now: float,
) -> tuple[Releasing, Effects]:
    """Await the shares that open the round's sums; return the effect that writes down what is to be opened.

    Args:
        ctx: of the server.
        standing: of the round.
        view: of the round.
        frozen: who survived, and what may be opened.
        certificate: signed frames; none where the freeze itself asks for shares.
        now: the time.
    """
    deadline = now + ctx.plan.scenario.deadlines.release
    releasing = Releasing(standing, view, frozen, frozenset(), {}, deadline)
    if hides_groups(ctx.plan.scenario.groups) or not frozen.instances:
        return releasing, ()
    totals, vectors = _totals(ctx, frozen), _vectors(ctx, frozen)
    releasing = replace(releasing, totals=totals)
    if vectors is None:
        return releasing, ()
    wired = {key: to_wire(total) for key, total in totals.items()}
    certified = Certified(view, frozen, certificate, wired, vectors)
    return releasing, (Keep(Checkpoint(standing.epoch, standing, certified=certified)),)


def ask_again(
    ctx: ServerContext, standing: Standing, certified: Certified, now: float
) -> tuple[Releasing, Effects]:
    """Ask for the shares of a round that an earlier server has asked for, and say again what the round is."""
    round_, view, frozen = standing.round, certified.view, _stored(ctx, certified)
    setups = {key: one.setup for key, one in frozen.instances.items()}
    totals = {
        key: from_wire(raw, setups[key].length, setups[key].ring_bits, SERVER)
        for key, raw in certified.totals.items()
    }
    deadline = now + ctx.plan.scenario.deadlines.release
    releasing = Releasing(standing, view, frozen, frozenset(), {}, deadline, totals=totals, again=True)
    question = Question(round_, view.assignment, frozen.survivors, view.limits, sums_apart(ctx.plan.scenario))
    dropped = tuple(p for p in view.assignment.participants if p not in frozen.survivors)
    return releasing, (
        Report(RoundStarted(round_, view.model)),
        Report(drawn_report(round_, view.drawn, view.samples)),
        Report(SurvivorsFrozen(round_, tuple(sorted(frozen.survivors)), dropped)),
        *map(Report, withheld(round_, question.answer())),
        Report(StepReached(round_, "release")),
        Send(EVERYONE, Place(round_), Certificate(endorsements=certified.certificate)),
    )


def _totals(ctx: ServerContext, frozen: Frozen) -> dict[ClusterKey, Ring]:
    """The sums of masked vectors, which say no more than one of them; none of sums that are verified."""
    return {
        key: added_up(instance.fixed(frozen.survivors), instance.vectors(ctx.store))
        for key, instance in frozen.instances.items()
        if not instance.setup.verified
    }


def _vectors(ctx: ServerContext, frozen: Frozen) -> Mapping[ClusterKey, Mapping[int, bytes]] | None:
    """The masked vectors of sums that are verified, which prove them; None where they are too many."""
    verified = {key: one for key, one in frozen.instances.items() if one.setup.verified}
    size = exact_sum(
        len(one.inputs) * one.setup.length * one.setup.ring_bits // 8 for one in verified.values()
    )
    if size > ctx.plan.scenario.secure_sum.spool_megabytes * _MEGABYTE:
        return None
    return {
        key: {i: bytes(ctx.store.get(handle)) for i, handle in one.inputs.items()}
        for key, one in verified.items()
    }


def _stored(ctx: ServerContext, certified: Certified) -> Frozen:
    """What was frozen, its vectors in this server's store."""
    frozen = certified.frozen
    instances = dict(frozen.instances)
    for key, vectors in certified.vectors.items():
        inputs = {index: ctx.store.put(vector) for index, vector in vectors.items()}
        instances[key] = replace(instances[key], inputs=inputs)
    return replace(frozen, instances=instances)
