"""Requirements of attacks: on the numbers of parties and attackers, and on the data.

Arithmetic and refusals only; the attacks themselves are in :mod:`securefl.methods.attacks`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from msgspec.structs import replace

from securefl import scenario
from securefl.base.errors import ConfigError

if TYPE_CHECKING:
    from securefl.base.arrays import I64, Inputs

ONLY_IN_SIMULATIONS = "omniscient attackers exist only in simulate"


def first_round(behaviour: scenario.Poisoning, rounds: int) -> int:
    """The first round in which an attack that is honest at first may act, of ``rounds`` in all."""
    return math.ceil(behaviour.honest_until * rounds)


def is_omniscient(behaviour: scenario.Behaviour) -> bool:
    """Whether it knows what honest parties trained."""
    return isinstance(behaviour, scenario.InformedAttack) and behaviour.knowledge == "omniscient"


def backdoor_of(behaviours: Sequence[scenario.Behaviour]) -> scenario.DataAttack | None:
    """The backdoor whose success is measured; several tables have the same trigger."""
    return next((b for b in behaviours if isinstance(b, scenario.DataAttack) and b.trigger), None)


def trigger_of(
    behaviours: Sequence[scenario.Behaviour],
) -> Callable[[Inputs, I64], tuple[Inputs, I64]] | None:
    """The trigger of the scenario's backdoor for test samples, None if it has none."""
    backdoor = backdoor_of(behaviours)
    return None if backdoor is None else backdoor.triggered


def differing_backdoors(behaviours: Sequence[scenario.Behaviour]) -> Iterator[str]:
    """Yield the paths of backdoors whose trigger is not that of the first one."""
    first = backdoor_of(behaviours)
    for index, behaviour in enumerate(behaviours):
        if first is None or not isinstance(behaviour, scenario.DataAttack) or not behaviour.trigger:
            continue
        if type(behaviour) is not type(first):
            yield f"behaviours.{index}.kind"
            continue
        for field in first.trigger:
            if getattr(behaviour, field) != getattr(first, field):
                yield f"behaviours.{index}.{field}"


def check_on_data(behaviours: Sequence[scenario.Behaviour], classes: int, shape: tuple[int, ...]) -> None:
    """Refuse attacks on labels and images that this data set does not have.

    Args:
        behaviours: of the scenario.
        classes: of the data set.
        shape: of one sample; images have (channels, height, width).

    Raises:
        ConfigError: naming ``behaviours.<index>.<field>``.
    """
    for index, behaviour in enumerate(behaviours):
        if isinstance(behaviour, scenario.DataAttack):
            behaviour.check_on_data(f"behaviours.{index}", classes, shape)


def check_runnable(behaviours: Sequence[scenario.Behaviour]) -> None:
    """Refuse what no real attacker can do.

    Raises:
        ConfigError: an omniscient attack.
    """
    for index, behaviour in enumerate(behaviours):
        if is_omniscient(behaviour):
            raise ConfigError(
                f"behaviours.{index}.knowledge", ONLY_IN_SIMULATIONS, 'knowledge = "coalition", or simulate'
            )


def shares_updates(behaviour: scenario.Behaviour) -> bool:
    """Whether those who show it have to tell each other what they trained."""
    return isinstance(behaviour, scenario.CoalitionAttack)


def same_poison(first: scenario.Poisoning, second: scenario.Poisoning) -> bool:
    """Whether two tables do the same, whoever shows them and when."""
    return _bare(first) == _bare(second)


def _bare(attack: scenario.Poisoning) -> scenario.Poisoning:
    return replace(attack, parties=(), count=0, rounds=(), honest_until=0.0)
