"""Sans-IO contract: ``step(phase, event) -> (phase, effects)``.

A machine holds constants; the phase, an immutable value, holds all that changes. A machine never sleeps,
reads a clock or touches a socket. No peer can make ``step`` raise: a wrong, early, late or forged message
gives ``Reject`` with the same phase.
"""

from collections.abc import Callable
from typing import Protocol, TypeAlias, TypeVar

from securefl.base.errors import PeerError
from securefl.protocol.kernel import effects, events

ItemT = TypeVar("ItemT")

Event: TypeAlias = (
    events.Received[events.MessageT]
    | events.DeadlinePassed
    | events.Trained
    | events.Chosen
    | events.Evaluated
    | events.Consulted
    | events.AllSent
    | events.PresenceHint
    | events.Heard
    | events.Offline
    | events.Online
    | events.PauseAsked
)
Effect: TypeAlias = (
    effects.Send[events.MessageT]
    | effects.WakeAt
    | effects.Journal
    | effects.Keep
    | effects.Lead
    | effects.Enter
    | effects.Train
    | effects.Choose
    | effects.Evaluate
    | effects.Consult
    | effects.AwaitSent
    | effects.Reject
    | effects.Report[ItemT]
    | effects.Finished
    | effects.Aborted
)

PhaseT = TypeVar("PhaseT")
EventT_contra = TypeVar("EventT_contra", contravariant=True)
EffectT_co = TypeVar("EffectT_co", covariant=True)


class Machine(Protocol[PhaseT, EventT_contra, EffectT_co]):
    """State machine without I/O."""

    def start(self, now: float) -> tuple[PhaseT, tuple[EffectT_co, ...]]:
        """Return the first phase and effects."""
        ...

    def step(self, phase: PhaseT, event: EventT_contra) -> tuple[PhaseT, tuple[EffectT_co, ...]]:
        """Return the next phase and effects; never raise because of a peer."""
        ...


StepEffectT = TypeVar("StepEffectT")


def guard(
    handler: Callable[[], tuple[PhaseT, tuple[StepEffectT, ...]]], phase: PhaseT
) -> tuple[PhaseT, tuple[StepEffectT | effects.Reject, ...]]:
    """Run a step; on ``PeerError`` return ``Reject`` with the unchanged phase."""
    try:
        return handler()
    except PeerError as error:
        return phase, (effects.Reject(error.culprit, error.reason, error.evidence),)
