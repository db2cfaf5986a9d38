"""From an attack's table and what is known to the update that is sent."""

from __future__ import annotations

from securefl.base.arrays import F64
from securefl.base.entropy import Entropy
from securefl.base.errors import UsageError
from securefl.methods.attacks import (
    alie,
    fall_of_empires,
    gaussian,
    inner_product_manipulation,
    mimic,
    min_max,
    min_sum,
    model_negation,
    needed_rows,
    scaled,
)
from securefl.methods.attacks import local_model_poisoning as poisoning
from securefl.protocol.round import Occasion
from securefl.runtime.misbehaviour.knowledge import Insight
from securefl.scenario import (
    Alie,
    CoalitionAttack,
    FallOfEmpires,
    Gaussian,
    InformedAttack,
    InnerProductManipulation,
    LocalModelPoisoning,
    Mimic,
    MinMax,
    MinSum,
    ModelNegation,
    Scale,
    UpdateAttack,
)


def craft(
    attack: UpdateAttack, update: F64, occasion: Occasion, actors: int, entropy: Entropy, insight: Insight
) -> F64:
    """The update f64 ``(d,)`` that is sent instead of the trained one.

    Where too few mates trained for the attack to be defined, the trained one is sent.

    Args:
        attack: as :func:`securefl.methods.attacks.assignment.behaviours_of` writes it out.
        update: as trained, f64 ``(d,)``.
        occasion: of the update.
        actors: attackers that act in this round.
        entropy: the attacker's own, of this occasion.
        insight: what the coalition knows.
    """
    match attack:
        case Scale():
            return scaled(update, attack.factor)
        case Gaussian():
            return gaussian(update, attack.std, entropy, add=attack.add)
        case ModelNegation():
            return model_negation(occasion.before)
        case CoalitionAttack():
            knowledge = insight(attack, occasion)
            if len(knowledge) < (needed_rows(attack) if isinstance(attack, InformedAttack) else 1):
                return update
            if isinstance(attack, LocalModelPoisoning) and attack.against == "trimmed-mean":
                return _beyond(attack, knowledge.rows(), entropy)
            return knowledge.common(attack, lambda rows: _common(attack, rows, actors))
        case _:
            raise UsageError(f"there is no way to craft {attack.kind}")


def _beyond(attack: LocalModelPoisoning, known: F64, entropy: Entropy) -> F64:
    """The attack that every member draws for itself."""
    if attack.knowledge == "omniscient":
        return poisoning.against_trimmed_mean(known, entropy)
    return poisoning.against_trimmed_mean_by_estimate(known, entropy)


def _common(attack: CoalitionAttack, known: F64, actors: int) -> F64:
    """Those in which all members send the same."""
    match attack:
        case FallOfEmpires():
            sent = fall_of_empires(known, attack.factor)
        case InnerProductManipulation():
            sent = inner_product_manipulation(known, attack.epsilon)
        case Alie(z=float(z)):
            sent = alie(known, z)
        case Mimic():
            sent = mimic(known)
        case MinMax():
            sent = min_max(known, attack.direction)
        case MinSum():
            sent = min_sum(known, attack.direction)
        case LocalModelPoisoning(knowledge="omniscient"):
            sent = poisoning.against_krum(known, actors)
        case LocalModelPoisoning():
            sent = poisoning.against_krum_by_estimate(known, actors)
        case _:
            raise UsageError(f"there is no way to craft {attack.kind}")
    return sent
