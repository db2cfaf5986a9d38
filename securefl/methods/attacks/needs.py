"""What attacks need to make sense: of the numbers of parties and attackers, and of the data.

Arithmetic and refusals only; the attacks themselves are in :mod:`securefl.methods.attacks`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from fractions import Fraction
from statistics import NormalDist

from msgspec.structs import replace

from securefl.base.errors import ConfigError, UsageError
from securefl.scenario import (
    Alie,
    Backdoor,
    Behaviour,
    CoalitionAttack,
    InformedAttack,
    InnerProductManipulation,
    LabelShift,
    LocalModelPoisoning,
    Poisoning,
    Scale,
    UpdateAttack,
)

ONLY_IN_SIMULATIONS = "omniscient attackers exist only in simulate"


def alie_quantile(parties: int, attackers: int) -> Fraction:
    """Where ALIE's z lies in the standard normal distribution: (n - q - s) / (n - q), s = floor(n/2) + 1 - q.

    At most 1/2: so few attackers need honest parties on both sides of the mean, and no z > 0 hides. From 1
    on: the attackers are a majority by themselves, and any z does.

    Args:
        parties: n, attackers included.
        attackers: q.

    Source: Baruch, Baruch and Goldberg 2019 (arXiv 1902.06156), algorithm 3.
    """
    honest, supporters = parties - attackers, parties // 2 + 1 - attackers
    return Fraction(honest - supporters, honest) if honest else Fraction(1)


def alie_z(parties: int, attackers: int) -> float:
    """The largest z for which mean - z std still has a majority beyond it or with it, on average.

    With s = floor(n / 2) + 1 - q honest parties that have to lie further out than the attackers, z is the
    quantile of the standard normal distribution at (n - q - s) / (n - q). Clusters are not in it: it is for
    a server that sees every update.

    Raises:
        UsageError: there is no such z > 0; :func:`check_attack` refuses the scenario first.

    Source: as :func:`alie_quantile`. For n = 50 and q = 24: s = 2, the quantile at 24 / 26, z = 1.43.
    """
    quantile = alie_quantile(parties, attackers)
    if not Fraction(1, 2) < quantile < 1:
        raise UsageError(f"no z > 0 hides {attackers} of {parties} parties")
    return NormalDist().inv_cdf(float(quantile))


def first_round(behaviour: Poisoning, rounds: int) -> int:
    """The first round in which an attack that is honest at first may act, of ``rounds`` in all."""
    return math.ceil(behaviour.honest_until * rounds)


def is_omniscient(behaviour: Behaviour) -> bool:
    """Whether it knows what honest parties trained."""
    return isinstance(behaviour, InformedAttack) and behaviour.knowledge == "omniscient"


def check_attack(attack: Poisoning, path: str, parties: int) -> None:
    """Refuse an attack that would do nothing, or that its coalition is too small for.

    Args:
        attack: with ``parties`` or ``count``.
        path: of its table.
        parties: of the scenario, n.

    Raises:
        ConfigError: naming a field of the table.
    """
    size = len(attack.parties) or attack.count
    if isinstance(attack, Scale) and attack.factor == 1:
        raise ConfigError(f"{path}.factor", "1 leaves the update as it is", "as in factor = -1")
    if isinstance(attack, LabelShift) and attack.shift == 0:
        raise ConfigError(f"{path}.shift", "0 leaves every label as it is", "as in shift = 1")
    if isinstance(attack, UpdateAttack):
        _check_actors(attack, path, size)
    if isinstance(attack, InformedAttack) and attack.knowledge == "coalition" and size < needed_rows(attack):
        raise ConfigError(
            f"{path}.count",
            f"{attack.kind} is made of {needed_rows(attack)} known updates or more, the coalition has {size}",
            f'count = {needed_rows(attack)} or more, or knowledge = "omniscient" in simulations',
        )
    if isinstance(attack, Alie) and attack.z is None:
        _check_z(f"{path}.z", parties, size)


def needed_rows(attack: InformedAttack) -> int:
    """Known updates without which the attack would send what an honest party sends, or is not defined."""
    match attack:
        case InnerProductManipulation():
            return 1
        case LocalModelPoisoning(against="krum"):
            return 3
        case _:
            return 2


def _check_actors(attack: UpdateAttack, path: str, size: int) -> None:
    if attack.actors is None:
        if attack.placement != "spread":
            raise ConfigError(
                f"{path}.placement", "all attackers act, so there is nothing to choose", "give actors"
            )
    elif attack.actors > size:
        raise ConfigError(
            f"{path}.actors", f"{attack.actors} of {size} attackers cannot act", f"{size} at most"
        )


def _check_z(path: str, parties: int, attackers: int) -> None:
    quantile = alie_quantile(parties, attackers)
    needed = parties // 2 + 1 - attackers
    if quantile >= 1:
        reason = f"{attackers} of {parties} parties are a majority by themselves, and any z hides"
        raise ConfigError(path, reason, "give z, as in z = 1.5")
    if quantile <= Fraction(1, 2):
        raise ConfigError(
            path,
            f"{attackers} of {parties} parties are too few: {needed} of the {parties - attackers} honest ones"
            " would have to lie further out, which is not the smaller half",
            "more attackers, or give z, as in z = 0.3",
        )


def backdoor_of(behaviours: Sequence[Behaviour]) -> Backdoor | None:
    """The backdoor whose success is measured; several tables have the same patch and target."""
    return next((b for b in behaviours if isinstance(b, Backdoor)), None)


def differing_backdoors(behaviours: Sequence[Behaviour]) -> Iterator[str]:
    """Yield the paths of backdoors whose patch or target is not that of the first one."""
    first = backdoor_of(behaviours)
    for index, behaviour in enumerate(behaviours):
        if isinstance(behaviour, Backdoor) and first is not None:
            for field in ("target", "size"):
                if getattr(behaviour, field) != getattr(first, field):
                    yield f"behaviours.{index}.{field}"


def check_on_data(behaviours: Sequence[Behaviour], classes: int, shape: tuple[int, ...]) -> None:
    """Refuse attacks on labels and images that this data set does not have.

    Args:
        behaviours: of the scenario.
        classes: of the data set.
        shape: of one sample; images have (channels, height, width).

    Raises:
        ConfigError: naming ``behaviours.<index>.<field>``.
    """
    for index, behaviour in enumerate(behaviours):
        path = f"behaviours.{index}"
        if isinstance(behaviour, LabelShift) and behaviour.shift % classes == 0:
            reason = f"{behaviour.shift} leaves every one of {classes} labels as it is"
            raise ConfigError(f"{path}.shift", reason, "as in shift = 1")
        if not isinstance(behaviour, Backdoor):
            continue
        if len(shape) < 2:
            reason = f"a backdoor is a patch on images, and samples have shape {shape}"
            raise ConfigError(f"{path}.kind", reason, "another attack, or a data set of images")
        if behaviour.size > min(shape[-2:]):
            reason = f"a patch of {behaviour.size} pixels is larger than images of {shape[-2]} x {shape[-1]}"
            raise ConfigError(f"{path}.size", reason, f"{min(shape[-2:])} at most")
        if behaviour.target >= classes:
            reason = f"there is no class {behaviour.target}"
            raise ConfigError(f"{path}.target", reason, f"they are 0 to {classes - 1}")


def check_runnable(behaviours: Sequence[Behaviour]) -> None:
    """Refuse what no real attacker can do.

    Raises:
        ConfigError: an omniscient attack.
    """
    for index, behaviour in enumerate(behaviours):
        if is_omniscient(behaviour):
            raise ConfigError(
                f"behaviours.{index}.knowledge", ONLY_IN_SIMULATIONS, 'knowledge = "coalition", or simulate'
            )


def shares_updates(behaviour: Behaviour) -> bool:
    """Whether those who show it have to tell each other what they trained."""
    return isinstance(behaviour, CoalitionAttack)


def same_poison(first: Poisoning, second: Poisoning) -> bool:
    """Whether two tables do the same, whoever shows them and when."""
    return _bare(first) == _bare(second)


def _bare(attack: Poisoning) -> Poisoning:
    return replace(attack, parties=(), count=0, rounds=(), honest_until=0.0)
