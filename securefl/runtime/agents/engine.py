"""Next state of a run at one agent: a pure function of the agent's knowledge."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final, Literal

from securefl.base.errors import (
    EXIT_ABORTED,
    EXIT_DECIDE,
    EXIT_EXPECTED,
    EXIT_PAUSED,
    EXIT_REFUSED,
    EXIT_UNEXPECTED,
)
from securefl.base.ids import SERVER, PartyId
from securefl.runtime.agents.submission import ENDED, Notice, Order, State

Choice = Literal["approve", "refuse", "stop"]
Action = Literal["start", "pause", "end"]
ChildState = Literal["none", "busy"] | int
MAX_RESTARTS: Final = 5
"""Starts after aborts, before the run counts as failed here."""
_LEAVES: Final = "the run has ended without this machine"


@dataclass(frozen=True)
class PersonDecision:
    """Decision of a person at the machine."""

    choice: Choice
    reason: str = ""


@dataclass(frozen=True)
class RunView:
    """Knowledge of an agent about one run."""

    me: PartyId
    state: State
    order: Order
    now: datetime
    missing: str = ""
    """Missing input, such as the first weights; empty if there is none."""
    against: str = ""
    """First rule of the policy that the run breaks; empty if none."""
    outside: str = ""
    """Reason why the site's data may not be used now; empty if they may."""
    asks: bool = False
    """True if the policy asks a person."""
    decision: PersonDecision | None = None
    stopped: str | None = None
    """Reason of the operator's stop order; None without one."""
    notices: Mapping[PartyId, Notice] = field(default_factory=dict)
    """Latest notices of other machines about this submission."""
    needed: tuple[PartyId, ...] = ()
    """Machines that must accept before the server starts; at other machines empty."""
    free: bool = True
    """False at a server that leads an earlier run."""
    child: ChildState = "none"
    """Process of the run: none, ``busy``, or the exit code of one that has ended."""
    restarts: int = 0


@dataclass(frozen=True)
class Change:
    """New state with its reason, and what to do with the process."""

    state: State
    reason: str = ""
    action: Action | None = None


def next_change(view: RunView) -> Change:
    """Return the next state of a run; the same state, without action, if nothing changes."""
    if view.state in ENDED:
        return Change(view.state)
    if (stop := _stop(view)) is not None:
        return stop
    if view.state in {"running", "paused"}:
        return _under_way(view)
    return _before_start(view)


def _before_start(view: RunView) -> Change:
    if view.now > view.order.expires:
        return Change("expired", "the submission has expired")
    if view.missing:
        return Change("received", view.missing)
    if view.against:
        return Change("refused", view.against)
    return _waiting(view)


def _state_of(view: RunView, name: PartyId) -> State | None:
    return view.notices[name].state if name in view.notices else None


def _stop(view: RunView) -> Change | None:
    reason = view.stopped
    if view.decision is not None and view.decision.choice == "stop":
        reason = view.decision.reason or "stopped by a person at this machine"
    if view.me == SERVER and view.state in {"running", "paused"}:
        # A site refuses before its own start only, as when its code has changed since it accepted.
        refused = [name for name in view.needed if _state_of(view, name) == "refused"]
        reason = f"{refused[0]} refused: {view.notices[refused[0]].reason}" if refused else reason
    if reason is None:
        return None
    if view.child == "busy":
        return Change(view.state, reason, "end")
    return Change("stopped", reason)


def _waiting(view: RunView) -> Change:
    decision = view.decision
    if decision is not None and decision.choice == "refuse":
        return Change("refused", decision.reason or "refused by a person")
    if view.asks and decision is None:
        return Change("asked", "waits for a person at this site: securefl runs approve KIT RUN")
    if view.outside:
        # The server does not begin without this machine.
        return Change("received", view.outside)
    return _start_server(view) if view.me == SERVER else _start_member(view)


def _start_server(view: RunView) -> Change:
    states = {name: _state_of(view, name) for name in view.needed}
    for name, state in states.items():
        if state in ENDED:
            why = view.notices[name].reason
            return Change("stopped", f"{name} {state}: {why}" if why else f"{name} {state}")
    waits = [f"{name} ({state or 'no answer'})" for name, state in states.items() if state not in _TAKES_PART]
    if waits:
        return Change("accepted", f"waits for {', '.join(waits[:8])}{' ...' if len(waits) > 8 else ''}")
    if not view.free:
        return Change("accepted", "waits for the end of an earlier run")
    return Change("running", action="start")


_TAKES_PART: Final = ("accepted", "running", "paused")


def _start_member(view: RunView) -> Change:
    leader = view.notices.get(SERVER)
    if leader is None or leader.state not in {"running", *ENDED}:
        return Change("accepted", "waits for the other machines")
    if leader.state in ENDED:
        return Change("stopped", f"the server {leader.state}: {leader.reason}"[:200])
    return Change("running", action="start")


def _under_way(view: RunView) -> Change:
    why = view.against or view.outside
    leader = view.notices.get(SERVER)
    over = view.me != SERVER and leader is not None and leader.state in ENDED
    if view.child == "busy":
        return Change(view.state, why, "pause") if why else Change("running")
    if view.child == "none":
        if over and view.state == "paused":
            return Change("stopped", _LEAVES)
        # Also after a new start of the agent, which then hears the server's goodbye.
        return Change("paused", why) if why else Change("running", action="start")
    return _ended_child(view, view.child, why, over=over)


def _ended_child(view: RunView, code: int, why: str, *, over: bool) -> Change:
    ends = {
        EXIT_EXPECTED: Change("done"),
        EXIT_UNEXPECTED: Change(
            "done", "ended otherwise than expected; see securefl runs logs at this machine"
        ),
        EXIT_REFUSED: Change("failed", "its process was refused; see securefl runs logs at this machine"),
        EXIT_PAUSED: Change("paused", why or "paused"),
        EXIT_DECIDE: Change("failed", "a person must decide; see securefl runs logs at this machine"),
    }
    if code in ends:
        return ends[code]
    if over:
        return Change("stopped", _LEAVES)
    if why:
        return Change("paused", why)
    how = "aborted" if code == EXIT_ABORTED else f"ended with {code}"
    if view.restarts >= MAX_RESTARTS:
        return Change("failed", f"its process {how} {view.restarts + 1} times; see securefl runs logs")
    return Change("running", f"its process {how} and is started again", "start")
