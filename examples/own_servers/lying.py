"""Servers that lie in their messages: each shows one attack of an active server (`malicious_server.toml`).

Each machine runs the honest one and changes its effects or its phase; messages are signed later, so every lie
is properly signed. The machine inside refuses the answers to the lies, which is bookkeeping: the parties are
protected by what *they* refuse. Only ``server = "active"`` promises to withstand these servers, and only
verified rounds withstand :class:`CraftsModel`.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
from msgspec.structs import replace

from securefl import ServerBehaviour
from securefl.base.arrays import F32
from securefl.base.ids import EVERYONE, PartyId
from securefl.methods.clustering import Assignment
from securefl.protocol import kernel, messages
from securefl.protocol.round import RunPlan
from securefl.protocol.round.server.phases import Certifying, Evaluating, Releasing, ServerPhase, Summing
from securefl.protocol.round.shared.reports import InstanceLost, RunEffect, SumOpened
from securefl.protocol.round.shared.statement import model_digest

Event = kernel.Event[messages.AnyMessage]
ServerLike = kernel.Machine[ServerPhase, Event, RunEffect]
Effects = tuple[RunEffect, ...]


class Lying:
    """The server's machine with other effects: a subclass defines :meth:`changed`."""

    def __init__(self, honest: ServerLike, behaviour: ServerBehaviour) -> None:
        self._honest = honest
        self._acts = behaviour.acts

    def start(self, now: float) -> tuple[ServerPhase, Effects]:
        """As the honest machine."""
        return self._honest.start(now)

    def step(self, phase: ServerPhase, event: Event) -> tuple[ServerPhase, Effects]:
        """As the honest machine, with the effects that :meth:`changed` returns."""
        after, effects = self._honest.step(phase, event)
        return after, self.changed(event, phase, effects)

    def changed(self, event: Event, before: ServerPhase, effects: Effects) -> Effects:
        """Return the effects that take the place of the honest ones.

        Args:
            event: the event of this step.
            before: the phase before it.
            effects: of the honest machine.
        """
        raise NotImplementedError


@dataclasses.dataclass(frozen=True, slots=True)
class _Camps:
    """Half of every cluster is to believe that ``victim`` survived, the other half that it dropped out."""

    victim: PartyId
    deceived: frozenset[PartyId]

    @classmethod
    def split(cls, assignment: Assignment, survivors: tuple[str, ...]) -> _Camps:
        """Take every second survivor of every cluster, so that both camps are as large as can be."""
        ordered = [m for members in assignment.clusters[0] for m in members if m in survivors]
        return cls(ordered[0], frozenset(ordered[1::2]))

    def freezes(self, party: PartyId, freeze: messages.Freeze, *, both: bool) -> tuple[messages.Freeze, ...]:
        """Return the freezes for a party: the true one, or one without the victim, or ``both``."""
        false = replace(freeze, survivors=tuple(name for name in freeze.survivors if name != self.victim))
        if party in self.deceived:
            return (false, freeze) if both else (false,)
        return (freeze, false) if both else (freeze,)


class _TwoFreezes(Lying):
    """Freezes two survivor sets, and passes off the signatures under both as one certificate."""

    def __init__(self, honest: ServerLike, behaviour: ServerBehaviour, *, both: bool) -> None:
        super().__init__(honest, behaviour)
        self._both = both
        self._signed: list[bytes] = []

    def changed(self, event: Event, before: ServerPhase, effects: Effects) -> Effects:
        """Lie in the freeze; certify the lie."""
        if isinstance(before, Summing) and self._acts(before.standing.round):
            self._signed = []
            return self._freeze_twice(before.view.assignment, effects)
        if isinstance(before, Certifying) and self._acts(before.standing.round):
            if (
                isinstance(event, kernel.Received)
                and isinstance(event.message, messages.Endorse)
                and event.signed
            ):
                self._signed.append(event.signed)
            lost = any(isinstance(e, kernel.Report) and isinstance(e.item, InstanceLost) for e in effects)
            if lost and self._signed:
                false = messages.Certificate(endorsements=tuple(self._signed))
                self._signed = []
                return (kernel.Send(EVERYONE, kernel.Place(before.standing.round), false), *effects)
        return effects

    def _freeze_twice(self, assignment: Assignment, effects: Effects) -> Effects:
        changed: list[RunEffect] = []
        for effect in effects:
            if isinstance(effect, kernel.Send) and isinstance(effect.message, messages.Freeze):
                camps = _Camps.split(assignment, effect.message.survivors)
                freezes = camps.freezes(effect.to, effect.message, both=self._both)
                changed += [kernel.Send(effect.to, effect.place, freeze) for freeze in freezes]
            else:
                changed.append(effect)
        return tuple(changed)


class ChangesSurvivors(ServerBehaviour, frozen=True, kw_only=True):
    """Announces to one half that a member survived and to the other half that it dropped out.

    With t members in each half it would get the shares of that member's self-mask from one and those of its
    mask key from the other, and with them its update. The certificate stops it: both halves would have to
    sign the same statement.
    """

    def around(self, honest: ServerLike, plan: RunPlan) -> ServerLike:
        return _TwoFreezes(honest, self, both=False)


class AsksBothShares(ServerBehaviour, frozen=True, kw_only=True):
    """Asks each party for both shares of one member: half for the one first, half for the other.

    A party answers the first question at most; the rest is as in :class:`ChangesSurvivors`.
    """

    def around(self, honest: ServerLike, plan: RunPlan) -> ServerLike:
        return _TwoFreezes(honest, self, both=True)


class _Splitting(Lying):
    """Sends one party another model; see :class:`SplitsModel`."""

    def __init__(self, honest: ServerLike, behaviour: ServerBehaviour) -> None:
        super().__init__(honest, behaviour)
        self._parties: set[PartyId] = set()
        self._false: messages.ModelAnnounce | None = None
        self._hello: bytes = b""

    def changed(self, event: Event, before: ServerPhase, effects: Effects) -> Effects:
        """Send other messages to the victim than to the other parties."""
        if isinstance(event, kernel.Received):
            self._parties.add(event.sender)
            if isinstance(event.message, messages.Hello) and event.sender == self._victim:
                self._hello = event.signed
        changed: list[RunEffect] = []
        for effect in effects:
            if isinstance(effect, kernel.Send) and effect.to == EVERYONE and self._acts(effect.place.round):
                changed += self._split(effect)
            else:
                changed.append(effect)
        return tuple(changed)

    @property
    def _victim(self) -> PartyId | None:
        return min(self._parties, default=None)

    def _split(self, send: kernel.Send[messages.AnyMessage]) -> list[RunEffect]:
        false = self._lie(send.message)
        if false is None:
            return [send]
        return [
            kernel.Send(party, send.place, false if party == self._victim else send.message)
            for party in sorted(self._parties)
        ]

    def _lie(self, message: messages.AnyMessage) -> messages.AnyMessage | None:
        match message:
            case messages.ModelAnnounce():
                negated = _negated(np.frombuffer(message.params, dtype="<f4"))
                self._false = messages.ModelAnnounce(params=negated.astype("<f4", copy=False).tobytes())
                return self._false
            case messages.Invite() if self._false is not None:
                params = np.frombuffer(self._false.params, dtype="<f4").astype(np.float32)
                values = getattr(message, "values", {})
                return replace(message, model_digest=model_digest(params, values))
            case messages.Announce() if self._hello and self._hello not in message.hellos:
                return replace(message, hellos=(*message.hellos, self._hello))
            case _:
                return None


class SplitsModel(ServerBehaviour, frozen=True, kw_only=True):
    """Sends one party a model of its own, so that its update would stand out in its cluster's sum.

    The lie is consistent as far as it can be: the victim is invited with the digest of its model, and its
    hello is announced to it among the others. There it shows: every hello names its model.

    Source: Pasquini, Francati and Ateniese 2022 (arXiv 2111.07380), which eludes secure sums that leave the
    model out of the masks.
    """

    def around(self, honest: ServerLike, plan: RunPlan) -> ServerLike:
        return _Splitting(honest, self)


class _Reopening(Lying):
    """Asks for a second sum; see :class:`ReopensAttempt`."""

    def changed(self, event: Event, before: ServerPhase, effects: Effects) -> Effects:
        """After the opening, ask for a retry and freeze it."""
        if not isinstance(before, Releasing) or not self._acts(before.standing.round):
            return effects
        again: list[RunEffect] = []
        for effect in effects:
            if isinstance(effect, kernel.Report) and isinstance(effect.item, SumOpened):
                again += _reopened(before, effect.item)
        return (*effects, *again)


def _reopened(phase: Releasing, report: SumOpened) -> list[RunEffect]:
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
    asked: list[RunEffect] = [
        kernel.Send(member, kernel.Place(report.round, *key, attempt), retry) for member in fewer
    ]
    return asked + [kernel.Send(member, kernel.Place(report.round), freeze) for member in fewer]


class ReopensAttempt(ServerBehaviour, frozen=True, kw_only=True):
    """Opens a sum, declares that its attempt failed, and asks for another one with one member fewer.

    The difference of the two sums would be that member's update. A party that has released is out of the
    round.
    """

    def around(self, honest: ServerLike, plan: RunPlan) -> ServerLike:
        return _Reopening(honest, self)


class _Crafting(Lying):
    """Puts another model into some rounds before they begin; see :class:`CraftsModel`."""

    def __init__(self, honest: ServerLike, behaviour: ServerBehaviour) -> None:
        super().__init__(honest, behaviour)
        self._replaced: tuple[F32, F32] | None = None
        """The model of the rule, and the one that the server announced in its place."""

    def step(self, phase: ServerPhase, event: Event) -> tuple[ServerPhase, Effects]:
        """As the honest machine, but for the model that a round begins with."""
        if isinstance(phase, Evaluating) and isinstance(event, kernel.Evaluated):
            standing = dataclasses.replace(phase.standing, params=self._given(phase))
            phase = dataclasses.replace(phase, standing=standing)
        return self._honest.step(phase, event)

    def _given(self, phase: Evaluating) -> F32:
        made: F32 = phase.standing.params
        if self._replaced is not None and self._replaced[1] is made:
            made = self._replaced[0]
        self._replaced = None
        if not self._acts(phase.standing.round + 1):
            return made
        crafted = _negated(made)
        self._replaced = made, crafted
        return crafted


class CraftsModel(ServerBehaviour, frozen=True, kw_only=True):
    """Trains all parties on a model of its choice, instead of the one that its rule made.

    All parties get the same, and all messages agree, so that nothing that parties send each other shows it.
    The purpose of such a model is up to the server: to lose what was learned, or to learn for whom training
    fails (docs/threat-model.md). Only verified rounds refuse it (ADR 0044). If no party trains on it, the
    server returns to the model of its rule. ``rounds``: the first round has the model of the run's beginning.
    """

    def around(self, honest: ServerLike, plan: RunPlan) -> ServerLike:
        return _Crafting(honest, self)


def _negated(params: np.ndarray[Any, np.dtype[np.float32]]) -> F32:
    """Return another model of the same size; its last parameter moves, too, if all are 0."""
    negated: F32 = -params.astype(np.float32)
    negated[-1] += 1
    return negated
