"""States of a run at an agent, one row a situation."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from securefl.base.ids import SERVER, PartyId
from securefl.runtime.agents.engine import MAX_RESTARTS, Change, PersonDecision, RunView, next_change
from securefl.runtime.agents.submission import ENDED
from tests.unit.agents.samples import NOW, notice, order

P0, P1 = PartyId("p00"), PartyId("p01")
BOTH = (P0, P1)
MINE = PersonDecision("stop", "by me")
LATE = NOW + timedelta(hours=2)


def view(me: PartyId = P0, state: Any = "received", **fields: Any) -> RunView:
    return RunView(**{"me": me, "state": state, "order": order(), "now": NOW} | fields)


def leader(state: Any, reason: str = "") -> dict[PartyId, Any]:
    return {SERVER: notice("server", state, reason)}


@pytest.mark.parametrize(
    ("given_view", "state", "action", "words"),
    [
        (view(missing="waits for weights"), "received", None, "waits for weights"),
        (view(), "accepted", None, "waits for the other machines"),
        (view(against="rules: mean"), "refused", None, "rules: mean"),
        (view(against="rules: mean", missing="waits"), "received", None, "waits"),
        (view(asks=True), "asked", None, "waits for a person"),
        (view(state="asked", asks=True), "asked", None, "waits for a person"),
        (view(state="accepted", asks=True, notices=leader("running")), "asked", None, "waits for a person"),
        (view(state="asked", asks=True, decision=PersonDecision("approve")), "accepted", None, "waits"),
        (view(state="asked", asks=True, decision=PersonDecision("refuse", "no")), "refused", None, "no"),
        (
            view(state="asked", asks=True, decision=PersonDecision("approve"), against="data: x"),
            "refused", None, "data: x",
        ),
        (view(decision=PersonDecision("refuse", "no")), "refused", None, "no"),
        (view(outside="outside of hours"), "received", None, "outside"),
        (view(state="accepted", outside="hours", notices=leader("running")), "received", None, "hours"),
        (view(state="asked", outside="hours", decision=PersonDecision("approve")), "received", None, "hours"),
        (view(state="accepted", against="rules: mean"), "refused", None, "rules"),
        (view(state="accepted", notices=leader("accepted")), "accepted", None, "waits"),
        (view(state="accepted", notices=leader("running")), "running", "start", ""),
        (view(state="accepted", notices=leader("running"), free=False), "received", None, "earlier run"),
        (view(state="asked", asks=True, free=False), "asked", None, "waits for a person"),
        (view(state="paused", free=False), "paused", None, "earlier run"),
        (view(state="running", child=-9, free=False), "running", None, "ended with -9"),
        (view(state="running", child="busy", notices=leader("done")), "running", None, ""),
        (view(state="running", child="busy", notices=leader("stopped", "x")), "running", "end", "stopped: x"),
        (view(state="accepted", notices=leader("done")), "stopped", None, "the server done"),
        (view(state="accepted", notices=leader("stopped", "p01 refused")), "stopped", None, "p01 refused"),
        (view(state="accepted", now=LATE), "expired", None, "expired"),
        (view(state="asked", now=LATE, asks=True), "expired", None, "expired"),
        (view(state="running", now=LATE, child="busy"), "running", None, ""),
        (view(state="accepted", stopped="wrong scenario"), "stopped", None, "wrong scenario"),
        (view(state="running", child="busy", stopped="wrong scenario"), "running", "end", "wrong"),
        (view(state="running", child=3, stopped="wrong scenario"), "stopped", None, "wrong"),
        (view(state="running", child="busy", decision=MINE), "running", "end", "by me"),
        (view(state="running", child=3, outside="hours"), "paused", None, "hours"),
        (view(state="running", child="busy", against="rounds"), "running", "pause", "rounds"),
        (view(state="running", child="busy", outside="hours"), "running", "pause", "hours"),
        (view(state="running", child=4, outside="hours"), "paused", None, "hours"),
        (view(state="running", child=4), "paused", None, "paused"),
        (view(state="paused", outside="hours"), "paused", None, "hours"),
        (view(state="paused"), "running", "start", ""),
        (view(state="paused", notices=leader("done")), "stopped", None, "without this machine"),
        (view(state="running"), "running", "start", ""),
        (view(state="running", against="rounds"), "paused", None, "rounds"),
        (view(state="running", child=0), "done", None, ""),
        (view(state="running", child=1), "done", None, "otherwise"),
        (view(state="running", child=2), "failed", None, "refused"),
        (view(state="running", child=5), "failed", None, "a person must decide"),
        (view(state="running", child=3), "running", "start", "aborted"),
        (view(state="running", child=-9), "running", "start", "ended with -9"),
        (view(state="running", child=3, notices=leader("done")), "stopped", None, "without this machine"),
        (view(state="running", child=3, restarts=MAX_RESTARTS), "failed", None, "6 times"),
    ],
)  # fmt: skip
def test_a_member(given_view: RunView, state: str, action: str | None, words: str) -> None:
    found = next_change(given_view)
    assert (found.state, found.action) == (state, action)
    assert words in found.reason


def of_server(*states: Any, **fields: Any) -> RunView:
    notices = {name: notice(name, one) for name, one in zip(BOTH, states, strict=False)}
    return view(SERVER, "accepted", **{"needed": BOTH, "notices": notices} | fields)


@pytest.mark.parametrize(
    ("given_view", "state", "action", "words"),
    [
        (of_server(), "accepted", None, "p00 (no answer), p01 (no answer)"),
        (of_server("accepted"), "accepted", None, "waits for p01 (no answer)"),
        (of_server("accepted", "asked"), "accepted", None, "waits for p01 (asked)"),
        (of_server("accepted", "accepted"), "running", "start", ""),
        (of_server("accepted", "received"), "accepted", None, "p01 (received)"),
        (of_server("accepted", "accepted", outside="hours"), "received", None, "hours"),
        (of_server("accepted", "accepted", free=False), "accepted", None, "earlier run"),
        (of_server("accepted", "refused"), "stopped", None, "p01 refused"),
        (of_server("expired", "accepted"), "stopped", None, "p00 expired"),
        (of_server("running", "paused"), "running", "start", ""),
    ],
)
def test_the_server_waits_for_all_sites(
    given_view: RunView, state: str, action: str | None, words: str
) -> None:
    found = next_change(given_view)
    assert (found.state, found.action) == (state, action)
    assert words in found.reason


def test_a_late_refusal_ends_the_run_at_the_server() -> None:
    """A site may refuse after the server has started, if its code changed since it accepted."""
    notices = {P0: notice("p00", "running"), P1: notice("p01", "refused", "code: changed")}
    begun = view(SERVER, "running", needed=BOTH, notices=notices, child="busy")
    assert next_change(begun) == Change("running", "p01 refused: code: changed", "end")
    assert next_change(replace(begun, child=3)) == Change("stopped", "p01 refused: code: changed")
    left = notices | {P1: notice("p01", "stopped")}
    assert next_change(replace(begun, notices=left)) == Change("running", "p01 stopped")
    # A run that the server's policy forbids meanwhile is not judged, and has no needed machines.
    forbidden = replace(begun, state="paused", needed=(), child="none", against="code: changed")
    assert next_change(forbidden) == Change("stopped", "p01 refused: code: changed")


def of_running(*states: Any, **fields: Any) -> RunView:
    notices = {name: notice(name, one, "no option") for name, one in zip(BOTH, states, strict=False)}
    return view(SERVER, **{"state": "running", "needed": BOTH, "notices": notices, "child": "busy"} | fields)


@pytest.mark.parametrize(
    ("given_view", "found"),
    [
        (of_running("running", "failed"), Change("running", "p01 failed: no option")),
        (of_running("running", "failed", fewest=1), Change("running", "p01 failed: no option")),
        (
            of_running("running", "failed", fewest=2),
            Change("running", "1 of 2 sites remain, 2 are needed: p01 failed: no option", "end"),
        ),
        (
            of_running("stopped", "failed", child="none", state="paused", against="code: x is not allowed"),
            Change("stopped", "0 of 2 sites remain: p00 stopped: no option; p01 too"),
        ),
        (of_running("done", "done", fewest=2), Change("running")),
        (of_running("running", fewest=2), Change("running")),
        (
            of_running("running", "failed", child=3, ended="1 of 2 parties joined"),
            Change("failed", "1 of 2 parties joined; p01 failed: no option"),
        ),
        (of_running("running", child=3, ended="aborted"), Change("failed", "aborted")),
        (
            of_running("running", child=3, last_line="the broker is away"),
            Change("running", "its process aborted and is started again", "start"),
        ),
        (
            of_running("running", child=2, last_line="--data: no such file"),
            Change("failed", "its process was refused: --data: no such file"),
        ),
    ],
)
def test_the_server_tells_first_causes(given_view: RunView, found: Change) -> None:
    """A run ends once too few sites remain, and a server that has said goodbye is not started again."""
    assert next_change(given_view) == found


def test_a_party_names_the_end_of_its_server() -> None:
    left = view(state="running", child=3, notices=leader("failed", "1 of 2 parties joined"))
    assert next_change(left) == Change("stopped", "the server failed: 1 of 2 parties joined")


STATES = ("received", "asked", "accepted", "running", "paused", *sorted(ENDED))


@given(
    me=st.sampled_from((SERVER, P0)),
    state=st.sampled_from((*("accepted",) * 10, *STATES)),
    missing=st.sampled_from(("", "", "", "missing")),
    against=st.sampled_from(("", "", "", "against")),
    outside=st.sampled_from(("", "", "", "outside")),
    asks=st.booleans(),
    decision=st.sampled_from(
        (None, PersonDecision("approve"), PersonDecision("refuse"), PersonDecision("stop"))
    ),
    stopped=st.sampled_from((None, None, None, "stop")),
    lead=st.sampled_from((None, *("running",) * 10, *STATES)),
    other=st.sampled_from((None, *("accepted",) * 10, *STATES)),
    free=st.booleans(),
    child=st.sampled_from(("none", "busy", 0, 1, 2, 3, 4, 5, -9)),
    late=st.sampled_from((False, False, False, True)),
)
def test_no_state_starts_what_may_not_start(
    lead: Any, other: Any, late: bool, child: Any, state: Any, **fields: Any
) -> None:
    notices = {name: notice(name, one) for name, one in ((SERVER, lead), (P1, other)) if one is not None}
    if state not in {"running", "paused"}:
        child = "none"
    asked = view(state=state, child=child, notices=notices, needed=(P1,), now=LATE if late else NOW, **fields)
    found = next_change(asked)
    if state in ENDED:
        assert found == Change(state)
    if found.action == "start":
        assert child != "busy"
        assert found.state == "running"
        assert not asked.stopped
        assert not (asked.me == SERVER and other == "refused")
        assert not (asked.decision is not None and asked.decision.choice == "stop")
        assert not asked.against
        assert not asked.outside
        assert asked.free or (asked.me == SERVER and state in {"running", "paused"})
        assert not (asked.asks and asked.decision is None and state in {"received", "asked", "accepted"})
        if state == "accepted" and asked.me != SERVER:
            assert lead == "running"
            assert not late
            assert not asked.missing
        if state in {"received", "asked", "accepted"} and asked.me == SERVER:
            assert other in {"accepted", "running", "paused"}
            assert asked.free
    if found.action in {"pause", "end"}:
        assert child == "busy"
    # An ended state never follows a process that still runs.
    if child == "busy" and state not in ENDED:
        assert found.state not in ENDED
    assert next_change(replace(asked)) == found
