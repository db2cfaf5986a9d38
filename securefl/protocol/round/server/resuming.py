"""Resumption of a server: its epoch, its starting point, and the outcome of an open round (ADR 0054).

A round with an announced draw is void and its updates count as released, unless its shares were requested
(:mod:`securefl.protocol.round.server.reopening`). A round with invitations only starts again.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from securefl.base.ids import EVERYONE, SERVER, PartyId
from securefl.methods import clustering
from securefl.protocol import kernel, messages, wire
from securefl.protocol.round import walk
from securefl.protocol.round.server import phases
from securefl.protocol.round.shared import reports
from securefl.protocol.round.shared.budget import add_round
from securefl.protocol.round.shared.plan import RunPlan
from securefl.protocol.round.shared.presence import FIRST
from securefl.protocol.round.shared.statement import model_digest

MAX_EPOCH_LEAD: Final = 2**16
"""Largest believed lead: a liar must not exhaust the epochs."""
VOID_BY_RESTART: Final = (
    "the server was started again in it: what parties may have released counts, and opens nothing"
)
_NOTHING: Final = -1

Clusters = tuple[tuple[tuple[PartyId, ...], ...], ...]


def checkpoint_effect(standing: phases.ServerState, phase: phases.Evaluating | None = None) -> kernel.Keep:
    """Return the effect that stores the state before a round, or before a model's test."""
    state = phases.Checkpoint(standing.epoch, standing)
    return kernel.Keep(state if phase is None else replace(state, done=phase.done, norm=phase.norm))


def next_epoch(own: int, stated: Mapping[PartyId, phases.StatedProgress]) -> int:
    """Return the epoch to lead, after all known ones; ``own`` is 0 for none."""
    believed = (one.epoch for one in stated.values() if one.epoch <= own + MAX_EPOCH_LEAD)
    return min(max(own, *believed, 0) + 1, wire.MAX_EPOCH)


def reason_outdated(
    plan: RunPlan, stated: Mapping[PartyId, phases.StatedProgress], reached: int
) -> str | None:
    """Return why this server's state is older than the run, or None.

    More than q parties must state a round after ``reached``, the next one here.
    """
    rounds = sorted((one.round for one in stated.values()), reverse=True)
    seen = next(iter(rounds[plan.scenario.secure_sum.colluders :]), _NOTHING)
    if seen <= reached:
        return None
    return _older(seen, reached)


def record_progress(
    ctx: phases.ServerContext, phase: phases.RunningPhase, sender: PartyId, round_: int
) -> phases.ServerState | kernel.Aborted:
    """Record a party's progress beyond this server's; end if more than q parties are ahead."""
    standing = phase.standing
    reached = standing.round + isinstance(phase, phases.Evaluating)
    if round_ <= reached:
        return standing
    ahead = standing.session.parties_ahead | {sender}
    if len(ahead) <= ctx.plan.scenario.secure_sum.colluders:
        return replace(standing, session=replace(standing.session, parties_ahead=ahead))
    return kernel.Aborted(_older(round_, reached), over=False, decide=True)


def _older(seen: int, reached: int) -> str:
    return (
        f"parties have been in round {seen}, and this server's state ends before round {reached}: it is an"
        " older copy, or none (restore the newest checkpoint, or start a new run under another --run)"
    )


def record_other_server(
    ctx: phases.ServerContext, standing: phases.ServerState, sender: PartyId, leader: bytes
) -> phases.ServerState | kernel.Aborted:
    """Record that a party follows a later server; if more than q do, end without a goodbye."""
    elsewhere = standing.session.following_other_server | {sender}
    if len(elsewhere) <= ctx.plan.scenario.secure_sum.colluders:
        return replace(standing, session=replace(standing.session, following_other_server=elsewhere))
    return kernel.Aborted(
        f"displaced: another server leads the run, in epoch {wire.epoch_of(leader)}, and parties follow it",
        over=False,
        decide=True,
    )


def take_lead(ctx: phases.ServerContext, phase: phases.Joining) -> tuple[phases.Joining, reports.Effects]:
    """Lead the next epoch, durably before any message in it."""
    resumed = ctx.resumed
    known = 0 if resumed is None else resumed.checkpoint.epoch
    epoch = next_epoch(known, phase.progress_by_party)
    session = wire.session_of_server(epoch, ctx.entropy.child("lead", epoch))
    reached = phase.standing.round + (resumed is not None and resumed.checkpoint.done is not None)
    ahead = frozenset(party for party, one in phase.progress_by_party.items() if one.round > reached)
    standing = replace(
        phase.standing,
        epoch=epoch,
        session=replace(phase.standing.session, leader=session, parties_ahead=ahead),
    )
    state = phases.Checkpoint(epoch, standing)
    if resumed is not None:
        state = replace(resumed.checkpoint, epoch=epoch, standing=standing)
    here: kernel.Send[messages.AnyMessage] = kernel.Send(EVERYONE, kernel.Place(-1), FIRST)
    effects: reports.Effects = (
        ()
        if epoch == 1
        else (kernel.Report(reports.EpochLed(epoch, standing.round)), *_repeat_last_claim(ctx, standing))
    )
    return replace(phase, standing=standing), (
        kernel.Keep(state),
        kernel.Lead(session),
        *effects,
        here,
    )


def _repeat_last_claim(ctx: phases.ServerContext, standing: phases.ServerState) -> reports.Effects:
    if standing.claims.chain is None or standing.claims.chain.link.claim.round < 0:
        return ()
    link, frames = standing.claims.chain.link, standing.claims.chain.frames
    verifiers = {
        wire.open_relayed(frame, ctx.plan.roster, ctx.plan.run, SERVER, SERVER).sender for frame in frames
    }
    return (kernel.Report(reports.ClaimConfirmed(link.claim.round, link.root, len(verifiers))),)


def draw_entry(clusters: Clusters) -> str:
    """Return the journal step of a draw: its clusters, by reclustering."""
    return kernel.DREW + " ".join("/".join(",".join(members) for members in row) for row in clusters)


def read_draw_entry(step: str) -> Clusters:
    """Return the clusters written by :func:`draw_entry`; empty for any other step."""
    if not step.startswith(kernel.DREW):
        return ()
    rows = step.removeprefix(kernel.DREW).split()
    return tuple(tuple(tuple(map(PartyId, m.split(","))) for m in row.split("/")) for row in rows)


def end_announced_round(
    ctx: phases.ServerContext, standing: phases.ServerState
) -> tuple[phases.Evaluating, reports.Effects] | None:
    """End a round whose draw an earlier server announced; None for any other.

    Drawn parties may have released their updates, so these count.
    """
    resumed = ctx.resumed
    if resumed is None or standing.round > resumed.announced:
        return None
    round_, drew = standing.round, resumed.drawn_clusters if standing.round == resumed.announced else ()
    drawn = tuple(sorted({party for row in drew for members in row for party in members}))
    standing = replace(
        standing,
        releases=add_round(ctx.plan, standing.releases, drawn),
        atom_seed=standing.atom_seed or resumed.atom_seed,
        session=replace(standing.session, lost_broker=True),
    )
    standing, done, effects = walk.end_void_round(ctx.plan, standing, drawn)
    lost = tuple((r, j) for r, row in enumerate(drew) for j in range(len(row)))
    return phases.Evaluating(standing, replace(done, lost=lost)), (
        kernel.Report(reports.RoundStarted(round_, model_digest(standing.params, standing.values))),
        kernel.Report(reports.RoundSkipped(round_, VOID_BY_RESTART)),
        *(kernel.Report(reports.InstanceLost(round_, *key, VOID_BY_RESTART)) for key in lost),
        *map(kernel.Report, effects),
        kernel.Evaluate(round_, standing.params),
    )


def sums_before(
    ctx: phases.ServerContext, resumed: phases.Resumed, done: reports.RoundDone
) -> tuple[reports.SumSeen, ...]:
    """Return the sums of a round that an earlier server opened, from its draw in the journal.

    A survivor is counted in each sum of its clusters. Empty if the journal has another round, and with hidden
    groups, whose numbers of updates are unknown.
    """
    if done.round != resumed.announced or clustering.hides_groups(ctx.plan.scenario.groups):
        return ()
    survivors, drew = frozenset(done.survivors), resumed.drawn_clusters
    clusters = {(r, j): members for r, row in enumerate(drew) for j, members in enumerate(row)}
    return tuple(
        reports.SumSeen(*key, clusters[key], tuple(p for p in clusters[key] if p in survivors))
        for key in done.opened
        if key in clusters
    )


def may_be_unknown_atoms(ctx: phases.ServerContext, atom_seed: bytes) -> bool:
    """Return True if a killed server may have sent these atoms to no party."""
    resumed = ctx.resumed
    return (
        resumed is not None and atom_seed == resumed.atom_seed and not resumed.checkpoint.standing.atom_seed
    )


def pause(reason: str) -> tuple[phases.Ended, reports.Effects]:
    """Stop, and ask all parties to wait for the next server."""
    return phases.Ended(None), (
        kernel.Report(reports.RunPaused(reason)),
        kernel.Send(EVERYONE, kernel.Place(-1), messages.Pause(reason=reason[:1000])),
        kernel.Aborted(reason, resumable=True, over=False),
    )
