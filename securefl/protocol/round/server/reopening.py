"""Openings that survive a restart of the server: stored state, and the repeated request (ADR 0056).

Certified survivors fix one set of sums, whichever server asks. A restarted server receives the same sealed
boxes, so no party discloses more. The round is void with hidden groups, whose shares take two requests, and
if a verified round's masked inputs exceed :data:`MAX_VECTOR_BYTES`.
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

MAX_VECTOR_BYTES = 2**30
"""Most bytes of masked inputs in the server's memory; more are spooled to disk."""


def begin_releasing(
    ctx: phases.ServerContext,
    standing: phases.ServerState,
    view: phases.RoundView,
    frozen: phases.Frozen,
    certificate: tuple[bytes, ...],
    now: float,
) -> tuple[phases.Releasing, reports.Effects]:
    """Wait for the shares that open the round's sums; return the effect that stores these sums.

    ``certificate`` is empty if the freeze itself requests shares.
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
    certified = phases.StoredOpening(view, frozen, certificate, wired, vectors)
    return releasing, (kernel.Keep(phases.Checkpoint(standing.epoch, standing, certified=certified)),)


def repeat_request(
    ctx: phases.ServerContext, standing: phases.ServerState, certified: phases.StoredOpening, now: float
) -> tuple[phases.Releasing, reports.Effects]:
    """Repeat an earlier server's request for shares, and report the round again."""
    round_, view, frozen = standing.round, certified.view, _store_vectors(ctx, certified)
    setups = {key: one.setup for key, one in frozen.instances.items()}
    totals = {
        key: encoding.from_wire(raw, setups[key].length, setups[key].ring_bits, SERVER)
        for key, raw in certified.totals.items()
    }
    deadline = now + ctx.plan.scenario.deadlines.release
    releasing = phases.Releasing(
        standing, view, frozen, frozenset(), {}, deadline, totals=totals, is_repeated=True
    )
    question = leakage.LedgerQuestion(
        round_, view.assignment, frozen.survivors, view.limits, clustering.sums_apart(ctx.plan.scenario)
    )
    dropped = tuple(p for p in view.assignment.participants if p not in frozen.survivors)
    return releasing, (
        kernel.Report(reports.RoundStarted(round_, view.model)),
        kernel.Report(drawn_report(round_, view.drawn, view.samples)),
        kernel.Report(reports.SurvivorsFrozen(round_, tuple(sorted(frozen.survivors)), dropped)),
        *map(kernel.Report, leakage.withheld_report(round_, question.answer())),
        kernel.Report(reports.StepReached(round_, "release")),
        kernel.Send(EVERYONE, kernel.Place(round_), messages.Certificate(endorsements=certified.certificate)),
    )


def _totals(ctx: phases.ServerContext, frozen: phases.Frozen) -> dict[reports.ClusterKey, Ring]:
    """Return the sums of masked vectors, except verified ones; these reveal no more than one vector."""
    return {
        key: secure_sum.added_up(instance.fixed_sum(frozen.survivors), instance.vectors(ctx.store))
        for key, instance in frozen.instances.items()
        if not instance.setup.verified
    }


def _vectors(
    ctx: phases.ServerContext, frozen: phases.Frozen
) -> Mapping[reports.ClusterKey, Mapping[int, bytes]] | None:
    verified = {key: one for key, one in frozen.instances.items() if one.setup.verified}
    size = sums.exact_sum(
        len(one.inputs) * one.setup.length * one.setup.ring_bits // 8 for one in verified.values()
    )
    if size > MAX_VECTOR_BYTES:
        return None
    return {
        key: {i: bytes(ctx.store.get(handle)) for i, handle in one.inputs.items()}
        for key, one in verified.items()
    }


def _store_vectors(ctx: phases.ServerContext, certified: phases.StoredOpening) -> phases.Frozen:
    frozen = certified.frozen
    instances = dict(frozen.instances)
    for key, vectors in certified.vectors.items():
        inputs = {index: ctx.store.put(vector) for index, vector in vectors.items()}
        instances[key] = replace(instances[key], inputs=inputs)
    return replace(frozen, instances=instances)
