"""Limits of simulations, which send no messages."""

from collections.abc import Iterator

import msgspec

from securefl.base import header
from securefl.base.errors import ConfigError
from securefl.methods import attacks
from securefl.scenario import Scenario

SIMULATED = "the server of a run would see the same cluster sums"

_UNHEARD = frozenset({"garbage", "replay"})
"""Behaviours that change no sum: the server rejects their messages."""


def check_simulable(scenario: Scenario) -> None:
    """Refuse scenarios that need messages.

    Raises:
        ConfigError: a behaviour of the server, a claim on rejections that do not happen here, or validated
            sums.
    """
    if scenario.secure_sum.validated is not None:
        raise ConfigError(
            "secure_sum.validate", "is not simulated: members check updates by messages", "use securefl run"
        )
    for index, behaviour in enumerate(scenario.behaviours):
        if attacks.is_of_server(behaviour):
            raise ConfigError(
                f"behaviours.{index}.kind",
                f"{behaviour.kind} needs messages, which a simulation does not send",
                "use securefl run",
            )
    unheard = sorted({b.kind for b in scenario.behaviours if b.kind in _UNHEARD})
    for index, claim in enumerate(scenario.expect):
        if unheard and claim.metric == "refusals":
            reason = f"refusals of {' and '.join(unheard)} need messages, which a simulation does not send"
            raise ConfigError(f"expect.{index}.metric", reason, "use securefl run")


def without_messages(scenario: Scenario) -> Scenario:
    """Return the scenario without behaviours of the server and expectations."""
    heard = tuple(behaviour for behaviour in scenario.behaviours if not attacks.is_of_server(behaviour))
    return msgspec.structs.replace(scenario, behaviours=heard, expect=())


def notes(scenario: Scenario) -> Iterator[header.Sentence]:
    """Yield the sentences of a simulation beyond those of a run."""
    yield header.run("simulation", f"no message is sent, nothing is masked; {SIMULATED}")
    yield header.tolerance(more="no party is late: only silent parties miss deadlines")
    unheard = sorted({b.kind for b in scenario.behaviours if b.kind in _UNHEARD})
    if unheard:
        shown = f"NOT SIMULATED: {', '.join(unheard)}"
        yield header.faults(shown, "they change no sum; 'securefl run' shows that the server rejects them")
    if scenario.observer:
        yield header.run(more="an observer has no frames to observe; run has them")
