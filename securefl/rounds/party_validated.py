"""A party's validated instances: what their messages and the update do to them (ADR 0024)."""

from __future__ import annotations

from securefl.arrays import Ring
from securefl.errors import PeerError, UsageError
from securefl.ids import SERVER
from securefl.kernel.effects import Reject, Send
from securefl.messages.crypten import PeerBox
from securefl.messages.masking import Complaint, KeyList
from securefl.messages.union import AnyMessage
from securefl.messages.validation import DealtTo, HeldList, SketchNonces, Verdicts
from securefl.rounds.party_draw import Effects
from securefl.rounds.party_phases import PartyContext
from securefl.rounds.randomness import instance_entropy
from securefl.secure_sum.crypten import member
from securefl.secure_sum.crypten.ports import Engine
from securefl.secure_sum.validated import evaluation as validated_check
from securefl.secure_sum.validated import member as validated_member
from securefl.secure_sum.validated.phases import (
    Advertised,
    Checking,
    Gathering,
    Holding,
    Judged,
    Revealed,
    Spoiled,
    Step,
    ValidatedPhase,
)

ValidatedMessage = KeyList | PeerBox | DealtTo | HeldList | SketchNonces | Verdicts


def on_validated_message(
    ctx: PartyContext, instance: ValidatedPhase, message: ValidatedMessage
) -> tuple[ValidatedPhase | member.Submitted, Effects]:
    """Take a message of one instance.

    Raises:
        PeerError: out of turn, or refused by the instance.
    """
    entropy, roster = instance_entropy(ctx.entropy, instance.setup.place), ctx.plan.roster
    match message, instance:
        case KeyList(), Advertised():
            step = Step(validated_member.on_key_list(instance, message, roster, entropy))
        case DealtTo(), Gathering():
            step = validated_member.on_deal(instance, message, roster)
        case PeerBox(), Gathering():
            step = validated_member.on_share(instance, message)
        case HeldList(), Holding():
            step = validated_check.on_held_list(instance, message, roster)
        case SketchNonces(), Revealed():
            step = validated_check.on_nonces(instance, message, engine_of(ctx), roster, entropy)
        case PeerBox(), Revealed() | Checking():
            step = validated_check.on_check_box(instance, message, entropy)
        case Verdicts(), Judged():
            step = validated_member.on_verdicts(instance, message, roster)
        case _, Spoiled():
            # Under way when it was spoiled; the retry will have others.
            step = Step(instance)
        case _:
            raise PeerError(SERVER, f"sends {type(message).__name__} out of turn")
    return _said(step)


def share_validated(
    ctx: PartyContext, instance: Gathering, encoded: Ring
) -> tuple[ValidatedPhase | member.Submitted, Effects]:
    """Share the update among the others, and say what that gives to say."""
    entropy = instance_entropy(ctx.entropy, instance.setup.place)
    return _said(validated_member.share_update(instance, encoded, entropy))


def engine_of(ctx: PartyContext) -> Engine:
    """What computes CrypTen sums.

    Raises:
        UsageError: the party was made without: a bug.
    """
    if ctx.engine is None:
        raise UsageError("this party was made without CrypTen")
    return ctx.engine


def _said(step: Step) -> tuple[ValidatedPhase | member.Submitted, Effects]:
    place = step.phase.setup.place
    said: list[AnyMessage] = [*step.said]
    refused: Effects = ()
    if step.accused is not None:
        refused = (Reject(step.accused.culprit, step.accused.reason),)
        if isinstance(step.phase, Spoiled):
            said.append(Complaint(accused=step.accused.culprit))
    return step.phase, (*refused, *(Send(SERVER, place, message) for message in said))
