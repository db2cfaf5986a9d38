"""A server that asks for a second sum after it has opened the first (protocol.md, step 10)."""

from __future__ import annotations

from securefl.protocol.kernel import Event, Place, Report, Send
from securefl.protocol.messages import AnyMessage, Freeze, InstanceAttempt, Retry
from securefl.protocol.round import Releasing, SumOpened
from securefl.runtime.misbehaviour.seam import Action, acts
from securefl.scenario import Behaviour


class ReopensAttempt:
    """Opens a sum, declares that its attempt failed, and asks for another one with one member fewer.

    The difference of the two sums would be that member's update. Whoever has released is out of the round.
    """

    def __init__(self, behaviour: Behaviour) -> None:
        self._behaviour = behaviour

    def __call__(
        self, _event: Event[AnyMessage], before: object, effects: tuple[Action, ...]
    ) -> tuple[Action, ...]:
        """After the opening, ask for a retry and freeze it."""
        if not isinstance(before, Releasing) or not acts(self._behaviour, before.standing.round):
            return effects
        again: list[Action] = []
        for effect in effects:
            if isinstance(effect, Report) and isinstance(effect.item, SumOpened):
                again += _reopened(before, effect.item)
        return (*effects, *again)


def _reopened(phase: Releasing, report: SumOpened) -> list[Action]:
    opened = report.opened
    key = (opened.reclustering, opened.cluster)
    attempt = phase.frozen.instances[key].setup.instance.attempt + 1
    fewer = opened.survivors[1:]
    retry = Retry(members=fewer)
    freeze = Freeze(
        survivors=tuple(sorted(phase.frozen.survivors - {opened.survivors[0]})),
        attempts=(InstanceAttempt(reclustering=key[0], cluster=key[1], attempt=attempt),),
        receipts=(),
    )
    asked: list[Action] = [Send(member, Place(report.round, *key, attempt), retry) for member in fewer]
    return asked + [Send(member, Place(report.round), freeze) for member in fewer]
