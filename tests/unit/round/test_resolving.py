"""Statements in hellos: what they are about, and what they refund."""

from __future__ import annotations

from dataclasses import replace

import pytest

from securefl.base.ids import PartyId
from securefl.methods.leakage.unresolved import Given, UnresolvedRound
from securefl.protocol.kernel.effects import ClustersClosed, Enter
from securefl.protocol.messages.rounds import MAX_STATED, Hello, Limits, RoundOfRun, StatingHello
from securefl.protocol.round.party.phases import PartyContext, PartyHistory
from securefl.protocol.round.party.resolving import apply_statements, record_release, with_statements
from securefl.protocol.round.shared.unresolved import max_silent_members
from tests.simulation.world import RUN, scenario
from tests.unit.round.samples import plan_of

MODEL, D = b"\x01" * 32, bytes(32)
P = [PartyId(f"p{k:02}") for k in range(6)]
ME = P[0]
MINE, THEIRS, SECOND = (P[0], P[1], P[2]), (P[3], P[4], P[5]), (P[0], P[3], P[4])


@pytest.fixture
def ctx() -> PartyContext:
    plan = plan_of(scenario(6, threshold="2", min_survivors="2"))
    assert max_silent_members(plan) == 1
    return PartyContext(plan, ME, 10, None)  # type: ignore[arg-type]


def past_of(drawn: Given, run: str = RUN, round_: int = 3) -> PartyHistory:
    return PartyHistory(5, releases=4, unresolved=(UnresolvedRound(run, round_, drawn, 1, frozenset({ME})),))


def hello(*rounds: tuple[str, int]) -> Hello:
    plain = Hello(
        samples=1,
        model_digest=D,
        config_digest=D,
        commitment=D,
        limits=Limits(min_survivors=1, k_anonymity=2, leakage="report", colluders=0, leverage=1),
    )
    return with_statements(PartyHistory(5, rounds_without_release=rounds), plain)


def entered(effects: object) -> list[ClustersClosed]:
    assert isinstance(effects, tuple)
    entries = [one.entry for one in effects if isinstance(one, Enter)]
    closed = [entry for entry in entries if isinstance(entry, ClustersClosed)]
    assert len(closed) == len(effects)
    return closed


def test_a_hello_without_statements_is_a_plain_one() -> None:
    assert type(hello()) is Hello
    said = hello((RUN, 1), ("earlier", 7))
    assert isinstance(said, StatingHello)
    assert said.unreleased == (RoundOfRun(run=RUN, round=1), RoundOfRun(run="earlier", round=7))
    many = hello(*((RUN, k) for k in range(200)))
    assert isinstance(many, StatingHello)
    assert [one.round for one in many.unreleased] == [*range(200 - MAX_STATED, 200)]


def test_a_round_is_refunded_once_its_clusters_are_closed(ctx: PartyContext) -> None:
    past, effects = apply_statements(ctx, past_of({MODEL: (MINE,)}), {P[1]: hello((RUN, 3))})
    assert entered(effects) == [ClustersClosed(RUN, 3, {MODEL: (MINE,)}, refunded=True)]
    assert past.unresolved == ()
    assert past.releases == 3


@pytest.mark.parametrize("stated", [(RUN, 2), (RUN, 4), ("another", 3), ("", 3)])
def test_statements_about_other_rounds_and_runs_close_nothing(
    ctx: PartyContext, stated: tuple[str, int]
) -> None:
    before = past_of({MODEL: (MINE,)})
    hellos = {name: hello(stated) for name in P[1:] if stated[0]}
    past, effects = apply_statements(ctx, before, hellos)
    assert effects == ()
    assert past == before


def test_a_round_of_an_earlier_run_is_resolved_and_refunds_nothing_of_this_one(ctx: PartyContext) -> None:
    past, effects = apply_statements(ctx, past_of({MODEL: (MINE,)}, "earlier"), {P[2]: hello(("earlier", 3))})
    assert entered(effects) == [ClustersClosed("earlier", 3, {MODEL: (MINE,)}, refunded=True)]
    assert past.releases == 4


def test_all_clusters_of_the_party_must_be_closed_for_a_refund(ctx: PartyContext) -> None:
    """One reclustering whose sum may be open is enough to spend epsilon."""
    before = past_of({MODEL: (MINE, THEIRS, SECOND)})
    past, effects = apply_statements(ctx, before, {P[1]: hello((RUN, 3))})
    assert entered(effects) == [ClustersClosed(RUN, 3, {MODEL: (MINE,)}, refunded=False)]
    assert past.releases == 4
    past, effects = apply_statements(ctx, past, {P[3]: hello((RUN, 3))})
    assert entered(effects) == [ClustersClosed(RUN, 3, {MODEL: (SECOND,)}, refunded=True)]
    assert past.releases == 3
    # The cluster of others may still be open, and is not refunded a second time.
    past, effects = apply_statements(ctx, past, {P[4]: hello((RUN, 3))})
    assert entered(effects) == [ClustersClosed(RUN, 3, {MODEL: (THEIRS,)}, refunded=False)]
    assert (past.unresolved, past.releases) == ((), 3)


def test_an_own_release_resolves_its_round_only(ctx: PartyContext) -> None:
    before = past_of({MODEL: (MINE,)})
    before = replace(before, rounds_without_release=((RUN, 2), (RUN, 3), ("earlier", 3)))
    after = record_release(ctx, before, 3)
    assert after.unresolved == ()
    assert after.rounds_without_release == ((RUN, 2), ("earlier", 3))
    assert record_release(ctx, before, 2).unresolved == before.unresolved


def test_a_sum_of_all_members_needs_the_fewest_that_may_be_in_it() -> None:
    plan = plan_of(scenario(6, secure_sum__kind='"crypten"'))
    assert plan.sums.requires_all_members
    assert max_silent_members(plan) == plan.scenario.secure_sum.min_survivors - 1
