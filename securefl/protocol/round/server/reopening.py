"""Openings that outlive the server: what it keeps before it asks for shares, and asking again (ADR 0056).

Once survivors are certified there is one set of sums that their shares open, whoever asks. A server that is
started again asks for the same shares, and gets the same sealed boxes: the round is not void, and nobody
gives away more than it has. Void it still is with hidden groups, whose shares are asked for in two steps, and
where masked inputs of a verified round are more than the server's memory for vectors.
"""

from collections.abc import Mapping
from dataclasses import replace

from securefl.base import sums
from securefl.base.arrays import Ring
from securefl.base.ids import EVERYONE, SERVER
from securefl.methods import clustering, encoding
from securefl.protocol import kernel, messages, secure_sum
from securefl.protocol.round.server import phases
from securefl.protocol.round.shared import leakage, reports
from securefl.protocol.round.shared.draw import drawn_report

KEPT_BYTES = 2**30
"""Most bytes of masked inputs that the server keeps in memory; above this it spools them to disk."""


def begin_releasing(
    ctx: phases.ServerContext,
    standing: phases.Standing,
    view: phases.RoundView,
    frozen: phases.Frozen,
    certificate: tuple[bytes, ...],
    now: float,
) -> tuple[phases.Releasing, reports.Effects]:
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
    releasing = phases.Releasing(standing, view, frozen, frozenset(), {}, deadline)
    if clustering.hides_groups(ctx.plan.scenario.groups) or not frozen.instances:
        return releasing, ()
    totals, vectors = _totals(ctx, frozen), _vectors(ctx, frozen)
    releasing = replace(releasing, totals=totals)
    if vectors is None:
        return releasing, ()
    wired = {key: encoding.to_wire(total) for key, total in totals.items()}
    certified = phases.Certified(view, frozen, certificate, wired, vectors)
    return releasing, (kernel.Keep(phases.Checkpoint(standing.epoch, standing, certified=certified)),)


def ask_again(
    ctx: phases.ServerContext, standing: phases.Standing, certified: phases.Certified, now: float
) -> tuple[phases.Releasing, reports.Effects]:
    """Ask for the shares of a round that an earlier server has asked for, and say again what the round is."""
    round_, view, frozen = standing.round, certified.view, _stored(ctx, certified)
    setups = {key: one.setup for key, one in frozen.instances.items()}
    totals = {
        key: encoding.from_wire(raw, setups[key].length, setups[key].ring_bits, SERVER)
        for key, raw in certified.totals.items()
    }
    deadline = now + ctx.plan.scenario.deadlines.release
    releasing = phases.Releasing(standing, view, frozen, frozenset(), {}, deadline, totals=totals, again=True)
    question = leakage.Question(
        round_, view.assignment, frozen.survivors, view.limits, clustering.sums_apart(ctx.plan.scenario)
    )
    dropped = tuple(p for p in view.assignment.participants if p not in frozen.survivors)
    return releasing, (
        kernel.Report(reports.RoundStarted(round_, view.model)),
        kernel.Report(drawn_report(round_, view.drawn, view.samples)),
        kernel.Report(reports.SurvivorsFrozen(round_, tuple(sorted(frozen.survivors)), dropped)),
        *map(kernel.Report, leakage.withheld(round_, question.answer())),
        kernel.Report(reports.StepReached(round_, "release")),
        kernel.Send(EVERYONE, kernel.Place(round_), messages.Certificate(endorsements=certified.certificate)),
    )


def _totals(ctx: phases.ServerContext, frozen: phases.Frozen) -> dict[reports.ClusterKey, Ring]:
    """The sums of masked vectors, which say no more than one of them; none of sums that are verified."""
    return {
        key: secure_sum.added_up(instance.fixed_sum(frozen.survivors), instance.vectors(ctx.store))
        for key, instance in frozen.instances.items()
        if not instance.setup.verified
    }


def _vectors(
    ctx: phases.ServerContext, frozen: phases.Frozen
) -> Mapping[reports.ClusterKey, Mapping[int, bytes]] | None:
    """The masked vectors of sums that are verified, which prove them; None where they are too many."""
    verified = {key: one for key, one in frozen.instances.items() if one.setup.verified}
    size = sums.exact_sum(
        len(one.inputs) * one.setup.length * one.setup.ring_bits // 8 for one in verified.values()
    )
    if size > KEPT_BYTES:
        return None
    return {
        key: {i: bytes(ctx.store.get(handle)) for i, handle in one.inputs.items()}
        for key, one in verified.items()
    }


def _stored(ctx: phases.ServerContext, certified: phases.Certified) -> phases.Frozen:
    """What was frozen, its vectors in this server's store."""
    frozen = certified.frozen
    instances = dict(frozen.instances)
    for key, vectors in certified.vectors.items():
        inputs = {index: ctx.store.put(vector) for index, vector in vectors.items()}
        instances[key] = replace(instances[key], inputs=inputs)
    return replace(frozen, instances=instances)
