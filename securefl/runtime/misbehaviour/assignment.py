"""Assignment of behaviours to an actor's seams."""

from dataclasses import dataclass
from typing import Any

from securefl import scenario
from securefl.base import entropy
from securefl.base.arrays import I64, Inputs
from securefl.base.errors import UsageError
from securefl.base.ids import PartyId
from securefl.methods import attacks
from securefl.protocol import kernel, messages
from securefl.protocol.round import RunEffect, RunPlan, Seams
from securefl.runtime.misbehaviour import knowledge, nuisance, seam
from securefl.runtime.misbehaviour.silence import DropsOut
from securefl.runtime.misbehaviour.update import seams_of
from securefl.scenario import behaviours as kinds

_ServerLike = kernel.Machine[Any, kernel.Event[messages.AnyMessage], RunEffect]


@dataclass(frozen=True, slots=True)
class PartyBehaviour:
    """Deviations of one party."""

    behaviours: tuple[scenario.Behaviour, ...]
    seams: Seams
    effects: seam.EffectSeam
    """Seam for the shell, with state: one per process."""

    def poisons(self, round_: int) -> bool:
        """Return True if the party trains on :meth:`data` in this round instead of its own data."""
        return any(isinstance(b, kinds.DataAttack) and b.acts(round_) for b in self.behaviours)

    def declared_samples(self, samples: int) -> int:
        """Return the sample count that the party declares."""
        lies = [b.samples for b in self.behaviours if isinstance(b, kinds.FalseCount)]
        return lies[0] if lies else samples

    def data(self, x: Inputs, y: I64, classes: int) -> tuple[Inputs, I64]:
        """Return the poisoned training data; unchanged for a party that never poisons.

        ``x`` is f32 (n, ...), ``y`` i64 (n,) in [0, classes); for text both are i64 (n, length).
        """
        for behaviour in self.behaviours:
            if isinstance(behaviour, kinds.DataAttack):
                with behaviour.blame_part():
                    return behaviour.poison(x, y, classes)
        return x, y


def party_behaviour(
    behaviours: tuple[scenario.Behaviour, ...],
    me: PartyId,
    own: entropy.Entropy | None = None,
    insight: knowledge.Insight = knowledge.nobody_tells,
) -> PartyBehaviour:
    """Return the behaviour of the party ``me``.

    Dropouts come last: a silent party sends no garbage either. ``own`` is its entropy, None for the operating
    system's; ``insight`` the source of its coalition's knowledge.

    Raises:
        UsageError: one of the behaviours is the server's.
    """
    for behaviour in behaviours:
        if attacks.is_of_server(behaviour):
            raise UsageError(
                f"cannot assign {behaviour.kind} to party {me}: only the server shows it; assign it to server"
            )
    effects: list[seam.EffectSeam] = [
        nuisance.SendsGarbage(b, me) for b in behaviours if isinstance(b, kinds.Garbage)
    ]
    effects += [nuisance.SendsReplays(b) for b in behaviours if isinstance(b, kinds.Replay)]
    effects += [DropsOut(b) for b in behaviours if isinstance(b, kinds.Drop | kinds.Kill)]
    seams = seams_of(behaviours, me, own or entropy.OsEntropy(), insight)
    return PartyBehaviour(behaviours, seams, seam.Chain(effects))


def server_machine(
    honest: _ServerLike, plan: RunPlan, behaviours: tuple[scenario.Behaviour, ...]
) -> _ServerLike:
    """Return the server's machine wrapped in its behaviours, the first one innermost.

    Raises:
        UsageError: one of the behaviours is a party's.
    """
    machine = honest
    for behaviour in behaviours:
        if not isinstance(behaviour, scenario.ServerBehaviour):
            raise UsageError(
                f"cannot assign {behaviour.kind} to the server: only parties show it; assign it to one"
            )
        machine = behaviour.around(machine, plan)
    return machine
