"""A server that asks for a second sum after it has opened the first (protocol.md, step 10)."""

from __future__ import annotations

from securefl import scenario
from securefl.protocol import kernel, messages
from securefl.protocol.round import Releasing, SumOpened
from securefl.runtime.misbehaviour import seam


class ReopensAttempt:
    """Opens a sum, declares that its attempt failed, and asks for another one with one member fewer.

    The difference of the two sums would be that member's update. Whoever has released is out of the round.
    """

    def __init__(self, behaviour: scenario.Behaviour) -> None:
        self._behaviour = behaviour

    def __call__(
        self, _event: kernel.Event[messages.AnyMessage], before: object, effects: tuple[seam.Action, ...]
    ) -> tuple[seam.Action, ...]:
        """After the opening, ask for a retry and freeze it."""
        if not isinstance(before, Releasing) or not seam.acts(self._behaviour, before.standing.round):
            return effects
        again: list[seam.Action] = []
        for effect in effects:
            if isinstance(effect, kernel.Report) and isinstance(effect.item, SumOpened):
                again += _reopened(before, effect.item)
        return (*effects, *again)


def _reopened(phase: Releasing, report: SumOpened) -> list[seam.Action]:
    opened = report.opened
    key = (opened.reclustering, opened.cluster)
    attempt = phase.frozen.instances[key].setup.instance.attempt + 1
    fewer = opened.survivors[1:]
    retry = messages.Retry(members=fewer)
    freeze = messages.Freeze(
        survivors=tuple(sorted(phase.frozen.survivors - {opened.survivors[0]})),
        attempts=(messages.InstanceAttempt(reclustering=key[0], cluster=key[1], attempt=attempt),),
        receipts=(),
    )
    asked: list[seam.Action] = [
        kernel.Send(member, kernel.Place(report.round, *key, attempt), retry) for member in fewer
    ]
    return asked + [kernel.Send(member, kernel.Place(report.round), freeze) for member in fewer]
