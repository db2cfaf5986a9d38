"""Rounds that took a party's masked input: resolved by its own release, or by statements in later hellos.

A sum opens with the shares of ``threshold`` members, whether or not this party is asked for its own. So a
round is unresolved from its masked input on. While it is, no further update without noise on its model leaves
(docs/protocol.md, "Rounds without a certificate"; ADR 0058).
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
from securefl.protocol.round.shared.leakage import repeat_limits, sums_given
from securefl.protocol.round.shared.reports import Effects
from securefl.protocol.round.shared.unresolved import silent_of

BLOCKED = (
    "a sum with its update on the same model may have been opened in an earlier round, without its shares;"
    " it waits for another model, or until its cluster mates state that they released nothing"
)


def drawn_clusters_of(
    ctx: phases.PartyContext, params: F32, assignment: clustering.Assignment
) -> leakage.Given:
    """Return all clusters of a round, as drawn, by the digest of the model of their updates."""
    every = range(len(assignment.clusters))
    return sums_given(ctx.plan, params, assignment, assignment.participants, every)


def with_input(ctx: phases.PartyContext, past: phases.Past, round_: int, drawn: leakage.Given) -> phases.Past:
    """Return the past of a party whose masked input of a round is about to leave."""
    one = leakage.UnresolvedRound(ctx.plan.run, round_, drawn, silent_of(ctx.plan), frozenset({ctx.me}))
    return with_taken(ctx, replace(past, unresolved=(*past.unresolved, one)), round_)


def with_taken(ctx: phases.PartyContext, past: phases.Past, round_: int) -> phases.Past:
    """Return the past of a party that is to find out whether the chain of models goes on with a round.

    Where rounds are not verified there is no chain.
    """
    if not ctx.plan.scenario.secure_sum.verified:
        return past
    return replace(past, taken=(*past.taken, round_))


def with_release(ctx: phases.PartyContext, past: phases.Past, round_: int) -> phases.Past:
    """Return the past of a party that releases its shares of a round, whose sums it now knows."""
    return replace(
        past,
        unresolved=tuple(one for one in past.unresolved if (one.run, one.round) != (ctx.plan.run, round_)),
        unreleased=tuple(one for one in past.unreleased if one != (ctx.plan.run, round_)),
    )


def is_blocked(ctx: phases.PartyContext, past: phases.Past, drawn: leakage.Given) -> bool:
    """Return True if the update of a round must not leave: one on its model may have been opened before.

    Noise that is accounted for is fresh in each round, so that no combination of sums costs more.
    """
    if not past.unresolved or repeat_limits(ctx.plan) is None:
        return False
    own = {model for model, rows in drawn.items() if any(ctx.me in row for row in rows)}
    return not own.isdisjoint(leakage.unresolved_models(past.unresolved, ctx.me))


def stating(past: phases.Past, hello: messages.Hello) -> messages.Hello:
    """Return a hello that also states the rounds in which this party has released nothing.

    The party has left each of them for good: the keys that open what its mates sealed to it were in the phase
    that it left, and nowhere else.
    """
    if not past.unreleased:
        return hello
    rounds = tuple(
        messages.RoundOfRun(run=run, round=round_) for run, round_ in past.unreleased[-messages.MAX_STATED :]
    )
    fields = {name: getattr(hello, name) for name in hello.__struct_fields__}
    return messages.StatingHello(**fields, unreleased=rounds)


def hear_statements(
    ctx: phases.PartyContext, past: phases.Past, hellos: Mapping[PartyId, messages.Hello]
) -> tuple[phases.Past, Effects]:
    """Take the statements of all hellos; enter the clusters that they close.

    Once no cluster of the party may be open any more, its updates of the round count as not released.
    """
    if not past.unresolved:
        return past, ()
    left, effects, releases = list[leakage.UnresolvedRound](), list[kernel.Enter](), past.releases
    refunds = set[tuple[str, int]]()
    for one in past.unresolved:
        heard, closed = one.hear(_stating(one, hellos))
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
        taken=tuple(round_ for round_ in past.taken if (ctx.plan.run, round_) not in refunds),
    )
    return after, tuple(effects)


def count_missing(
    ctx: phases.PartyContext, past: phases.Past, known: ChainLink | None, link: ChainLink
) -> tuple[phases.Past, Effects]:
    """Decide which rounds that took this party's input are missing from the chain; enter those.

    Args:
        ctx: of the party.
        past: of the party, once it has heard the statements of all hellos.
        known: the last link that it had seen confirmed; None if it does not know it.
        link: the last link now, confirmed.
    """
    follows = known is not None and known.root in {link.root, link.claim.previous}
    at = link.claim.round
    found = tuple(
        missing.RoundOutcome(ctx.plan.run, round_, at < round_ or (follows and at != round_))
        for round_ in past.taken
    )
    entered = tuple(kernel.Enter(kernel.RoundMissing(one.round)) for one in found if one.missing)
    return replace(past, outcomes=missing.with_outcomes(past.outcomes, found), taken=()), entered


def _stating(one: leakage.UnresolvedRound, hellos: Mapping[PartyId, messages.Hello]) -> frozenset[PartyId]:
    """Return the parties that state that they released nothing in this round."""
    wanted = (one.run, one.round)
    return frozenset(
        party
        for party, hello in hellos.items()
        if isinstance(hello, messages.StatingHello)
        and any((it.run, it.round) == wanted for it in hello.unreleased)
    )
