"""The server's validated instances: what their messages do, and what ends their steps (ADR 0024)."""

from __future__ import annotations

from typing import assert_never

from securefl.errors import PeerError, UsageError
from securefl.ids import DEALER, PartyId
from securefl.kernel.effects import Report, Send
from securefl.kernel.events import Received
from securefl.messages.crypten import PeerBox
from securefl.messages.masking import Retry
from securefl.messages.union import AnyMessage
from securefl.messages.validation import Dealt, Held, SketchNonce, Verdict
from securefl.rounds.allowance import allowed
from securefl.rounds.party_draw import Effects
from securefl.rounds.reports import InstanceLost, InstanceRetried, UpdatesValidated
from securefl.rounds.server_phases import InstancePhase, ServerContext
from securefl.secure_sum.masking.server import CollectingBoxes, CollectingInputs, CollectingKeys, Lost
from securefl.secure_sum.validated import server as validated_server
from securefl.secure_sum.validated.server import (
    AwaitingHeld,
    AwaitingNonces,
    AwaitingVerdicts,
    ValidatedPhase,
    silent_owners,
)


def on_validated_message(
    event: Received[AnyMessage], message: AnyMessage, instance: ValidatedPhase
) -> tuple[ValidatedPhase, Effects]:
    """Take one message of a member or of the dealer.

    Raises:
        PeerError: out of turn, or refused by the instance.
    """
    sender, place, signed = event.sender, event.place, event.signed
    match message, instance:
        case Dealt(), AwaitingHeld():
            awaiting, (to, dealt) = validated_server.on_dealt(instance, sender, message, signed)
            return awaiting, (Send(to, place, dealt),)
        case PeerBox(), AwaitingHeld():
            awaiting, (to, share) = validated_server.on_share(instance, sender, message)
            return awaiting, (Send(to, place, share),)
        case PeerBox(), AwaitingVerdicts():
            checking, (to, words) = validated_server.on_words(instance, sender, message)
            return checking, (Send(to, place, words),)
        case Held(), AwaitingHeld():
            return validated_server.on_held(instance, sender, message, signed), ()
        case SketchNonce(), AwaitingNonces():
            return validated_server.on_nonce(instance, sender, message, signed), ()
        case Verdict(), AwaitingVerdicts():
            return validated_server.on_verdict(instance, sender, message, signed), ()
        case _:
            kind = type(message).__name__
            raise PeerError(sender, f"sends {kind} out of turn in {instance.setup.describe()}")


def missing_from_checks(instance: ValidatedPhase) -> frozenset[PartyId]:
    """Return whose answer the step lacks: who has not shared, then the dealer, then who holds too little.

    While checks run: those for whose words the others wait, as far as the server can see.
    """
    match instance:
        case AwaitingHeld():
            missing = silent_owners(instance)
            if not missing and instance.dealt != instance.listed:
                return frozenset({DEALER})
            missing = missing or instance.listed - instance.held.keys()
        case AwaitingNonces():
            missing = instance.listed - instance.nonces.keys()
        case AwaitingVerdicts():
            missing = validated_server.without_verdict(instance)
        case _:
            assert_never(instance)
    return frozenset(instance.setup.members[index] for index in missing)


def close_validated(
    ctx: ServerContext, instance: InstancePhase, now: float
) -> tuple[InstancePhase, float, Effects]:
    """End the current step of one instance with those who answered."""
    match instance:
        case CollectingKeys():
            return _close_keys(ctx, instance, now)
        case AwaitingHeld() | AwaitingNonces() | AwaitingVerdicts():
            return _close_checks(ctx, instance, now)
        case CollectingInputs() | Lost():
            return instance, now, ()
        case CollectingBoxes():
            raise UsageError("validated sums have no boxes of shares of keys")
        case _:
            assert_never(instance)


def _close_keys(
    ctx: ServerContext, instance: CollectingKeys, now: float
) -> tuple[InstancePhase, float, Effects]:
    """The list to the listed members, and a request to the dealer."""
    validation = ctx.plan.validation
    if validation is None:
        raise UsageError("nothing is validated in this run")
    after, key_list, request = validated_server.close_keys(instance, validation)
    if isinstance(after, Lost) or key_list is None or request is None:
        return after, now, (_lost(after),)
    place = instance.setup.place
    to_members: Effects = tuple(Send(m, place, key_list) for m in _listed(after))
    deadline = now + allowed(ctx.plan, "training")
    return after, deadline, (*to_members, Send(DEALER, place, request))


def _close_checks(
    ctx: ServerContext, instance: ValidatedPhase, now: float
) -> tuple[InstancePhase, float, Effects]:
    deadlines, place, listed = ctx.plan.scenario.deadlines, instance.setup.place, _listed(instance)
    after: InstancePhase
    match instance:
        case AwaitingHeld():
            limit = ctx.plan.scenario.secure_sum.max_attempts
            after, held = validated_server.close_held(instance, limit)
            if isinstance(after, CollectingKeys):
                return _retried(ctx, instance, after, now)
            return _next(after, held, listed, now + deadlines.shares, now)
        case AwaitingNonces():
            after, nonces = validated_server.close_nonces(instance)
            return _next(after, nonces, listed, now + allowed(ctx.plan, "training"), now)
        case AwaitingVerdicts():
            after, verdicts = validated_server.close_verdicts(instance)
            # What follows is each member's share of the sum: a vector.
            after, deadline, effects = _next(after, verdicts, listed, now + allowed(ctx.plan, "shares"), now)
            if instance.frames.keys() != instance.listed:
                return after, deadline, effects
            rejected = validated_server.rejected(instance)
            told = UpdatesValidated(
                *place,
                tuple(member for member in listed if member not in rejected),
                rejected,
                instance.validation.projections,
            )
            return after, deadline, (Report(told), *effects)
        case _:
            assert_never(instance)


def _retried(
    ctx: ServerContext, before: AwaitingHeld, after: CollectingKeys, now: float
) -> tuple[InstancePhase, float, Effects]:
    place, excluded = after.setup.place, set(before.setup.members) - set(after.setup.members)
    report = InstanceRetried(*place, tuple(sorted(excluded)))
    ask: Effects = tuple(
        Send(member, place, Retry(members=after.setup.members)) for member in before.setup.members
    )
    return after, now + ctx.plan.scenario.deadlines.keys, (Report(report), *ask)


def _next(
    after: InstancePhase, message: AnyMessage | None, listed: tuple[PartyId, ...], deadline: float, now: float
) -> tuple[InstancePhase, float, Effects]:
    if message is None:
        return after, now, (_lost(after),)
    return after, deadline, tuple(Send(member, after.setup.place, message) for member in listed)


def _listed(instance: ValidatedPhase) -> tuple[PartyId, ...]:
    return tuple(instance.setup.members[index] for index in sorted(instance.listed))


def _lost(instance: InstancePhase) -> Report:
    i = instance.setup.instance
    reason = instance.reason if isinstance(instance, Lost) else "lost"
    return Report(InstanceLost(i.round, i.reclustering, i.cluster, reason))
