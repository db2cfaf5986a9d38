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
from securefl.runtime.agents.submission import ENDED, Notice, Order, State, line_of

Choice = Literal["approve", "refuse", "stop"]
Action = Literal["start", "pause", "end"]
ChildState = Literal["none", "busy"] | int
MAX_RESTARTS: Final = 5
"""Starts after aborts, before the run counts as failed here."""
_QUEUED: Final = "waits for the end of an earlier run"
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
    fewest: int = 0
    """Sites without which no round is possible at the server; 0 if unknown."""
    free: bool = True
    """False at a server that leads an earlier run, and at another machine whose key another run uses."""
    child: ChildState = "none"
    """Process of the run: none, ``busy``, or the exit code of one that has ended."""
    restarts: int = 0
    ended: str | None = None
    """At the server: reason of a run that no process can resume; None while one can."""
    last_line: str = ""
    """At the server: last line of its process, which other machines may read."""


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
        names = view.needed or map(PartyId, view.order.content.parties)
        refused = [name for name in names if _state_of(view, name) == "refused"]
        reason = _end_of(view, refused[0]) if refused else _too_few(view) or reason
    if reason is None:
        return None
    if view.child == "busy":
        return Change(view.state, reason, "end")
    return Change("stopped", reason)


def list_departed(view: RunView) -> str:
    """Return which sites have left the run for good before its end, as the server's agent knows; or ""."""
    gone = _departed_sites(view) if view.me == SERVER else []
    more = f"; {', '.join(gone[1:8])} too" if len(gone) > 1 else ""
    return f"{_end_of(view, gone[0])[:100]}{more}" if gone else ""


def _departed_sites(view: RunView) -> list[PartyId]:
    names = map(PartyId, view.order.content.parties)
    return [name for name in names if _state_of(view, name) in ENDED and _state_of(view, name) != "done"]


def _end_of(view: RunView, name: PartyId) -> str:
    """Return the final state of another machine, with its reason."""
    found = view.notices[name]
    return f"{name} {found.state}: {found.reason}" if found.reason else f"{name} {found.state}"


def _too_few(view: RunView) -> str | None:
    """Return why no round can come any more: final states do not change."""
    whole, gone = len(view.order.content.parties), len(_departed_sites(view))
    if not gone or whole - gone >= max(view.fewest, 1):
        return None
    needed = f", {view.fewest} are needed" if view.fewest else ""
    return f"{whole - gone} of {whole} sites remain{needed}: {list_departed(view)}"


def _waiting(view: RunView) -> Change:
    decision = view.decision
    if decision is not None and decision.choice == "refuse":
        return Change("refused", decision.reason or "refused by a person")
    if view.asks and decision is None:
        return Change("asked", "waits for a person at this site: securefl runs approve KIT RUN")
    if view.outside:
        # The server does not begin without this machine.
        return Change("received", view.outside)
    if view.me != SERVER and not view.free:
        # Nor before this machine's key is free.
        return Change("received", _QUEUED)
    return _start_server(view) if view.me == SERVER else _start_member(view)


def _start_server(view: RunView) -> Change:
    states = {name: _state_of(view, name) for name in view.needed}
    for name, state in states.items():
        if state in ENDED:
            return Change("stopped", _end_of(view, name))
    waits = [f"{name} ({state or 'no answer'})" for name, state in states.items() if state not in _TAKES_PART]
    if waits:
        return Change("accepted", f"waits for {', '.join(waits[:8])}{' ...' if len(waits) > 8 else ''}")
    if not view.free:
        return Change("accepted", _QUEUED)
    return Change("running", action="start")


_TAKES_PART: Final = ("accepted", "running", "paused")


def _start_member(view: RunView) -> Change:
    leader = view.notices.get(SERVER)
    if leader is None or leader.state not in {"running", *ENDED}:
        return Change("accepted", "waits for the other machines")
    if leader.state in ENDED:
        return Change("stopped", line_of(f"the {_end_of(view, SERVER)}"))
    return Change("running", action="start")


def _under_way(view: RunView) -> Change:
    why = view.against or view.outside
    leader = view.notices.get(SERVER)
    over = view.me != SERVER and leader is not None and leader.state in ENDED
    if view.child == "busy":
        if over and leader is not None and leader.state != "done":
            # The server may have ended before it could send a goodbye.
            return Change(view.state, _left_behind(view), "end")
        return Change(view.state, why, "pause") if why else Change("running", list_departed(view))
    if view.child == "none":
        if over and view.state == "paused":
            return Change("stopped", _left_behind(view))
        if view.me != SERVER and not view.free and not why:
            return Change(view.state, _QUEUED)
        # Also after a new start of the agent, which then hears the server's goodbye.
        return Change("paused", why) if why else Change("running", action="start")
    return _ended_child(view, view.child, why, over=over)


def _ended_child(view: RunView, code: int, why: str, *, over: bool) -> Change:
    ends: dict[int, Change] = {
        EXIT_EXPECTED: Change("done"),
        EXIT_UNEXPECTED: Change(
            "done", "ended otherwise than expected; see securefl runs logs at this machine"
        ),
        EXIT_REFUSED: Change(
            "failed",
            f"its process was refused: {view.last_line}"
            if view.last_line
            else "its process was refused; see securefl runs logs at this machine",
        ),
        EXIT_PAUSED: Change("paused", why or "paused"),
        EXIT_DECIDE: Change("failed", "a person must decide; see securefl runs logs at this machine"),
    }
    if code in ends:
        return ends[code]
    if over:
        return Change("stopped", _left_behind(view))
    if code == EXIT_ABORTED and view.ended is not None:
        # The server has sent a goodbye under this id, and parties keep to that: no second attempt.
        return Change("failed", "; ".join(filter(None, (view.ended, list_departed(view)))))
    if why:
        return Change("paused", why)
    how = "aborted" if code == EXIT_ABORTED else f"ended with {code}"
    if view.restarts >= MAX_RESTARTS:
        return Change("failed", f"its process {how} {view.restarts + 1} times; see securefl runs logs")
    again = f"its process {how} and is started again"
    return Change("running", again, None if view.me != SERVER and not view.free else "start")


def _left_behind(view: RunView) -> str:
    """Return why a machine leaves a run that its server has ended."""
    cause = _end_of(view, SERVER) if view.notices[SERVER].state != "done" else ""
    return line_of(f"the {cause}" if cause else _LEAVES)
