"""A party's CrypTen instances: what their messages and the update do to them (protocol.md, steps 3-5)."""

from __future__ import annotations

from collections.abc import Iterator

from securefl.arrays import Ring
from securefl.errors import PeerError, UsageError
from securefl.ids import SERVER
from securefl.kernel.effects import Reject, Send
from securefl.messages.crypten import PeerBox
from securefl.messages.masking import Complaint, KeyList
from securefl.messages.union import AnyMessage
from securefl.rounds.party_draw import Effects
from securefl.rounds.party_phases import PartyContext, PartyPhase, Working
from securefl.rounds.randomness import instance_entropy
from securefl.secure_sum.crypten import member
from securefl.secure_sum.crypten.ports import Computation
from securefl.secure_sum.validated.phases import Checking


def on_crypten_message(
    ctx: PartyContext, instance: member.MemberPhase, message: KeyList | PeerBox
) -> tuple[member.MemberPhase, Effects]:
    """Take a message of one instance.

    Raises:
        PeerError: out of turn, or refused by the instance.
    """
    entropy = instance_entropy(ctx.entropy, instance.setup.place)
    source = ctx.plan.scenario.secure_sum.mask_source
    match message, instance:
        case KeyList(), member.Advertised():
            return member.on_key_list(instance, message, ctx.plan.roster, entropy, source), ()
        case PeerBox(), member.Listed() | member.Computing():
            return _said(member.on_peer_box(instance, message, entropy))
        case PeerBox(), member.Spoiled():
            # Under way when it was spoiled; the retry will have others.
            return instance, ()
        case _:
            raise PeerError(SERVER, f"sends {type(message).__name__} out of turn")


def submit_shares(
    ctx: PartyContext, instance: member.Listed, encoded: Ring, without: int
) -> tuple[member.MemberPhase, Effects]:
    """Share the update, and say what that gives to say."""
    if ctx.engine is None:
        raise UsageError("this party was made without CrypTen")
    entropy = instance_entropy(ctx.entropy, instance.setup.place)
    return _said(member.submit(instance, encoded, ctx.engine, entropy, without))


def close_left(before: PartyPhase, after: PartyPhase) -> None:
    """End the computations that the step from ``before`` to ``after`` has left behind."""
    kept = {id(computation) for computation in _computations(after)}
    for computation in _computations(before):
        if id(computation) not in kept:
            computation.close()


def _computations(phase: PartyPhase) -> Iterator[Computation[Ring] | Computation[bool]]:
    for instance in phase.instances.values() if isinstance(phase, Working) else ():
        if isinstance(instance, member.Computing):
            yield instance.computation
        if isinstance(instance, Checking):
            yield from instance.running.values()


def _said(step: member.Step) -> tuple[member.MemberPhase, Effects]:
    place = step.phase.setup.place
    said: list[AnyMessage] = [*step.boxes, *(step.submitted or ())]
    refused: Effects = ()
    if step.accused is not None:
        refused = (Reject(step.accused.culprit, step.accused.reason),)
        said.append(Complaint(accused=step.accused.culprit))
    return step.phase, (*refused, *(Send(SERVER, place, message) for message in said))
