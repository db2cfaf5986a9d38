"""State machine of the dealer, which deals the triples of validated sums (ADR 0024)."""

from dataclasses import dataclass, replace
from typing import assert_never

from securefl.base import crypto
from securefl.base.entropy import Entropy
from securefl.base.errors import ConfigError, PeerError
from securefl.base.ids import SERVER, RunId
from securefl.protocol import kernel, secure_sum, wire
from securefl.protocol.messages import (
    WIRE_VERSION,
    AnyMessage,
    DealRequest,
    Goodbye,
    JoinRun,
    Pause,
    RollCall,
)
from securefl.protocol.round.party import machine
from securefl.protocol.round.shared import presence, reports
from securefl.protocol.round.shared.plan import dealer_digest
from securefl.protocol.round.shared.randomness import instance_entropy
from securefl.scenario import Scenario


@dataclass(frozen=True, slots=True)
class Dealing:
    """Phase of waiting for requests."""

    served_attempts: frozenset[kernel.Place] = frozenset()
    """Attempts dealt for; each is served once."""
    is_paused: bool = False


@dataclass(frozen=True, slots=True)
class Ended:
    """Phase after the end of the run."""


DealerPhase = Dealing | Ended


class DealerMachine:
    """Dealer of one run."""

    def __init__(self, run: RunId, scenario: Scenario, roster: crypto.Roster, entropy: Entropy) -> None:
        """Prepare to deal; ConfigError if the sums need no dealer."""
        self._sums = sums_with_dealer(scenario)
        self._run = run
        self._roster = roster
        self._entropy = entropy
        self._digest = dealer_digest(run, scenario, roster)
        self._patience = machine.patience(scenario)

    def start(self, now: float) -> tuple[DealerPhase, reports.Effects]:
        """Join the run, and wait for requests."""
        return Dealing(), (
            kernel.Send(SERVER, kernel.Place(-1), presence.FIRST),
            self._join(),
            kernel.WakeAt(now + self._patience),
        )

    def step(
        self, phase: DealerPhase, event: kernel.Event[AnyMessage]
    ) -> tuple[DealerPhase, reports.Effects]:
        """Handle one event."""
        if isinstance(phase, Ended):
            return phase, ()
        match event:
            case kernel.Received():
                heard = replace(phase, is_paused=False) if phase.is_paused else phase
                return kernel.guard(lambda: self._handle_message(heard, event), phase)
            case kernel.DeadlinePassed():
                return Ended(), (kernel.Aborted(f"no word from the server for {self._patience:.0f} s"),)
            case kernel.Offline() | kernel.Online():
                return phase, presence.on_connection(
                    event, event.now + (machine.PAUSE_SECONDS if phase.is_paused else self._patience)
                )
            case (
                kernel.Trained()
                | kernel.Chosen()
                | kernel.Evaluated()
                | kernel.Consulted()
                | kernel.AllSent()
                | kernel.PresenceHint()
                | kernel.Heard()
            ):
                return phase, ()
            case kernel.PauseAsked():
                return phase, ()
            case _:
                assert_never(event)

    def _join(self) -> kernel.Send[AnyMessage]:
        message = JoinRun(config_digest=self._digest, version=WIRE_VERSION, leader=wire.NOBODY, round=-1)
        return kernel.Send(SERVER, kernel.Place(-1), message)

    def _handle_message(
        self, phase: Dealing, event: kernel.Received[AnyMessage]
    ) -> tuple[DealerPhase, reports.Effects]:
        if event.sender != SERVER:
            raise PeerError(event.sender, "the dealer accepts messages of the server only")
        awake = kernel.WakeAt(event.now + self._patience)
        match event.message:
            case Goodbye(reason=reason, aborted=aborted):
                return Ended(), (kernel.Aborted(reason) if aborted else kernel.Finished(reason),)
            case RollCall():
                return phase, (self._join(), awake)
            case Pause(reason=reason):
                report = kernel.Report(reports.RunPaused(reason))
                return replace(phase, is_paused=True), (
                    report,
                    kernel.WakeAt(event.now + machine.PAUSE_SECONDS),
                )
            case DealRequest() as request:
                return self._deal(phase, event.place, request, awake)
            case _:
                # Broadcasts: models, invitations, announcements.
                return phase, (awake,)

    def _deal(
        self, phase: Dealing, place: kernel.Place, request: DealRequest, awake: kernel.WakeAt
    ) -> tuple[DealerPhase, reports.Effects]:
        if place in phase.served_attempts:
            raise PeerError(SERVER, f"requests triples of {tuple(place)} again, but each is used once")
        entropy = instance_entropy(self._entropy, place)
        messages = self._sums.deal(request, place, self._roster, self._run, entropy)
        report = kernel.Report(reports.TriplesDealt(*place, len(messages)))
        sent: reports.Effects = tuple(kernel.Send(SERVER, place, message) for message in messages)
        return replace(phase, served_attempts=phase.served_attempts | {place}), (*sent, report, awake)


def sums_with_dealer(scenario: Scenario) -> secure_sum.SecureSum:
    """Return the secure sum that the dealer deals for; ConfigError if it needs none."""
    sums = secure_sum.sums_of(scenario)
    if sums.dealer is None:
        raise ConfigError("secure_sum.validate", "is not set: this run needs no dealer", "do not start one")
    return sums
