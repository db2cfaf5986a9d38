"""Assignment of the scenario's behaviours to the seams of one actor."""

from __future__ import annotations

from dataclasses import dataclass

from securefl.base.arrays import I64, Inputs
from securefl.base.entropy import Entropy, OsEntropy
from securefl.base.errors import UsageError
from securefl.base.ids import PartyId
from securefl.methods.attacks import is_of_server
from securefl.protocol.round import Seams
from securefl.runtime.misbehaviour.knowledge import Insight, nobody_tells
from securefl.runtime.misbehaviour.nuisance import SendsGarbage, SendsReplays
from securefl.runtime.misbehaviour.seam import Chain, EffectSeam, acts
from securefl.runtime.misbehaviour.server_freeze import AsksBothShares, ChangesSurvivors
from securefl.runtime.misbehaviour.server_model import SplitsModel
from securefl.runtime.misbehaviour.server_reopen import ReopensAttempt
from securefl.runtime.misbehaviour.silence import DropsOut
from securefl.runtime.misbehaviour.update import seams_of
from securefl.scenario import Behaviour
from securefl.scenario import behaviours as kinds


@dataclass(frozen=True, slots=True)
class PartyBehaviour:
    """Deviations of one party; without behaviours, none."""

    behaviours: tuple[Behaviour, ...]
    seams: Seams
    """For the ``PartyContext``."""
    effects: EffectSeam
    """For the shell. It keeps state: one per process, applied after every step."""

    def poisons(self, round_: int) -> bool:
        """Whether the party trains on :meth:`data` in this round, and on its own data in the others."""
        return any(isinstance(b, kinds.DataAttack) and acts(b, round_) for b in self.behaviours)

    def declared(self, samples: int) -> int:
        """The sample count that the party declares, where it has so many."""
        lies = [b.samples for b in self.behaviours if isinstance(b, kinds.FalseCount)]
        return lies[0] if lies else samples

    def data(self, x: Inputs, y: I64, classes: int) -> tuple[Inputs, I64]:
        """Return what the party trains on when it poisons; unchanged for a party that never does.

        ``x`` is f32 (n, ...), ``y`` i64 (n,) in [0, classes); in a text both are i64 (n, length).
        """
        for behaviour in self.behaviours:
            if isinstance(behaviour, kinds.DataAttack):
                with behaviour.blamed():
                    return behaviour.poison(x, y, classes)
        return x, y


def party_behaviour(
    behaviours: tuple[Behaviour, ...],
    me: PartyId,
    own: Entropy | None = None,
    insight: Insight = nobody_tells,
) -> PartyBehaviour:
    """Return the behaviour of the party ``me``.

    DropsOut comes last: a party that has fallen silent sends no garbage either.

    Args:
        behaviours: as :func:`securefl.methods.attacks.assignment.behaviours_of` gives them.
        me: whose they are.
        own: the party's own entropy; None for the operating system's.
        insight: what its coalition knows.

    Raises:
        UsageError: one of them is the server's.
    """
    for behaviour in behaviours:
        if is_of_server(behaviour):
            raise UsageError(f"{behaviour.kind} is shown by the server, not by {me}")
    effects: list[EffectSeam] = [SendsGarbage(b, me) for b in behaviours if isinstance(b, kinds.Garbage)]
    effects += [SendsReplays(b) for b in behaviours if isinstance(b, kinds.Replay)]
    effects += [DropsOut(b) for b in behaviours if isinstance(b, kinds.Drop | kinds.Kill)]
    seams = seams_of(behaviours, me, own or OsEntropy(), insight)
    return PartyBehaviour(behaviours, seams, Chain(effects))


def server_behaviour(behaviours: tuple[Behaviour, ...]) -> EffectSeam:
    """Return the effect seam of the server; :mod:`.server_steering` has what it does to the machine itself.

    Raises:
        UsageError: one of them is a party's.
    """
    at_effects = (b for b in behaviours if not isinstance(b, kinds.IsolatingServer | kinds.ServerCraftsModel))
    return Chain([_server_seam(behaviour) for behaviour in at_effects])


def _server_seam(behaviour: Behaviour) -> EffectSeam:
    match behaviour:
        case kinds.ServerAsksBothShares():
            return AsksBothShares(behaviour)
        case kinds.ServerChangesSurvivors():
            return ChangesSurvivors(behaviour)
        case kinds.ServerSplitsModel():
            return SplitsModel(behaviour)
        case kinds.ServerReopensAttempt():
            return ReopensAttempt(behaviour)
        case _:
            raise UsageError(f"{behaviour.kind} is shown by parties, not by the server")
