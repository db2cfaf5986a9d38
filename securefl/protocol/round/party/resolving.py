"""Rounds that took a party's masked input, until its release or later hellos resolve them.

``threshold`` shares open a sum, with or without this party's. Until then the party sends no further update
without noise on its model (docs/protocol.md, "Rounds without a certificate"; ADR 0058).
"""

from collections.abc import Mapping
from dataclasses import replace

from securefl.base.arrays import F32
from securefl.base.ids import PartyId
from securefl.methods import clustering, leakage
from securefl.protocol import kernel, messages
from securefl.protocol.round.party import phases
from securefl.protocol.round.shared import missing
from securefl.protocol.round.shared.chain import ChainLink
from securefl.protocol.round.shared.leakage import repeat_limits, sums_by_model
from securefl.protocol.round.shared.reports import Effects
from securefl.protocol.round.shared.unresolved import max_silent_members

BLOCKED = (
    "a sum with its update on the same model may have been opened in an earlier round, without its shares;"
    " it waits for another model, or until its cluster mates state that they released nothing"
)


def drawn_clusters_of(
    ctx: phases.PartyContext, params: F32, assignment: clustering.Assignment
) -> leakage.Given:
    """Return all clusters of a round as drawn, by digest of the model."""
    every = range(len(assignment.clusters))
    return sums_by_model(ctx.plan, params, assignment, assignment.participants, every)


def record_input(
    ctx: phases.PartyContext, past: phases.PartyHistory, round_: int, drawn: leakage.Given
) -> phases.PartyHistory:
    """Return the state before the masked input of a round is sent."""
    one = leakage.UnresolvedRound(
        ctx.plan.run, round_, drawn, max_silent_members(ctx.plan), frozenset({ctx.me})
    )
    return record_taken_round(ctx, replace(past, unresolved=(*past.unresolved, one)), round_)


def record_taken_round(
    ctx: phases.PartyContext, past: phases.PartyHistory, round_: int
) -> phases.PartyHistory:
    """Return the state that watches the chain of models, if any, for a round."""
    if not ctx.plan.scenario.secure_sum.verified:
        return past
    return replace(past, unknown_outcomes=(*past.unknown_outcomes, round_))


def record_release(ctx: phases.PartyContext, past: phases.PartyHistory, round_: int) -> phases.PartyHistory:
    """Return the state after a release, which makes a round's sums known."""
    return replace(
        past,
        unresolved=tuple(one for one in past.unresolved if (one.run, one.round) != (ctx.plan.run, round_)),
        rounds_without_release=tuple(
            one for one in past.rounds_without_release if one != (ctx.plan.run, round_)
        ),
    )


def is_blocked(ctx: phases.PartyContext, past: phases.PartyHistory, drawn: leakage.Given) -> bool:
    """Return True if the party must not send its update: one on the same model may have been opened.

    Accounted noise is fresh each round, so combined sums cost no more.
    """
    if not past.unresolved or repeat_limits(ctx.plan) is None:
        return False
    own = {model for model, rows in drawn.items() if any(ctx.me in row for row in rows)}
    return not own.isdisjoint(leakage.unresolved_models(past.unresolved, ctx.me))


def with_statements(past: phases.PartyHistory, hello: messages.Hello) -> messages.Hello:
    """Return the hello with the rounds in which this party has released nothing.

    It can no longer release: the keys to its share boxes are gone.
    """
    if not past.rounds_without_release:
        return hello
    rounds = tuple(
        messages.RoundOfRun(run=run, round=round_)
        for run, round_ in past.rounds_without_release[-messages.MAX_STATED :]
    )
    fields = {name: getattr(hello, name) for name in hello.__struct_fields__}
    return messages.StatingHello(**fields, unreleased=rounds)


def apply_statements(
    ctx: phases.PartyContext, past: phases.PartyHistory, hellos: Mapping[PartyId, messages.Hello]
) -> tuple[phases.PartyHistory, Effects]:
    """Read the statements of all hellos; enter the clusters that they close.

    If all of the party's clusters of a round are closed, its updates count as not released.
    """
    if not past.unresolved:
        return past, ()
    left, effects, releases = list[leakage.UnresolvedRound](), list[kernel.Enter](), past.releases
    refunds = set[tuple[str, int]]()
    for one in past.unresolved:
        heard, closed = one.hear(_parties_stating(one, hellos))
        if closed:
            refunded = bool(one.clusters_of(ctx.me)) and not heard.clusters_of(ctx.me)
            effects.append(kernel.Enter(kernel.ClustersClosed(one.run, one.round, closed, refunded)))
            if refunded:
                refunds.add((one.run, one.round))
            if refunded and one.run == ctx.plan.run:
                releases -= clustering.works_of(ctx.plan.scenario.clustering)
        if heard.drawn:
            left.append(heard)
    after = replace(
        past,
        unresolved=tuple(left),
        releases=releases,
        outcomes=missing.without_rounds(past.outcomes, refunds),
        unknown_outcomes=tuple(
            round_ for round_ in past.unknown_outcomes if (ctx.plan.run, round_) not in refunds
        ),
    )
    return after, tuple(effects)


def count_missing(
    ctx: phases.PartyContext, past: phases.PartyHistory, known: ChainLink | None, link: ChainLink
) -> tuple[phases.PartyHistory, Effects]:
    """Enter the rounds with this party's input that are missing from the chain.

    ``known`` is the last link seen confirmed before, ``link`` the last one now.
    """
    follows = known is not None and known.root in {link.root, link.claim.previous}
    at = link.claim.round
    found = tuple(
        missing.RoundOutcome(ctx.plan.run, round_, at < round_ or (follows and at != round_))
        for round_ in past.unknown_outcomes
    )
    entered = tuple(kernel.Enter(kernel.RoundMissing(one.round)) for one in found if one.missing)
    return replace(past, outcomes=missing.with_outcomes(past.outcomes, found), unknown_outcomes=()), entered


def _parties_stating(
    one: leakage.UnresolvedRound, hellos: Mapping[PartyId, messages.Hello]
) -> frozenset[PartyId]:
    wanted = (one.run, one.round)
    return frozenset(
        party
        for party, hello in hellos.items()
        if isinstance(hello, messages.StatingHello)
        and any((it.run, it.round) == wanted for it in hello.unreleased)
    )
