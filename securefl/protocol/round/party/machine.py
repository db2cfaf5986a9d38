"""State machine of a party: one ``match`` over phase and event."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import replace
from typing import assert_never

from securefl.base import text
from securefl.base.errors import PeerError
from securefl.base.ids import SERVER, PartyId
from securefl.methods import robust
from securefl.protocol import kernel, messages, secure_sum
from securefl.protocol.round.party import draw, following, phases, release, shares, sums
from securefl.protocol.round.party.verifying import on_proof
from securefl.protocol.round.shared import presence, reports
from securefl.protocol.round.shared.allowance import extra_seconds
from securefl.scenario import Scenario

PAUSE_SECONDS = 86_400.0
"""Seconds that a party waits for a server that announced its restart."""
INPUT_NOT_COUNTED = "the server went on without what it sent: it came too late, or was lost on its way"


def patience(scenario: Scenario) -> float:
    """Return the seconds of server silence after which a party leaves: twice an honest server's longest.

    The server waits for joining, redraws, all attempts of an instance, its own data, and parties.
    """
    d = scenario.deadlines
    draws = (draw.MAX_REDRAWS + 1) * (d.hello + d.reveal)
    attempts = scenario.secure_sum.max_attempts * (d.keys + d.shares + d.training)
    # The step has no deadline: the server trains as parties do.
    consulting = d.training if robust.needs_server_gradient(scenario.aggregation.rule) else 0.0
    checking = secure_sum.sums_of(scenario).checking(d)
    return 2 * (d.join + draws + attempts + checking + d.certify + d.release + consulting + d.quorum)


class PartyMachine:
    """An honest party; ``ctx.seams`` and outside behaviours make it deviate."""

    def __init__(self, ctx: phases.PartyContext) -> None:
        self._ctx = ctx
        self._patience = patience(
            ctx.plan.scenario
        ) + 2 * ctx.plan.scenario.secure_sum.max_attempts * extra_seconds(ctx.plan)

    def start(self, now: float) -> tuple[phases.PartyPhase, reports.Effects]:
        """Join the run."""
        ctx = self._ctx
        past = phases.PartyHistory(
            ctx.last_spent_round,
            ctx.releases,
            atom_seed=ctx.atom_seed,
            released_sums=ctx.released_sums,
            unresolved=ctx.unresolved,
            rounds_without_release=ctx.rounds_without_release,
            outcomes=ctx.outcomes,
            unknown_outcomes=ctx.unknown_outcomes,
            choice=ctx.choice,
            link=None if ctx.root else ctx.first,
            leader=ctx.leader,
        )
        outside = phases.Idle(past)
        return outside, (
            kernel.Send(SERVER, kernel.Place(-1), presence.FIRST),
            *following.join(ctx, outside),
            kernel.WakeAt(now + self._patience),
        )

    def step(
        self, phase: phases.PartyPhase, event: kernel.Event[messages.AnyMessage]
    ) -> tuple[phases.PartyPhase, reports.Effects]:
        """Handle one event."""
        after, effects = self._handle_event(phase, event)
        self._close_obsolete(phase, after)
        return after, effects

    def _close_obsolete(self, before: phases.PartyPhase, after: phases.PartyPhase) -> None:
        """Close computations that the new phase no longer needs."""
        kept = {id(one) for one in self._running(after)}
        for one in self._running(before):
            if id(one) not in kept:
                one.close()

    def _running(self, phase: phases.PartyPhase) -> Iterator[secure_sum.Running]:
        for instance in phase.instances.values() if isinstance(phase, phases.Working) else ():
            if instance is not None:
                yield from self._ctx.sums.member.running(instance)

    def _handle_event(
        self, phase: phases.PartyPhase, event: kernel.Event[messages.AnyMessage]
    ) -> tuple[phases.PartyPhase, reports.Effects]:
        if isinstance(phase, phases.Ended):
            return phase, ()
        match event:
            case kernel.Received():
                return self._from_network(phase, event)
            case kernel.Trained() | kernel.Chosen():
                return self._handle_local_result(phase, event)
            case kernel.DeadlinePassed():
                return self._handle_alarm(phase, event.now)
            case kernel.Offline() | kernel.Online():
                return phase, presence.on_connection(event, self._next_alarm(phase, event.now))
            case (
                kernel.Evaluated()
                | kernel.Consulted()
                | kernel.AllSent()
                | kernel.PresenceHint()
                | kernel.Heard()
                | kernel.PauseAsked()
            ):
                if isinstance(event, kernel.PauseAsked):
                    phase = replace(phase, past=replace(phase.past, leaves=event.reason))
                return phase, ()
            case _:
                assert_never(event)

    def _handle_local_result(
        self, phase: phases.PartyPhase, event: kernel.Trained | kernel.Chosen
    ) -> tuple[phases.PartyPhase, reports.Effects]:
        if isinstance(event, kernel.Trained) and isinstance(phase, phases.Working):
            after, effects = sums.on_trained(self._ctx, phase, event)
            if isinstance(after, phases.Working):
                return after, effects
            # The alarm marked the end of training; in other phases it means a silent server.
            return after, (*effects, kernel.WakeAt(self._next_alarm(after, event.now)))
        if isinstance(event, kernel.Chosen) and isinstance(phase, phases.Choosing):
            return draw.on_chosen(self._ctx, phase, event)
        return phase, ()

    def awaited_peers(self, phase: phases.PartyPhase) -> Collection[PartyId]:
        """Return the server, or nothing while the party holds its inputs."""
        holds = isinstance(phase, phases.Working) and phase.submit_at is not None
        return () if holds else (SERVER,)

    def _handle_alarm(
        self, phase: phases.PartyPhase, now: float
    ) -> tuple[phases.PartyPhase, reports.Effects]:
        if isinstance(phase, phases.Working) and phase.submit_at is not None and now >= phase.submit_at:
            submitted, effects = sums.on_submit(self._ctx, phase, now)
            return submitted, (*effects, kernel.WakeAt(now + self._patience))
        if isinstance(phase, phases.Working) and phase.late_at is not None and now >= phase.late_at:
            without, effects = sums.on_late(self._ctx, phase, now)
            return without, (*effects, kernel.WakeAt(self._next_alarm(without, now)))
        if isinstance(phase, phases.Working) and phase.train_at is not None and now >= phase.train_at:
            begun, effects = draw.begin_training(self._ctx, phase, wait=False)
            begun = self._set_training_deadline(begun, now)
            return begun, (*effects, kernel.WakeAt(self._next_alarm(begun, now)))
        return phases.Ended(), (kernel.Aborted(f"no word from the server for {self._patience:.0f} s"),)

    def _from_network(
        self, phase: phases.PartyPhase, event: kernel.Received[messages.AnyMessage]
    ) -> tuple[phases.PartyPhase, reports.Effects]:
        now_at, noted = (
            following.follow_session(phase, event.session) if event.sender == SERVER else (phase, ())
        )
        after, effects = kernel.guard(lambda: self._check_sender(now_at, event), now_at)
        refused = after is now_at and effects and isinstance(effects[0], kernel.Reject)
        effects = (*noted, *effects)
        if refused or isinstance(after, phases.Ended):
            return after, effects
        if isinstance(after, phases.Working) and not isinstance(phase, phases.Working):
            after = self._set_round_times(after, event.now)
        elif (
            isinstance(after, phases.Working)
            and isinstance(phase, phases.Working)
            and after.is_training_due < phase.is_training_due
        ):
            after = self._set_training_deadline(after, event.now)
        if after.past.is_paused is not isinstance(event.message, messages.Pause):
            after = replace(after, past=replace(after.past, is_paused=not after.past.is_paused))
        return after, (*effects, kernel.WakeAt(self._next_alarm(after, event.now)))

    def _set_round_times(self, phase: phases.Working, now: float) -> phases.Working:
        scenario = self._ctx.plan.scenario
        submit, deadlines = scenario.submit_seconds, scenario.deadlines
        if phase.is_training_due:
            phase = replace(phase, train_at=now + deadlines.keys + deadlines.shares)
        if submit is None:
            return replace(phase, late_at=now + scenario.training_seconds)
        return replace(phase, submit_at=now + submit)

    def _set_training_deadline(self, phase: phases.Working, now: float) -> phases.Working:
        """Give a late training its full time, as the server does."""
        begun = replace(phase, train_at=None)
        if phase.late_at is None:
            return begun
        return replace(begun, late_at=now + self._ctx.plan.scenario.training_seconds)

    def _next_alarm(self, phase: phases.PartyPhase, now: float) -> float:
        paused = not isinstance(phase, phases.Ended) and phase.past.is_paused
        patience = now + (PAUSE_SECONDS if paused else self._patience)
        times = (phase.submit_at, phase.late_at, phase.train_at) if isinstance(phase, phases.Working) else ()
        return min(patience, *(due for due in times if due is not None), patience)

    def _on_model(
        self,
        phase: phases.PartyPhase,
        place: kernel.Place,
        message: messages.ModelAnnounce | messages.BestModel,
    ) -> tuple[phases.PartyPhase, reports.Effects]:
        if isinstance(message, messages.BestModel):
            return phase, draw.on_best(self._ctx, phase, place, message)
        after = draw.on_model(self._ctx, phase, place, message)
        if after is not phase and not isinstance(phase, phases.Ended) and phase.past.leaves:
            # The round before is over for this party, its signatures included.
            return phases.Ended(), (kernel.Aborted(phase.past.leaves, over=False, resumable=True),)
        return after, (kernel.Report(reports.SatOut(phase.round, INPUT_NOT_COUNTED)),) if isinstance(
            phase, phases.Working
        ) else ()

    def _handle_server_notice(
        self, phase: phases.PartyPhase, message: messages.Here | messages.RollCall | messages.Pause
    ) -> reports.Effects:
        match message:
            case messages.Here():
                return ()
            case messages.RollCall():
                return following.join(self._ctx, phase)
            case messages.Pause(reason=reason):
                return (kernel.Report(reports.RunPaused(reason)),)
            case _:
                assert_never(message)

    def _check_sender(
        self, phase: phases.PartyPhase, event: kernel.Received[messages.AnyMessage]
    ) -> tuple[phases.PartyPhase, reports.Effects]:
        if event.sender != SERVER:
            raise PeerError(event.sender, "parties accept messages of the server only")
        return (
            (phase, ()) if following.is_from_idle_server(phase, event) else self._handle_message(phase, event)
        )

    def _handle_message(
        self, phase: phases.PartyPhase, event: kernel.Received[messages.AnyMessage]
    ) -> tuple[phases.PartyPhase, reports.Effects]:
        if isinstance(event.message, SumMessage):
            return _handle_sum_message(self._ctx, phase, event.place, event.message)
        if isinstance(event.message, messages.NotForParties):
            what = type(event.message).__name__
            raise PeerError(SERVER, f"sends {what}, which is not for parties")
        match event.message:
            case (messages.Here() | messages.RollCall() | messages.Pause()) as message:
                return phase, self._handle_server_notice(phase, message)
            case messages.Goodbye(reason=reason, aborted=aborted):
                return phases.Ended(), (kernel.Aborted(reason) if aborted else kernel.Finished(reason),)
            case (messages.ModelAnnounce() | messages.BestModel()) as message:
                return self._on_model(phase, event.place, message)
            case (messages.Invite() | messages.Announce() | messages.Reveals()) as message:
                return _handle_draw_message(self._ctx, phase, event.place, message)
            case _:
                assert_never(event.message)


def _handle_proof(
    ctx: phases.PartyContext, phase: phases.PartyPhase, place: kernel.Place, message: Proof
) -> tuple[phases.PartyPhase, reports.Effects]:
    if isinstance(phase, phases.Ended):
        return phase, ()
    past, effects = on_proof(ctx, phase.past, place, message)
    return replace(phase, past=past), effects


DrawMessage = messages.Invite | messages.Announce | messages.Reveals
Proof = messages.OpeningProof | messages.StepProof
SumMessage = (
    messages.SumToMember
    | messages.Retry
    | messages.Freeze
    | messages.Certificate
    | messages.SlotCounts
    | Proof
)


def _handle_draw_message(
    ctx: phases.PartyContext, phase: phases.PartyPhase, place: kernel.Place, message: DrawMessage
) -> tuple[phases.PartyPhase, reports.Effects]:
    match message, phase:
        case messages.Invite(), phases.Choosing() | phases.HelloSent() if draw.is_repeated_invitation(
            ctx, phase, place, message
        ):
            return phase, ()
        case (
            messages.Invite(),
            phases.ModelReceived() | phases.Choosing() | phases.HelloSent() | phases.NonceRevealed(),
        ):
            return draw.on_invite(ctx, phase, place, message)
        case messages.Announce(), phases.Choosing(round=at) if place.round == at:
            return phases.sit_out(phase), (
                kernel.Report(reports.SatOut(at, "had not chosen its task group in time")),
            )
        case messages.Announce(), phases.HelloSent():
            return draw.on_announce(ctx, phase, place, message)
        case messages.Reveals(), phases.NonceRevealed():
            return draw.on_reveals(ctx, phase, place, message)
        case _, phases.Idle(past=phases.PartyHistory(last_spent_round=spent)) if place.round == spent:
            # Broadcast: also received by parties that sit this round out.
            return phase, ()
    raise _untimely_error(phase, place, message)


def _handle_sum_message(
    ctx: phases.PartyContext, phase: phases.PartyPhase, place: kernel.Place, message: SumMessage
) -> tuple[phases.PartyPhase, reports.Effects]:
    if isinstance(message, Proof):
        return _handle_proof(ctx, phase, place, message)
    if isinstance(message, messages.SumToMember | messages.Retry):
        if not isinstance(phase, phases.Working):
            raise _untimely_error(phase, place, message)
        return sums.on_instance_message(ctx, phase, place, message)
    match message, phase:
        case messages.Freeze(), phases.Working():
            return release.on_freeze(ctx, phase, place, message)
        case messages.SlotCounts(), phases.CountsReleased():
            return shares.on_counts(ctx, phase, place, message)
        case messages.Certificate(), _:
            return _handle_certificate(ctx, phase, place, message)
    raise _untimely_error(phase, place, message)


def _handle_certificate(
    ctx: phases.PartyContext, phase: phases.PartyPhase, place: kernel.Place, message: messages.Certificate
) -> tuple[phases.PartyPhase, reports.Effects]:
    match phase:
        case phases.Endorsed():
            return release.on_certificate(ctx, phase, place, message)
        case phases.Idle(
            past=phases.PartyHistory(last_spent_round=at, released=phases.SentRelease() as sent_release)
        ) if place.round == at == sent_release.round:
            return shares.resend_release(phase, sent_release)
        case (
            phases.Working(round=at)
            | phases.CountsReleased(round=at)
            | phases.Idle(past=phases.PartyHistory(last_spent_round=at))
        ) if place.round == at:
            # Broadcast: a party outside the survivor set owes no shares.
            return phase, ()
    raise _untimely_error(phase, place, message)


def _untimely_error(
    phase: phases.PartyPhase, place: kernel.Place, message: DrawMessage | SumMessage
) -> PeerError:
    return PeerError(
        SERVER,
        f"sends {type(message).__name__} of round {place.round} to a party in phase"
        f" {text.split_words(type(phase).__name__)}",
    )
