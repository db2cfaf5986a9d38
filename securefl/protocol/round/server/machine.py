"""State machine of the server: after each event, close complete or overdue steps."""

from collections.abc import Collection
from dataclasses import replace
from typing import assert_never

from securefl.base import text
from securefl.base.errors import PeerError
from securefl.base.ids import EVERYONE, PartyId
from securefl.methods import server_optimisers
from securefl.protocol import kernel, messages, wire
from securefl.protocol.round.server import (
    connections,
    gather,
    opening,
    phases,
    proving,
    resuming,
    sums,
    waiting,
)
from securefl.protocol.round.server.accusing import equivocation_evidence
from securefl.protocol.round.server.joining import close_joining, expected_participants, on_join, on_software
from securefl.protocol.round.shared import chain, lateness
from securefl.protocol.round.shared.budget import spent_parties
from securefl.protocol.round.shared.presence import FIRST
from securefl.protocol.round.shared.reports import Effects

_STEPS = (
    phases.Joining,
    phases.CollectingHellos,
    phases.CollectingNonces,
    phases.Certifying,
    phases.Releasing,
)
"""Phases in which parties answer one by one, outside of sums."""


class ServerMachine:
    """The server of a run. It sees participants, masked inputs, released shares and cluster sums."""

    def __init__(self, ctx: phases.ServerContext) -> None:
        self._ctx = ctx

    def start(self, now: float) -> tuple[phases.ServerPhase, Effects]:
        """Send the roll call."""
        ctx = self._ctx
        state = self.first_checkpoint() if ctx.resumed is None else ctx.resumed.checkpoint
        standing = replace(state.standing, session=replace(state.standing.session, pace=waiting.Pace(now)))
        deadline = now + ctx.plan.scenario.deadlines.join
        joining = phases.Joining(standing, frozenset(), deadline)
        here: kernel.Send[messages.AnyMessage] = kernel.Send(EVERYONE, kernel.Place(-1), FIRST)
        return joining, (
            here,
            kernel.Send(EVERYONE, kernel.Place(-1), messages.RollCall()),
            kernel.WakeAt(deadline),
        )

    def first_checkpoint(self) -> phases.Checkpoint:
        """Return the state of a new run: no epoch, before the first round."""
        ctx = self._ctx
        moments = server_optimisers.first_moments(ctx.plan.optimiser, ctx.plan.total_parameters)
        standing = phases.ServerState(0, ctx.initial, moments, values=ctx.plan.first_values)
        first = chain.first_link(ctx.plan, ctx.initial)
        standing = (
            standing
            if first is None
            else replace(standing, claims=replace(standing.claims, chain=chain.Attested(first)))
        )
        return phases.Checkpoint(0, standing)

    def step(
        self, phase: phases.ServerPhase, event: kernel.Event[messages.AnyMessage]
    ) -> tuple[phases.ServerPhase, Effects]:
        """Handle one event."""
        if isinstance(phase, phases.Ended):
            return phase, self._answer_late_joiner(phase, event)
        phase = connections.adjust_clock(phase, event)
        clock = phase.standing.session.clock
        after, effects = self._handle_event(phase, replace(event, now=clock.read(event.now)))
        if isinstance(after, phases.Evaluating) and not (
            isinstance(phase, phases.Evaluating) and phase.done is after.done
        ):
            effects = (*effects, resuming.checkpoint_effect(after.standing, after))
        return after, clock.convert_alarms(effects)

    def _handle_event(
        self, phase: phases.RunningPhase, event: kernel.Event[messages.AnyMessage]
    ) -> tuple[phases.ServerPhase, Effects]:
        after: phases.ServerPhase = phase
        effects: Effects = ()
        match event:
            case kernel.Received():
                after, effects = self._from_network(phase, event)
            case kernel.PresenceHint() | kernel.Heard() | kernel.Offline() | kernel.Online():
                after, effects = connections.on_connection(
                    phase, event, expected_participants(self._ctx.plan)
                )
            case kernel.AllSent() | kernel.Consulted() | kernel.Evaluated():
                after, effects = self._handle_local_result(phase, event)
            case kernel.PauseAsked():
                after, effects = _request_pause(phase, event)
            case kernel.DeadlinePassed() | kernel.Trained() | kernel.Chosen():
                pass
            case _:
                assert_never(event)
        return self._settle(after, effects, event.now)

    def _handle_local_result(
        self, phase: phases.RunningPhase, event: kernel.AllSent | kernel.Consulted | kernel.Evaluated
    ) -> tuple[phases.ServerPhase, Effects]:
        ctx = self._ctx
        match event, phase:
            case kernel.AllSent(), phases.CollectingHellos():
                return gather.on_all_sent(ctx, phase, event)
            case kernel.Consulted(), phases.Consulting() if event.round == phase.standing.round:
                return opening.on_consulted(ctx, phase, event)
            case kernel.Evaluated(), phases.Evaluating() if event.round == phase.standing.round:
                return opening.on_evaluated(ctx, phase, event)
            case _:
                return phase, ()

    def _from_network(
        self, phase: phases.RunningPhase, event: kernel.Received[messages.AnyMessage]
    ) -> tuple[phases.ServerPhase, Effects]:
        current = connections.clear_hints(phase, event.sender)
        current = connections.record_session(current, event.sender, event.session)
        after: phases.ServerPhase = current
        effects: Effects
        try:
            after, effects = self._handle_message(current, event)
        except PeerError as error:
            evidence = equivocation_evidence(self._ctx.plan, current, event)
            effects = (kernel.Reject(error.culprit, error.reason, evidence),)
        return _record_pace(current, after, event), effects

    def _handle_message(
        self, phase: phases.RunningPhase, event: kernel.Received[messages.AnyMessage]
    ) -> tuple[phases.ServerPhase, Effects]:
        ctx, sender = self._ctx, event.sender
        deals = sender == ctx.plan.sums.dealer and isinstance(
            event.message, messages.Dealt | messages.Join | messages.Here
        )
        if sender not in ctx.plan.roster.parties and not deals:
            raise PeerError(sender, "is not a party of this run")
        if isinstance(event.message, messages.Here | messages.Join):
            return self._on_here(phase, event, event.message)
        if isinstance(event.message, messages.Software):
            return on_software(ctx, phase, sender, event.message)
        if (
            isinstance(phase, phases.Joining)
            and ctx.resumed
            and isinstance(event.message, messages.NotForParties)
        ):
            # Sent to an earlier server of this run; not an error.
            return phase, ()
        return self._handle_round_message(phase, event)

    def _handle_round_message(
        self, phase: phases.RunningPhase, event: kernel.Received[messages.AnyMessage]
    ) -> tuple[phases.ServerPhase, Effects]:
        ctx, sender, place = self._ctx, event.sender, event.place
        leads = not isinstance(phase, phases.Joining)
        if (
            leads
            and isinstance(event.message, messages.Hello)
            and wire.epoch_of(event.message.leader) > phase.standing.epoch
        ):
            standing = resuming.record_other_server(ctx, phase.standing, sender, event.message.leader)
            if isinstance(standing, kernel.Aborted):
                return phases.Ended(None), (standing,)
            return replace(phase, standing=standing), ()
        if isinstance(event.message, messages.SumToServer) and isinstance(phase, phases.Summing):
            return sums.on_instance_message(ctx, phase, event, event.message)
        after: phases.RunningPhase
        effects: Effects = ()
        match event.message, phase:
            case messages.Hello() as message, phases.CollectingHellos():
                after = gather.on_hello(ctx, phase, event, message)
            case messages.Reveal() as message, phases.CollectingNonces():
                after = gather.on_reveal(ctx, phase, sender, place, message, event.signed)
            case messages.Endorse() as message, phases.Certifying():
                after = opening.on_endorse(phase, sender, place, message, event.signed)
            case messages.Release() as message, phases.Releasing():
                after, effects = opening.on_release(ctx, phase, sender, place, message)
            case messages.Attest() as message, _:
                standing = proving.on_attest(ctx, phase.standing, sender, place, message, event.signed)
                after = replace(phase, standing=standing)
            case _:
                raise _untimely_error(ctx, phase, event)
        return after, effects

    def _answer_late_joiner(self, phase: phases.Ended, event: kernel.Event[messages.AnyMessage]) -> Effects:
        if (
            phase.goodbye is None
            or not isinstance(event, kernel.Received)
            or not isinstance(event.message, messages.Join)
        ):
            return ()
        return (
            (kernel.Send(event.sender, kernel.Place(-1), phase.goodbye),)
            if event.sender in expected_participants(self._ctx.plan)
            else ()
        )

    def _on_here(
        self,
        phase: phases.RunningPhase,
        event: kernel.Received[messages.AnyMessage],
        message: messages.Here | messages.Join,
    ) -> tuple[phases.ServerPhase, Effects]:
        if isinstance(message, messages.Here):
            started = message.connection == 1
            if not started or not isinstance(phase, phases.CollectingHellos):
                return phase, ()
            return gather.resend_invitation(self._ctx, phase, event.sender, event.session)
        return on_join(self._ctx, phase, event.sender, message)

    def _settle(
        self, phase: phases.ServerPhase, effects: Effects, now: float
    ) -> tuple[phases.ServerPhase, Effects]:
        while True:
            if isinstance(phase, phases.Summing):
                after, more = sums.advance(self._ctx, phase, now)
                effects += more
                if isinstance(after, phases.Summing):
                    return after, (*effects, kernel.WakeAt(sums.next_deadline(self._ctx, after, now)))
                phase = after
                continue
            if isinstance(phase, phases.Consulting | phases.Evaluating | phases.Ended):
                return phase, (*effects, kernel.WakeAt(None))
            if isinstance(phase, phases.Attesting):
                if self.awaited_peers(phase) and now < phase.deadline:
                    return phase, (*effects, kernel.WakeAt(phase.deadline))
                phase, more = opening.close_attesting(self._ctx, phase, now)
                effects += more
                continue
            missing = self._missing(phase)
            until = self._step_end(phase, missing)
            if missing and now < until:
                return phase, (*effects, kernel.WakeAt(until))
            phase, more = self._close(phase, now)
            if not isinstance(phase, phases.Ended):
                phase = replace(
                    phase,
                    standing=replace(
                        phase.standing, session=replace(phase.standing.session, pace=waiting.Pace(now))
                    ),
                )
            effects += more

    def _step_end(
        self,
        phase: phases.Joining
        | phases.CollectingHellos
        | phases.CollectingNonces
        | phases.Certifying
        | phases.Releasing,
        missing: Collection[PartyId],
    ) -> float:
        plan, standing = self._ctx.plan, phase.standing
        # A party with a spent privacy budget sends no hello, which is no hint.
        spent = (
            spent_parties(plan, standing.releases)
            if isinstance(phase, phases.CollectingHellos)
            else frozenset()
        )
        if missing and spent.issuperset(missing):
            return min(
                phase.deadline,
                max(standing.session.pace.began, standing.session.pace.last_answer) + waiting.GRACE_SECONDS,
            )
        asked = len(missing) + len(_answers(phase))
        if isinstance(phase, phases.CollectingHellos):
            asked = standing.quorum.present or asked
        least, late = waiting.least_answers(plan, asked), standing.late | spent | standing.session.restarted
        return waiting.step_end(
            phase.deadline, missing, late, standing.session.disconnected, standing.session.pace, least
        )

    def _missing(
        self,
        phase: phases.Joining
        | phases.CollectingHellos
        | phases.CollectingNonces
        | phases.Certifying
        | phases.Releasing,
    ) -> Collection[PartyId]:
        match phase:
            case phases.Joining():
                return expected_participants(self._ctx.plan) - phase.joined
            case phases.CollectingHellos():
                return self._ctx.plan.roster.parties.keys() - phase.hellos.keys() - phase.excluded
            case phases.CollectingNonces():
                return phase.hellos.keys() - phase.reveals.keys()
            case phases.Certifying():
                return phase.frozen.survivors - phase.endorsements.keys()
            case phases.Releasing():
                return phase.awaited_parties - phase.released
            case _:
                assert_never(phase)

    def _close(
        self,
        phase: phases.Joining
        | phases.CollectingHellos
        | phases.CollectingNonces
        | phases.Certifying
        | phases.Releasing,
        now: float,
    ) -> tuple[phases.ServerPhase, Effects]:
        match phase:
            case phases.Joining():
                return close_joining(self._ctx, phase, now)
            case phases.CollectingHellos():
                return gather.close_hellos(self._ctx, phase, now)
            case phases.CollectingNonces():
                return gather.close_reveals(self._ctx, phase, now)
            case phases.Certifying():
                return opening.close_certifying(self._ctx, phase, now)
            case phases.Releasing():
                return opening.close_releasing(self._ctx, phase, now)
            case _:
                assert_never(phase)

    def awaited_peers(self, phase: phases.ServerPhase) -> Collection[PartyId]:
        """Return the parties that this phase waits for; none while the server works."""
        match phase:
            case phases.Summing():
                return sums.awaited_members(phase)
            case phases.Attesting():
                pending = phase.standing.claims.pending
                return () if pending is None else proving.awaited_attests(self._ctx, pending)
            case phases.Consulting() | phases.Evaluating() | phases.Ended():
                return ()
            case _:
                return self._missing(phase)

    def count_asked(self, phase: phases.ServerPhase) -> int:
        """Return the number of parties whose answers complete this step; 0 if it waits for none."""
        match phase:
            case phases.Summing():
                return len(sums.all_members(phase))
            case phases.Attesting() | phases.Consulting() | phases.Evaluating() | phases.Ended():
                return 0
            case _:
                return len({*_answers(phase), *self._missing(phase)})

    def agreed_seconds(self, phase: phases.ServerPhase) -> float:
        """Return the agreed seconds until all masked inputs are sent at once, else 0."""
        submit = self._ctx.plan.scenario.submit_seconds
        return (
            submit
            if submit is not None and isinstance(phase, phases.Summing) and sums.collects_inputs(phase)
            else 0.0
        )


def _untimely_error(
    ctx: phases.ServerContext, phase: phases.RunningPhase, event: kernel.Received[messages.AnyMessage]
) -> PeerError:
    kind, at = type(event.message).__name__, f"the server is {text.split_words(type(phase).__name__)}"
    round_, resumed = event.place.round, ctx.resumed
    if round_ > phase.standing.round:
        return PeerError(event.sender, f"{kind} of round {round_} arrived too early: {at}")
    if resumed is not None and round_ <= resumed.last_round:
        return PeerError(event.sender, lateness.BEFORE_RESTART)
    return PeerError(event.sender, lateness.late_reason(kind, round_, at))


def _request_pause(
    phase: phases.RunningPhase, event: kernel.PauseAsked
) -> tuple[phases.ServerPhase, Effects]:
    """Stop at once if that costs no round, else before the next round."""
    if isinstance(phase, phases.Joining) or (isinstance(phase, phases.CollectingHellos) and not phase.draw):
        return resuming.pause(event.reason)
    return replace(
        phase,
        standing=replace(phase.standing, session=replace(phase.standing.session, pause_reason=event.reason)),
    ), ()


def _answers(
    phase: phases.Joining
    | phases.CollectingHellos
    | phases.CollectingNonces
    | phases.Certifying
    | phases.Releasing,
) -> Collection[PartyId]:
    match phase:
        case phases.Joining():
            return phase.joined
        case phases.CollectingHellos():
            return phase.hellos
        case phases.CollectingNonces():
            return phase.reveals
        case phases.Certifying():
            return phase.endorsements
        case phases.Releasing():
            return phase.released
        case _:
            assert_never(phase)


def _record_pace(
    before: phases.RunningPhase, after: phases.ServerPhase, event: kernel.Received[messages.AnyMessage]
) -> phases.ServerPhase:
    if isinstance(before, phases.Summing) and isinstance(after, phases.Summing):
        return sums.record_pace(before, after, event)
    if isinstance(before, _STEPS) and isinstance(after, _STEPS):
        if event.sender in _answers(before) or event.sender not in _answers(after):
            return after
        pace = after.standing.session.pace.with_answer(event.sender, event.now)
        return replace(
            after, standing=replace(after.standing, session=replace(after.standing.session, pace=pace))
        )
    return after
