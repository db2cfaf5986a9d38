"""From the scenario's behaviours of the server to its effect seam."""

from __future__ import annotations

from securefl.behaviours.seam import Chain, EffectSeam
from securefl.behaviours.server_freeze import AsksBothShares, ChangesSurvivors
from securefl.behaviours.server_model import SplitsModel
from securefl.behaviours.server_reopen import ReopensAttempt
from securefl.config.scenario import Behaviour
from securefl.errors import UsageError


def server_behaviour(behaviours: tuple[Behaviour, ...]) -> EffectSeam:
    """Return the effect seam of the server.

    Raises:
        UsageError: one of them is a party's.
    """
    return Chain([_server_seam(behaviour) for behaviour in behaviours])


def _server_seam(behaviour: Behaviour) -> EffectSeam:
    match behaviour.kind:
        case "server-asks-both-shares":
            return AsksBothShares(behaviour)
        case "server-changes-survivors":
            return ChangesSurvivors(behaviour)
        case "server-splits-model":
            return SplitsModel(behaviour)
        case "server-reopens-attempt":
            return ReopensAttempt(behaviour)
        case kind:
            raise UsageError(f"{kind} is shown by parties, not by the server")
