"""The server as a machine: events change the phase, then every step that is complete or overdue is closed."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import assert_never

from securefl.base.errors import PeerError
from securefl.base.ids import EVERYONE, PartyId
from securefl.methods.server_optimisers import first_moments
from securefl.protocol.kernel import (
    Aborted,
    AllSent,
    Chosen,
    Consulted,
    DeadlinePassed,
    Evaluated,
    Event,
    Heard,
    Offline,
    Online,
    PauseAsked,
    Place,
    PresenceHint,
    Received,
    Send,
    Trained,
    WakeAt,
)
from securefl.protocol.messages import (
    AnyMessage,
    Attest,
    Dealt,
    Endorse,
    Hello,
    Here,
    Join,
    NotForParties,
    Release,
    Reveal,
    RollCall,
    Software,
    SumToServer,
)
from securefl.protocol.round.server.accusing import of_words
from securefl.protocol.round.server.connections import clocked, connected, noted
from securefl.protocol.round.server.gather import (
    close_hellos,
    close_reveals,
    invited_again,
    on_all_sent,
    on_hello,
    on_reveal,
)
from securefl.protocol.round.server.joining import close_joining, expected, on_join, on_software
from securefl.protocol.round.server.opening import (
    close_attesting,
    close_certifying,
    close_releasing,
    on_consulted,
    on_endorse,
    on_evaluated,
    on_release,
)
from securefl.protocol.round.server.phases import (
    Attesting,
    Certifying,
    Checkpoint,
    Consulting,
    Ended,
    Evaluating,
    Greeting,
    Joining,
    Releasing,
    Revealing,
    RunningPhase,
    ServerContext,
    ServerPhase,
    Standing,
    Summing,
)
from securefl.protocol.round.server.proving import awaited_attests, on_attest
from securefl.protocol.round.server.resuming import keep, pause, replaced
from securefl.protocol.round.server.sums import (
    advance,
    awaited_members,
    collects,
    heard,
    next_deadline,
    on_instance_message,
)
from securefl.protocol.round.server.waiting import GRACE, Pace, due, least_answers
from securefl.protocol.round.shared.blame import with_charge
from securefl.protocol.round.shared.budget import spent_by
from securefl.protocol.round.shared.chain import Attested, first_of
from securefl.protocol.round.shared.charging import charged
from securefl.protocol.round.shared.lateness import BEFORE_RESTART, late_reason
from securefl.protocol.round.shared.presence import FIRST
from securefl.protocol.round.shared.reports import Effects
from securefl.protocol.wire import epoch_of

_STEPS = (Joining, Greeting, Revealing, Certifying, Releasing)
"""Phases in which parties answer one by one, outside of sums."""


class ServerMachine:
    """The server of one run. It sees who takes part, masked inputs, released shares and cluster sums."""

    def __init__(self, ctx: ServerContext) -> None:
        self._ctx = ctx

    def start(self, now: float) -> tuple[ServerPhase, Effects]:
        """Call the roll."""
        ctx = self._ctx
        state = self.first() if ctx.resumed is None else ctx.resumed.checkpoint
        standing = replace(state.standing, pace=Pace(now))
        deadline = now + ctx.plan.scenario.deadlines.join
        joining = Joining(standing, frozenset(), deadline)
        here: Send[AnyMessage] = Send(EVERYONE, Place(-1), FIRST)
        return joining, (here, Send(EVERYONE, Place(-1), RollCall()), WakeAt(deadline))

    def first(self) -> Checkpoint:
        """Where a new run begins: in no epoch, before the first round."""
        ctx = self._ctx
        standing = Standing(0, ctx.initial, first_moments(ctx.plan.optimiser, ctx.plan.broadcast))
        first = first_of(ctx.plan, ctx.initial)
        standing = standing if first is None else replace(standing, chain=Attested(first))
        return Checkpoint(0, standing)

    def step(self, phase: ServerPhase, event: Event[AnyMessage]) -> tuple[ServerPhase, Effects]:
        """Take one event; see :class:`securefl.protocol.kernel.machine.Machine`."""
        if isinstance(phase, Ended):
            return phase, self._too_late(phase, event)
        phase = clocked(phase, event)
        clock = phase.standing.clock
        after, effects = self._stepped(phase, replace(event, now=clock.at(event.now)))
        if isinstance(after, Evaluating) and not (isinstance(phase, Evaluating) and phase.done is after.done):
            effects = (*effects, keep(after.standing, after))
        return after, clock.told(effects)

    def _stepped(self, phase: RunningPhase, event: Event[AnyMessage]) -> tuple[ServerPhase, Effects]:
        """Take an event that happens at a time online."""
        after: ServerPhase = phase
        effects: Effects = ()
        match event:
            case Received():
                after, effects = self._from_network(phase, event)
            case PresenceHint() | Heard() | Offline() | Online():
                after, effects = connected(phase, event, expected(self._ctx.plan))
            case AllSent() | Consulted() | Evaluated():
                after, effects = self._worked(phase, event)
            case PauseAsked():
                after, effects = _pausing(phase, event)
            case DeadlinePassed() | Trained() | Chosen():
                pass
            case _:
                assert_never(event)
        return self._settle(after, effects, event.now)

    def _worked(
        self, phase: RunningPhase, event: AllSent | Consulted | Evaluated
    ) -> tuple[ServerPhase, Effects]:
        """Take what this process has done itself, if it is still wanted."""
        ctx = self._ctx
        match event, phase:
            case AllSent(), Greeting():
                return on_all_sent(ctx, phase, event)
            case Consulted(), Consulting() if event.round == phase.standing.round:
                return on_consulted(ctx, phase, event)
            case Evaluated(), Evaluating() if event.round == phase.standing.round:
                return on_evaluated(ctx, phase, event)
            case _:
                return phase, ()

    def _from_network(self, phase: RunningPhase, event: Received[AnyMessage]) -> tuple[ServerPhase, Effects]:
        told = noted(phase, event.sender)
        known: ServerPhase = told

        def received() -> tuple[ServerPhase, Effects]:
            try:
                return self._received(told, event)
            except PeerError as error:
                raise with_charge(error, of_words(told, event), self._ctx.plan) from error

        after, effects = charged(received, known, event.place.round)
        return _paced(told, after, event), effects

    def _received(self, phase: RunningPhase, event: Received[AnyMessage]) -> tuple[ServerPhase, Effects]:
        ctx, sender = self._ctx, event.sender
        deals = sender == ctx.plan.sums.dealer and isinstance(event.message, Dealt | Join | Here)
        if sender not in ctx.plan.roster.parties and not deals:
            raise PeerError(sender, "is not a party of this run")
        if isinstance(event.message, Here | Join):
            return self._on_here(phase, sender, event.message)
        if isinstance(event.message, Software):
            return on_software(ctx, phase, sender, event.message)
        if isinstance(phase, Joining) and ctx.resumed and isinstance(event.message, NotForParties):
            # It was under way to an earlier server of this run: nobody's fault, and no use.
            return phase, ()
        return self._answered(phase, event)

    def _answered(self, phase: RunningPhase, event: Received[AnyMessage]) -> tuple[ServerPhase, Effects]:
        """Take what a party says in a round."""
        ctx, sender, place = self._ctx, event.sender, event.place
        leads = not isinstance(phase, Joining)
        if (
            leads
            and isinstance(event.message, Hello)
            and epoch_of(event.message.leader) > phase.standing.epoch
        ):
            standing = replaced(ctx, phase.standing, sender, event.message.leader)
            if isinstance(standing, Aborted):
                return Ended(None), (standing,)
            return replace(phase, standing=standing), ()
        if isinstance(event.message, SumToServer) and isinstance(phase, Summing):
            return on_instance_message(ctx, phase, event, event.message)
        after: RunningPhase
        effects: Effects = ()
        match event.message, phase:
            case Hello() as message, Greeting():
                after = on_hello(ctx, phase, sender, place, message, event.signed)
            case Reveal() as message, Revealing():
                after = on_reveal(ctx, phase, sender, place, message, event.signed)
            case Endorse() as message, Certifying():
                after = on_endorse(phase, sender, place, message, event.signed)
            case Release() as message, Releasing():
                after, effects = on_release(ctx, phase, sender, place, message)
            case Attest() as message, _:
                standing = on_attest(ctx, phase.standing, sender, place, message, event.signed)
                after = replace(phase, standing=standing)
            case _:
                raise _untimely(ctx, phase, event)
        return after, effects

    def _too_late(self, phase: Ended, event: Event[AnyMessage]) -> Effects:
        """Tell a party that joins after the end how the run has ended."""
        if phase.goodbye is None or not isinstance(event, Received) or not isinstance(event.message, Join):
            return ()
        return (
            (Send(event.sender, Place(-1), phase.goodbye),)
            if event.sender in expected(self._ctx.plan)
            else ()
        )

    def _on_here(
        self, phase: RunningPhase, sender: PartyId, message: Here | Join
    ) -> tuple[ServerPhase, Effects]:
        if isinstance(message, Here):
            started = message.connection == 1
            if not started or not isinstance(phase, Greeting):
                return phase, ()
            return invited_again(self._ctx, phase, sender)
        return on_join(self._ctx, phase, sender, message)

    def _settle(self, phase: ServerPhase, effects: Effects, now: float) -> tuple[ServerPhase, Effects]:
        """Close steps until one has to wait, and say until when."""
        while True:
            if isinstance(phase, Summing):
                after, more = advance(self._ctx, phase, now)
                effects += more
                if isinstance(after, Summing):
                    return after, (*effects, WakeAt(next_deadline(self._ctx, after, now)))
                phase = after
                continue
            if isinstance(phase, Consulting | Evaluating | Ended):
                return phase, (*effects, WakeAt(None))
            if isinstance(phase, Attesting):
                if self.awaited(phase) and now < phase.deadline:
                    return phase, (*effects, WakeAt(phase.deadline))
                phase, more = close_attesting(self._ctx, phase, now)
                effects += more
                continue
            missing = self._missing(phase)
            until = self._due(phase, missing)
            if missing and now < until:
                return phase, (*effects, WakeAt(until))
            phase, more = self._close(phase, now)
            if not isinstance(phase, Ended):
                phase = replace(phase, standing=replace(phase.standing, pace=Pace(now)))
            effects += more

    def _due(
        self,
        phase: Joining | Greeting | Revealing | Certifying | Releasing,
        missing: Collection[PartyId],
    ) -> float:
        """The latest end of the step."""
        plan, standing = self._ctx.plan, phase.standing
        # Whoever has spent its privacy budget says no hello any more: that is known, and no hint.
        spent = spent_by(plan, standing.releases) if isinstance(phase, Greeting) else frozenset()
        if missing and spent.issuperset(missing):
            return min(phase.deadline, max(standing.pace.began, standing.pace.last) + GRACE)
        asked = len(missing) + len(_answers(phase))
        if isinstance(phase, Greeting):
            asked = standing.present or asked
        least, late = least_answers(plan, asked), standing.late | spent
        return due(phase.deadline, missing, late, standing.gone, standing.pace, least)

    def _missing(self, phase: Joining | Greeting | Revealing | Certifying | Releasing) -> Collection[PartyId]:
        match phase:
            case Joining():
                return expected(self._ctx.plan) - phase.joined
            case Greeting():
                return self._ctx.plan.roster.parties.keys() - phase.hellos.keys() - phase.excluded
            case Revealing():
                return phase.hellos.keys() - phase.reveals.keys()
            case Certifying():
                return phase.frozen.survivors - phase.endorsements.keys()
            case Releasing():
                return phase.awaited - phase.released
            case _:
                assert_never(phase)

    def _close(
        self, phase: Joining | Greeting | Revealing | Certifying | Releasing, now: float
    ) -> tuple[ServerPhase, Effects]:
        match phase:
            case Joining():
                return close_joining(self._ctx, phase, now)
            case Greeting():
                return close_hellos(self._ctx, phase, now)
            case Revealing():
                return close_reveals(self._ctx, phase, now)
            case Certifying():
                return close_certifying(self._ctx, phase, now)
            case Releasing():
                return close_releasing(self._ctx, phase, now)
            case _:
                assert_never(phase)

    def awaited(self, phase: ServerPhase) -> Collection[PartyId]:
        """Return for whom this phase waits: nobody where it works itself."""
        match phase:
            case Summing():
                return awaited_members(phase)
            case Attesting(standing=Standing(pending=pending)):
                return () if pending is None else awaited_attests(self._ctx, pending)
            case Consulting() | Evaluating() | Ended():
                return ()
            case _:
                return self._missing(phase)

    def agreed_seconds(self, phase: ServerPhase) -> float:
        """Return the seconds that a phase lasts by agreement: until all masked inputs leave at once."""
        submit = self._ctx.plan.scenario.submit_seconds
        return submit if submit is not None and isinstance(phase, Summing) and collects(phase) else 0.0


def _untimely(ctx: ServerContext, phase: RunningPhase, event: Received[AnyMessage]) -> PeerError:
    """Return the error for a message of another step than the present one."""
    kind, at = type(event.message).__name__, f"the server is {type(phase).__name__.lower()}"
    round_, resumed = event.place.round, ctx.resumed
    if round_ > phase.standing.round:
        return PeerError(event.sender, f"{kind} of round {round_} came too early, {at}")
    if resumed is not None and round_ <= resumed.last_round:
        return PeerError(event.sender, BEFORE_RESTART)
    return PeerError(event.sender, late_reason(kind, round_, at))


def _pausing(phase: RunningPhase, event: PauseAsked) -> tuple[ServerPhase, Effects]:
    """Stop at once where that costs no round, and before the next one otherwise."""
    if isinstance(phase, Joining) or (isinstance(phase, Greeting) and not phase.draw):
        return pause(event.reason)
    return replace(phase, standing=replace(phase.standing, pausing=event.reason)), ()


def _answers(phase: Joining | Greeting | Revealing | Certifying | Releasing) -> Collection[PartyId]:
    """The parties that have answered the step."""
    match phase:
        case Joining():
            return phase.joined
        case Greeting():
            return phase.hellos
        case Revealing():
            return phase.reveals
        case Certifying():
            return phase.endorsements
        case Releasing():
            return phase.released
        case _:
            assert_never(phase)


def _paced(before: RunningPhase, after: ServerPhase, event: Received[AnyMessage]) -> ServerPhase:
    """Note how long the sender took, if its message is its answer to a step."""
    if isinstance(before, Summing) and isinstance(after, Summing):
        return heard(before, after, event)
    if isinstance(before, _STEPS) and isinstance(after, _STEPS):
        if event.sender in _answers(before) or event.sender not in _answers(after):
            return after
        pace = after.standing.pace.answered(event.sender, event.now)
        return replace(after, standing=replace(after.standing, pace=pace))
    return after
