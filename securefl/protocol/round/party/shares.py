"""Release of shares after all checks (protocol.md, step 9): one per member."""

from collections.abc import Mapping
from dataclasses import replace

from securefl.base import sums
from securefl.base.errors import PeerError
from securefl.base.ids import SERVER, PartyId
from securefl.methods import clustering
from securefl.protocol import kernel, messages, secure_sum, wire
from securefl.protocol.round.party import phases
from securefl.protocol.round.shared import reports
from securefl.protocol.round.shared.slots import FIRST_SLOT, counts_at, least_in_slot, open_slots
from securefl.protocol.round.shared.statement import release_context, slots_statement


def release(ctx: phases.PartyContext, phase: phases.Endorsed) -> tuple[phases.PartyPhase, reports.Effects]:
    """Seal one share per member of each instance to the server, once; journal it first.

    With hidden groups release counts only; slots follow once their counts are known.
    """
    outside = phases.sit_out(phase, phase.history_after_release)
    entered: reports.Effects = (kernel.Enter(kernel.SumsGiven(phase.round, phase.released_sums)),)
    if not clustering.hides_groups(ctx.plan.scenario.groups):
        message, effects = _seal_shares(
            ctx, phase.round, phase.statement, phase.survivors, phase.instances, noted=entered
        )
        sent_release = phases.SentRelease(phase.round, message, outside.past.leader)
        return phases.Idle(replace(outside.past, released=sent_release)), effects
    counts = {key: i for key, i in phase.instances.items() if key[0] == clustering.COUNTS}
    waiting = phases.CountsReleased(
        outside.past,
        phase.round,
        phase.statement,
        phase.survivors,
        phase.question,
        phase.seat,
        {key: i for key, i in phase.instances.items() if key[0] != clustering.COUNTS},
    )
    _, effects = _seal_shares(ctx, phase.round, phase.statement, phase.survivors, counts, noted=entered)
    return waiting, effects


def resend_release(
    phase: phases.Idle, sent_release: phases.SentRelease
) -> tuple[phases.Idle, reports.Effects]:
    """Resend the same sealed shares to a later server, once to each."""
    leader = phase.past.leader
    if leader == sent_release.leader:
        return phase, ()
    past = replace(phase.past, released=replace(sent_release, leader=leader))
    return phases.Idle(past), (kernel.Send(SERVER, kernel.Place(sent_release.round), sent_release.message),)


def on_counts(
    ctx: phases.PartyContext, phase: phases.CountsReleased, place: kernel.Place, message: messages.SlotCounts
) -> tuple[phases.PartyPhase, reports.Effects]:
    """Release the slots of the own cluster with as many members as each party requires.

    Release nothing if the own seat is empty: a member moved counts.
    """
    if place.round != phase.round:
        raise PeerError(SERVER, f"sends group counts of round {place.round} in round {phase.round}")
    members = next(iter(phase.slots.values())).setup.members
    alive = phase.survivors.intersection(members)
    counts = counts_at(message.seats, ctx.plan.models)
    if len(message.seats) != len(alive) or sums.exact_sum(counts) != len(alive):
        raise PeerError(SERVER, f"sends group counts that do not fit {len(alive)} survivors")
    if phase.seat not in message.seats:
        raise PeerError(SERVER, "sends group counts without this party: the server or a member is dishonest")
    least = least_in_slot(ctx.plan, (phase.question.limits[party] for party in alive))
    slots = open_slots(counts, len(alive), least)
    cluster = next(iter(phase.slots))[1]
    report = kernel.Report(reports.SlotsCounted(phase.round, cluster, counts, slots, message.seats))
    chosen = {key: i for key, i in phase.slots.items() if key[0] - FIRST_SLOT in slots}
    outside = phases.Idle(phase.past)
    if not chosen:
        return outside, (report,)
    statement = slots_statement(phase.statement, message.seats)
    _, effects = _seal_shares(ctx, phase.round, statement, phase.survivors, chosen, "release slots")
    return outside, (report, *effects)


def _seal_shares(
    ctx: phases.PartyContext,
    round_: int,
    statement: bytes,
    survivors: frozenset[PartyId],
    instances: Mapping[reports.ClusterKey, secure_sum.InputSent],
    label: str = "release",
    noted: reports.Effects = (),
) -> tuple[messages.Release, reports.Effects]:
    shares = tuple(ctx.sums.member.release(i, survivors) for _, i in sorted(instances.items()))
    released = ctx.seams.release(messages.ReleasedShares(instances=shares), round_)
    sealed = ctx.plan.roster.server.seal(
        wire.encode(released),
        release_context(statement, ctx.me),
        ctx.entropy.child(label, round_),
    )
    message = messages.Release(sealed=sealed)
    return message, (
        *noted,
        kernel.Journal(round_, "released"),
        kernel.Send(SERVER, kernel.Place(round_), message),
        kernel.Report(_release_report(ctx, round_, instances, released)),
    )


def _release_report(
    ctx: phases.PartyContext,
    round_: int,
    among: Mapping[reports.ClusterKey, secure_sum.InputSent],
    released: messages.ReleasedShares,
) -> reports.SharesReleased:
    items = sorted(released.instances, key=lambda item: (item.reclustering, item.cluster))
    given = [
        (instance.setup.members, *ctx.sums.member.exposed_members(instance, item))
        for item in items
        for instance in (among[item.reclustering, item.cluster],)
    ]
    return reports.SharesReleased(
        round_,
        tuple((item.reclustering, item.cluster) for item in items),
        tuple(item.attempt for item in items),
        tuple(tuple(members[k] for k in counted) for members, counted, _ in given),
        tuple(tuple(members[k] for k in dropped) for members, _, dropped in given),
    )
