"""The party as a machine: one ``match`` over phase and event."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import replace
from typing import assert_never

from securefl.base.errors import PeerError
from securefl.base.ids import SERVER, PartyId
from securefl.methods.robust import needs_server_gradient
from securefl.protocol.kernel import (
    Aborted,
    AllSent,
    Chosen,
    Consulted,
    DeadlinePassed,
    Evaluated,
    Event,
    Finished,
    Heard,
    Offline,
    Online,
    PauseAsked,
    Place,
    PresenceHint,
    Received,
    Reject,
    Report,
    Send,
    Trained,
    WakeAt,
)
from securefl.protocol.messages import (
    Announce,
    AnyMessage,
    BestModel,
    Certificate,
    Freeze,
    Goodbye,
    Here,
    Invite,
    ModelAnnounce,
    NotForParties,
    OpeningProof,
    Pause,
    Retry,
    Reveals,
    RollCall,
    SlotCounts,
    StepProof,
    SumToMember,
)
from securefl.protocol.round.party.draw import (
    MAX_REDRAWS,
    begin_training,
    invited_before,
    on_announce,
    on_best,
    on_chosen,
    on_invite,
    on_model,
    on_reveals,
)
from securefl.protocol.round.party.following import asked_only, followed, join
from securefl.protocol.round.party.phases import (
    Choosing,
    Counted,
    Ended,
    Endorsed,
    Greeted,
    Informed,
    Outside,
    PartyContext,
    PartyPhase,
    Past,
    Released,
    Revealed,
    Working,
    sit_out,
)
from securefl.protocol.round.party.release import on_certificate, on_freeze
from securefl.protocol.round.party.shares import on_counts, released_again
from securefl.protocol.round.party.sums import on_instance_message, on_late, on_submit, on_trained
from securefl.protocol.round.party.verifying import on_proof
from securefl.protocol.round.shared.allowance import extra
from securefl.protocol.round.shared.charging import charged
from securefl.protocol.round.shared.presence import FIRST, linked
from securefl.protocol.round.shared.reports import Effects, RunPaused, SatOut
from securefl.protocol.secure_sum import Running, sums_of
from securefl.scenario import Scenario

PAUSE_SECONDS = 86_400.0
"""How long a party waits for a server that has said that it is started again."""
WITHOUT_IT = "the server went on without what it sent: it came too late, or was lost on its way"
"""Why a party that worked was not asked to release anything: its log would not tell otherwise."""


def patience(scenario: Scenario) -> float:
    """Return after how many seconds without any word from the server a party gives up.

    Twice the longest that an honest server may be silent to one party: everybody joins, draws are redrawn,
    another party's instance takes all its attempts, the rule asks the server's own data, and too few parties
    are there. What large vectors take comes on top.
    """
    d = scenario.deadlines
    draws = (MAX_REDRAWS + 1) * (d.hello + d.reveal)
    attempts = scenario.secure_sum.max_attempts * (d.keys + d.shares + d.training)
    # The step has no deadline of its own: the server trains on its own data as parties do on theirs.
    consulting = d.training if needs_server_gradient(scenario.aggregation.rule) else 0.0
    checking = sums_of(scenario).checking(d)
    return 2 * (d.join + draws + attempts + checking + d.certify + d.release + consulting + d.quorum)


class PartyMachine:
    """An honest party. What it may deviate in is given by ``ctx.seams`` and by behaviours outside."""

    def __init__(self, ctx: PartyContext) -> None:
        self._ctx = ctx
        self._patience = patience(ctx.plan.scenario) + 2 * ctx.plan.scenario.secure_sum.max_attempts * extra(
            ctx.plan
        )

    def start(self, now: float) -> tuple[PartyPhase, Effects]:
        """Join the run."""
        ctx = self._ctx
        past = Past(
            ctx.spent,
            ctx.releases,
            atom_seed=ctx.atom_seed,
            given=ctx.given,
            unresolved=ctx.unresolved,
            unreleased=ctx.unreleased,
            outcomes=ctx.outcomes,
            taken=ctx.taken,
            choice=ctx.choice,
            link=None if ctx.root else ctx.first,
            leader=ctx.leader,
        )
        outside = Outside(past)
        return outside, (Send(SERVER, Place(-1), FIRST), *join(ctx, outside), WakeAt(now + self._patience))

    def step(self, phase: PartyPhase, event: Event[AnyMessage]) -> tuple[PartyPhase, Effects]:
        """Take one event; see :class:`securefl.protocol.kernel.machine.Machine`."""
        after, effects = self._taken(phase, event)
        self._close_left(phase, after)
        return after, effects

    def _close_left(self, before: PartyPhase, after: PartyPhase) -> None:
        """End the computations that the step from ``before`` to ``after`` has left behind."""
        kept = {id(one) for one in self._running(after)}
        for one in self._running(before):
            if id(one) not in kept:
                one.close()

    def _running(self, phase: PartyPhase) -> Iterator[Running]:
        for instance in phase.instances.values() if isinstance(phase, Working) else ():
            if instance is not None:
                yield from self._ctx.sums.member.running(instance)

    def _taken(self, phase: PartyPhase, event: Event[AnyMessage]) -> tuple[PartyPhase, Effects]:
        if isinstance(phase, Ended):
            return phase, ()
        match event:
            case Received():
                return self._from_network(phase, event)
            case Trained() | Chosen():
                return self._worked(phase, event)
            case DeadlinePassed():
                return self._woken(phase, event.now)
            case Offline() | Online():
                return phase, linked(event, self._wake(phase, event.now))
            case Evaluated() | Consulted() | AllSent() | PresenceHint() | Heard() | PauseAsked():
                return phase, ()
            case _:
                assert_never(event)

    def _worked(self, phase: PartyPhase, event: Trained | Chosen) -> tuple[PartyPhase, Effects]:
        """Take what local work has ended in, if it is still wanted."""
        if isinstance(event, Trained) and isinstance(phase, Working):
            after, effects = on_trained(self._ctx, phase, event)
            if isinstance(after, Working):
                return after, effects
            # The alarm was set for the end of the training: in another phase it would mean a silent server.
            return after, (*effects, WakeAt(self._wake(after, event.now)))
        if isinstance(event, Chosen) and isinstance(phase, Choosing):
            return on_chosen(self._ctx, phase, event)
        return phase, ()

    def awaited(self, phase: PartyPhase) -> Collection[PartyId]:
        """Return whom this phase waits for: the server, unless the party holds its inputs until all leave."""
        holds = isinstance(phase, Working) and phase.submit_at is not None
        return () if holds else (SERVER,)

    def _woken(self, phase: PartyPhase, now: float) -> tuple[PartyPhase, Effects]:
        """It is time to submit, a training is late, or the server has been silent for too long."""
        if isinstance(phase, Working) and phase.submit_at is not None and now >= phase.submit_at:
            submitted, effects = on_submit(self._ctx, phase, now)
            return submitted, (*effects, WakeAt(now + self._patience))
        if isinstance(phase, Working) and phase.late_at is not None and now >= phase.late_at:
            without, effects = on_late(self._ctx, phase, now)
            return without, (*effects, WakeAt(self._wake(without, now)))
        if isinstance(phase, Working) and phase.train_at is not None and now >= phase.train_at:
            begun, effects = begin_training(self._ctx, phase, wait=False)
            begun = self._begun(begun, now)
            return begun, (*effects, WakeAt(self._wake(begun, now)))
        return Ended(), (Aborted(f"no word from the server for {self._patience:.0f} s"),)

    def _from_network(self, phase: PartyPhase, event: Received[AnyMessage]) -> tuple[PartyPhase, Effects]:
        now_at, noted = followed(phase, event.session) if event.sender == SERVER else (phase, ())
        after, effects = charged(lambda: self._received(now_at, event), now_at, event.place.round)
        refused = after is now_at and effects and isinstance(effects[0], Reject)
        effects = (*noted, *effects)
        if refused or isinstance(after, Ended):
            return after, effects
        if isinstance(after, Working) and not isinstance(phase, Working):
            after = self._timed(after, event.now)
        elif isinstance(after, Working) and isinstance(phase, Working) and after.untrained < phase.untrained:
            after = self._begun(after, event.now)
        if after.past.paused is not isinstance(event.message, Pause):
            after = replace(after, past=replace(after.past, paused=not after.past.paused))
        return after, (*effects, WakeAt(self._wake(after, event.now)))

    def _timed(self, phase: Working, now: float) -> Working:
        """Set the times of a round in which the clusters have just been drawn."""
        scenario = self._ctx.plan.scenario
        submit, deadlines = scenario.submit_seconds, scenario.deadlines
        if phase.untrained:
            phase = replace(phase, train_at=now + deadlines.keys + deadlines.shares)
        if submit is None:
            return replace(phase, late_at=now + scenario.training_seconds)
        return replace(phase, submit_at=now + submit)

    def _begun(self, phase: Working, now: float) -> Working:
        """Give a training that begins late its whole time, as the server does."""
        begun = replace(phase, train_at=None)
        if phase.late_at is None:
            return begun
        return replace(begun, late_at=now + self._ctx.plan.scenario.training_seconds)

    def _wake(self, phase: PartyPhase, now: float) -> float:
        """Return the time of the next alarm: to submit, to give up a training, or the server's silence."""
        paused = not isinstance(phase, Ended) and phase.past.paused
        patience = now + (PAUSE_SECONDS if paused else self._patience)
        times = (phase.submit_at, phase.late_at, phase.train_at) if isinstance(phase, Working) else ()
        return min(patience, *(due for due in times if due is not None), patience)

    def _on_model(
        self, phase: PartyPhase, place: Place, message: ModelAnnounce | BestModel
    ) -> tuple[PartyPhase, Effects]:
        """Take the model of a round, or the one to keep in the end."""
        if isinstance(message, BestModel):
            return phase, on_best(self._ctx, phase, place, message)
        after = on_model(self._ctx, phase, place, message)
        return after, (Report(SatOut(phase.round, WITHOUT_IT)),) if isinstance(phase, Working) else ()

    def _told(self, phase: PartyPhase, message: Here | RollCall | Pause) -> Effects:
        """Answer a word about the server itself."""
        match message:
            case Here():
                return ()
            case RollCall():
                return join(self._ctx, phase)
            case Pause(reason=reason):
                return (Report(RunPaused(reason)),)
            case _:
                assert_never(message)

    def _received(self, phase: PartyPhase, event: Received[AnyMessage]) -> tuple[PartyPhase, Effects]:
        if event.sender != SERVER:
            raise PeerError(event.sender, "a party takes messages from the server only")
        return (phase, ()) if asked_only(phase, event) else self._understood(phase, event)

    def _understood(self, phase: PartyPhase, event: Received[AnyMessage]) -> tuple[PartyPhase, Effects]:
        if isinstance(event.message, SumMessage):
            return _summing(self._ctx, phase, event.place, event.message)
        if isinstance(event.message, NotForParties):
            what = type(event.message).__name__
            raise PeerError(SERVER, f"sends {what}, which is not for parties")
        match event.message:
            case (Here() | RollCall() | Pause()) as message:
                return phase, self._told(phase, message)
            case Goodbye(reason=reason, aborted=aborted):
                return Ended(), (Aborted(reason) if aborted else Finished(reason),)
            case (ModelAnnounce() | BestModel()) as message:
                return self._on_model(phase, event.place, message)
            case (Invite() | Announce() | Reveals()) as message:
                return _drawing(self._ctx, phase, event.place, message)
            case _:
                assert_never(event.message)


def _verifying(
    ctx: PartyContext, phase: PartyPhase, place: Place, message: Proof
) -> tuple[PartyPhase, Effects]:
    """Take a proof, whatever else this party is at."""
    if isinstance(phase, Ended):
        return phase, ()
    past, effects = on_proof(ctx, phase.past, place, message)
    return replace(phase, past=past), effects


DrawMessage = Invite | Announce | Reveals
Proof = OpeningProof | StepProof
SumMessage = SumToMember | Retry | Freeze | Certificate | SlotCounts | Proof


def _drawing(
    ctx: PartyContext, phase: PartyPhase, place: Place, message: DrawMessage
) -> tuple[PartyPhase, Effects]:
    """Take a message of the draw of clusters."""
    match message, phase:
        case Invite(), Choosing() | Greeted() if invited_before(ctx, phase, place, message):
            return phase, ()
        case Invite(), Informed() | Choosing() | Greeted() | Revealed():
            return on_invite(ctx, phase, place, message)
        case Announce(), Choosing(round=at) if place.round == at:
            return sit_out(phase), (Report(SatOut(at, "had not chosen its task group in time")),)
        case Announce(), Greeted():
            return on_announce(ctx, phase, place, message)
        case Reveals(), Revealed():
            return on_reveals(ctx, phase, place, message)
        case _, Outside(past=Past(spent=spent)) if place.round == spent:
            # Sent to everybody, so also to those that sit this round out: nobody's fault.
            return phase, ()
    raise _untimely(phase, place, message)


def _summing(
    ctx: PartyContext, phase: PartyPhase, place: Place, message: SumMessage
) -> tuple[PartyPhase, Effects]:
    """Take a message of the secure sums, from the key lists to the proofs of what they came to."""
    if isinstance(message, Proof):
        return _verifying(ctx, phase, place, message)
    if isinstance(message, SumToMember | Retry):
        if not isinstance(phase, Working):
            raise _untimely(phase, place, message)
        return on_instance_message(ctx, phase, place, message)
    match message, phase:
        case Freeze(), Working():
            return on_freeze(ctx, phase, place, message)
        case SlotCounts(), Counted():
            return on_counts(ctx, phase, place, message)
        case Certificate(), _:
            return _certified(ctx, phase, place, message)
    raise _untimely(phase, place, message)


def _certified(
    ctx: PartyContext, phase: PartyPhase, place: Place, message: Certificate
) -> tuple[PartyPhase, Effects]:
    """Release, or release again, or leave it to others."""
    match phase:
        case Endorsed():
            return on_certificate(ctx, phase, place, message)
        case Outside(past=Past(spent=at, released=Released() as said)) if place.round == at == said.round:
            return released_again(phase, said)
        case Working(round=at) | Counted(round=at) | Outside(past=Past(spent=at)) if place.round == at:
            # Broadcast to those who endorsed; whoever is not in the survivor set was asked for nothing.
            return phase, ()
    raise _untimely(phase, place, message)


def _untimely(phase: PartyPhase, place: Place, message: DrawMessage | SumMessage) -> PeerError:
    return PeerError(
        SERVER,
        f"sends {type(message).__name__} of round {place.round} to a party that is"
        f" {type(phase).__name__.lower()}",
    )
