"""The in-process federation of the simulation tests, with misbehaving parties and servers in it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec
import numpy as np

from securefl.base.arrays import F32
from securefl.base.ids import SERVER, PartyId
from securefl.methods.attacks.assignment import party_names
from securefl.methods.encoding.ring import from_ring
from securefl.protocol.kernel.effects import Send
from securefl.protocol.kernel.events import Place, PresenceHint
from securefl.protocol.kernel.machine import Event, Machine
from securefl.protocol.messages.control import Here
from securefl.protocol.messages.union import AnyMessage
from securefl.protocol.round.shared.reports import RoundDone, SumOpened
from securefl.runtime.misbehaviour.assignment import party_behaviour, server_machine
from securefl.runtime.misbehaviour.seam import Action, Crash, EffectSeam, Presence, ResendLast, SendRaw
from securefl.scenario.behaviours import Behaviour
from securefl.scenario.parts import find
from securefl.scenario.scenario import Scenario
from tests.simulation.world import Node, World

ROUNDING = 2.0**-10
"""Later models are no multiples of the grid, so their updates are rounded; the smallest worth is 2^-4."""


def shown(kind: str, **fields: object) -> Behaviour:
    """A behaviour by the name of its kind, as a scenario file has it."""
    return msgspec.convert({"kind": kind, **fields}, find(Behaviour, kind))


class _Misbehaving:
    """A machine and its effect seam, as the shell applies it. A :class:`Lab` performs its faults."""

    def __init__(self, machine: Machine[Any, Event[AnyMessage], Action], seam: EffectSeam) -> None:
        self._machine = machine
        self._seam = seam

    def start(self, now: float) -> tuple[Any, tuple[Any, ...]]:
        return self._machine.start(now)

    def step(self, phase: Any, event: Event[AnyMessage]) -> tuple[Any, tuple[Any, ...]]:
        after, effects = self._machine.step(phase, event)
        return after, self._seam(event, phase, effects)


class Lab(World):
    """A world whose actors show behaviours. Party i's update is ``unit * 2^i`` in every coordinate."""

    def __init__(
        self,
        scenario: Scenario,
        cast: Mapping[str, tuple[Behaviour, ...]] | Mapping[PartyId, tuple[Behaviour, ...]],
        unit: float = 1 / 16,
        length: int = 4,
        initial: F32 | None = None,
        samples: Callable[[PartyId], int] = lambda _party: 10,
    ) -> None:
        names = party_names(scenario.parties)
        self.worth = {name: unit * 2.0**index for index, name in enumerate(names)}
        behaviours = {n: party_behaviour(cast[n], n) for n in names if n in cast}
        super().__init__(
            scenario,
            length=length,
            train=self._trained,
            samples=samples,
            initial=initial,
            seams={name: behaviour.seams for name, behaviour in behaviours.items()},
        )
        self.raw = 0
        self.hints: list[tuple[PartyId, bool]] = []
        self._recent: dict[PartyId, list[bytes]] = {}
        effects = {name: behaviour.effects for name, behaviour in behaviours.items()}
        if SERVER in cast:
            server = self.nodes[SERVER]
            server.machine = server_machine(server.machine, self.plan, cast[SERVER])
        for name, seam in effects.items():
            node = self.nodes[name]
            node.machine = _Misbehaving(node.machine, seam)

    def _trained(self, party: PartyId, _round: int, params: F32) -> F32:
        return params + np.float32(self.worth[party])

    def _perform(self, node: Node, effects: tuple[Action, ...]) -> None:
        for effect in effects:
            if not node.alive:
                return
            match effect:
                case Crash():
                    self._crash(node)
                case SendRaw():
                    self.raw += 1
                    self._schedule(0.001, effect.to, effect.payload)
                case ResendLast():
                    for frame in self._recent.get(node.name, [])[-effect.count :]:
                        self._schedule(0.001, SERVER, frame)
                case Presence():
                    self.hints.append((node.name, effect.present))
                    if effect.present:
                        self._send(node, Send(SERVER, Place(-1), Here(connection=1, kept=True)))
                    else:
                        self._schedule(0.001, SERVER, PresenceHint(self.now, node.name))
                case _:
                    super()._perform(node, (effect,))

    def _send(self, node: Node, effect: Send[AnyMessage]) -> None:
        before = len(self.frames)
        super()._send(node, effect)
        self._recent.setdefault(node.name, []).extend(self.frames[before:])

    def rounds_done(self) -> list[RoundDone]:
        """What the server reported of its rounds."""
        return [r for r in self.server.reports if isinstance(r, RoundDone)]

    def sums(self, round_: int) -> dict[tuple[PartyId, ...], float]:
        """Survivors of each opened sum of a round, with its value (all coordinates must agree)."""
        opened = [r.opened for r in self.server.reports if isinstance(r, SumOpened) and r.round == round_]
        values: dict[tuple[PartyId, ...], float] = {}
        for item in opened:
            decoded = from_ring(item.ring) / 2.0**self.scenario.encoding.scale_bits
            assert np.abs(decoded - decoded[0]).max() <= ROUNDING
            values[item.survivors] = float(decoded[0])
        return values

    def assert_sums_right(self, round_: int) -> None:
        """Every opened sum is the sum of its survivors' updates, and of nobody else's."""
        for survivors, value in self.sums(round_).items():
            assert abs(value - sum(self.worth[party] for party in survivors)) <= ROUNDING

    def refusals(self, node: str) -> list[str]:
        """Reasons of what a process refused."""
        return [reject.reason for reject in self.nodes[PartyId(node)].rejects]
