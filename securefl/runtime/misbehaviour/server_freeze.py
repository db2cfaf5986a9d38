"""A server that cheats about who survived (protocol.md, steps 6 and 7).

Each seam changes what an honest server machine says; signing comes later, so every lie is properly signed.
The machine inside stays honest and refuses the answers to the lies, which is no protection, only bookkeeping:
what protects the parties is what *they* refuse. Only ``server = "active"`` promises to withstand any of this.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

from msgspec.structs import replace

from securefl import scenario
from securefl.base.ids import EVERYONE, PartyId
from securefl.methods import clustering
from securefl.protocol import kernel, messages
from securefl.protocol.round import Certifying, InstanceLost, Summing
from securefl.runtime.misbehaviour import seam


@dataclass(frozen=True, slots=True)
class _Camps:
    """Half of every cluster is to believe that ``victim`` survived, the other half that it dropped out."""

    victim: PartyId
    deceived: frozenset[PartyId]

    @classmethod
    def split(cls, assignment: clustering.Assignment, survivors: tuple[str, ...]) -> _Camps:
        """Take every second survivor of every cluster, so that both camps are as large as can be."""
        ordered = [m for members in assignment.clusters[0] for m in members if m in survivors]
        return cls(ordered[0], frozenset(ordered[1::2]))

    def without_victim(self, freeze: messages.Freeze) -> messages.Freeze:
        """Return the same freeze with the victim among the dropped."""
        return replace(freeze, survivors=tuple(name for name in freeze.survivors if name != self.victim))


class _TwoFreezes(ABC):
    """Freezes two survivor sets, and passes off the signatures under both as one certificate."""

    def __init__(self, behaviour: scenario.Behaviour) -> None:
        self._behaviour = behaviour
        self._signed: list[bytes] = []

    def __call__(
        self, event: kernel.Event[messages.AnyMessage], before: object, effects: tuple[seam.Action, ...]
    ) -> tuple[seam.Action, ...]:
        """Lie in the freeze; certify the lie."""
        if isinstance(before, Summing) and seam.acts(self._behaviour, before.standing.round):
            self._signed = []
            return self._freeze_twice(before.view.assignment, effects)
        if isinstance(before, Certifying) and seam.acts(self._behaviour, before.standing.round):
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

    def _freeze_twice(
        self, assignment: clustering.Assignment, effects: tuple[seam.Action, ...]
    ) -> tuple[seam.Action, ...]:
        changed: list[seam.Action] = []
        for effect in effects:
            if isinstance(effect, kernel.Send) and isinstance(effect.message, messages.Freeze):
                camps = _Camps.split(assignment, effect.message.survivors)
                freezes = self._freezes_for(effect.to, camps, effect.message)
                changed += [kernel.Send(effect.to, effect.place, freeze) for freeze in freezes]
            else:
                changed.append(effect)
        return tuple(changed)

    @abstractmethod
    def _freezes_for(
        self, party: PartyId, camps: _Camps, freeze: messages.Freeze
    ) -> tuple[messages.Freeze, ...]: ...


class ChangesSurvivors(_TwoFreezes):
    """Tells one half that a member survived and the other half that it dropped out.

    With t members in each half it would get the shares of that member's self-mask from one and those of its
    mask key from the other, and with them its update. The certificate stops it: both halves would have to
    sign the same statement.
    """

    def _freezes_for(
        self, party: PartyId, camps: _Camps, freeze: messages.Freeze
    ) -> tuple[messages.Freeze, ...]:
        return (camps.without_victim(freeze),) if party in camps.deceived else (freeze,)


class AsksBothShares(_TwoFreezes):
    """Asks everybody for both shares of one member: half for the one first, half for the other.

    A party answers the first question at most; the rest is as in ``ChangesSurvivors``.
    """

    def _freezes_for(
        self, party: PartyId, camps: _Camps, freeze: messages.Freeze
    ) -> tuple[messages.Freeze, ...]:
        other = camps.without_victim(freeze)
        return (other, freeze) if party in camps.deceived else (freeze, other)
