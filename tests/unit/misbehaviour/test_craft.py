"""From tables to what is sent: the update seam of every attack."""

from __future__ import annotations

import numpy as np
import pytest

from securefl.base.arrays import F64
from securefl.base.entropy import InsecureSeededEntropy
from securefl.base.errors import UsageError
from securefl.base.ids import PartyId
from securefl.methods.attacks.parts import local_model_poisoning as poisoning
from securefl.methods.attacks.parts.alie import ALIE, alie
from securefl.methods.attacks.parts.backdoor import Backdoor
from securefl.methods.attacks.parts.fall_of_empires import FallOfEmpires
from securefl.methods.attacks.parts.gaussian import Gaussian
from securefl.methods.attacks.parts.inner_product_manipulation import InnerProductManipulation
from securefl.methods.attacks.parts.label_shift import LabelShift
from securefl.methods.attacks.parts.local_model_poisoning import LocalModelPoisoning
from securefl.methods.attacks.parts.mimic import Mimic, mimic
from securefl.methods.attacks.parts.min_max import MinMax, min_max
from securefl.methods.attacks.parts.min_sum import MinSum, min_sum
from securefl.methods.attacks.parts.model_negation import ModelNegation
from securefl.methods.attacks.parts.scale import Scale
from securefl.protocol.round.party.upload import UpdateId
from securefl.runtime.misbehaviour.assignment import party_behaviour
from securefl.runtime.misbehaviour.knowledge import Knowledge
from securefl.scenario.behaviours import Behaviour, CoalitionAttack, UpdateAttack
from securefl.scenario.parts import find, names
from tests.looped import looped
from tests.unit.misbehaviour.attacks.rows import honest

NAMES = tuple(PartyId(f"p{index:02d}") for index in range(6))
MATES = ("p00", "p02", "p04")
ROWS = honest(6, 5, seed=12)
UPDATES = dict(zip(NAMES, ROWS, strict=True))
CLUSTERS = ((NAMES[:3], NAMES[3:]),)
OWN = InsecureSeededEntropy(3).child("party", "p02")


def occasion(round_: int = 0, work: int = 0) -> UpdateId:
    return UpdateId(round_, work, np.linspace(-1, 1, 5, dtype=np.float32), CLUSTERS)


def insight(attack: CoalitionAttack, _occasion: UpdateId) -> Knowledge:
    if getattr(attack, "knowledge", "coalition") == "omniscient":
        return Knowledge({name: UPDATES[name] for name in NAMES if name not in attack.parties})
    return Knowledge({PartyId(name): UPDATES[PartyId(name)] for name in attack.parties})


def sent(attack: Behaviour, me: str = "p02", at: UpdateId | None = None) -> F64:
    seams = party_behaviour((attack,), PartyId(me), OWN, insight).seams
    return seams.update(UPDATES[PartyId(me)], at or occasion())


KNOWN = ROWS[[0, 2, 4]]
HONEST = ROWS[[1, 3, 5]]


@looped(
    "attack, expected",
    [
        (Scale(parties=MATES, factor=-10.0), -10 * ROWS[2]),
        (ModelNegation(parties=MATES), -2 * occasion().parameters.astype(np.float64)),
        (FallOfEmpires(parties=MATES, factor=-10.0), -10 * KNOWN.mean(axis=0)),
        (InnerProductManipulation(parties=MATES, epsilon=0.5), -0.5 * KNOWN.mean(axis=0)),
        (
            InnerProductManipulation(parties=MATES, epsilon=0.5, knowledge="omniscient"),
            -0.5 * HONEST.mean(axis=0),
        ),
        (ALIE(parties=MATES, z=0.7), alie(KNOWN, 0.7)),
        (ALIE(parties=MATES, z=0.7, knowledge="omniscient"), alie(HONEST, 0.7)),
        (Mimic(parties=MATES), mimic(KNOWN)),
        (MinMax(parties=MATES, direction="sign"), min_max(KNOWN, "sign")),
        (MinSum(parties=MATES, direction="unit"), min_sum(KNOWN, "unit")),
        (
            LocalModelPoisoning(parties=MATES, against="krum"),
            poisoning.against_krum_by_estimate(KNOWN, 3),
        ),
        (
            LocalModelPoisoning(parties=MATES, against="krum", knowledge="omniscient"),
            poisoning.against_krum(HONEST, 3),
        ),
    ],
)
def test_what_each_attack_sends(attack: Behaviour, expected: F64) -> None:
    assert np.allclose(sent(attack), expected, rtol=1e-12)


@pytest.mark.parametrize(
    "attack",
    [
        Gaussian(parties=MATES, std=2.0),
        Gaussian(parties=MATES, std=2.0, add=True),
        LocalModelPoisoning(parties=MATES),
        LocalModelPoisoning(parties=MATES, knowledge="omniscient"),
    ],
)
def test_what_is_drawn_is_drawn_anew_for_each_occasion(attack: Behaviour) -> None:
    first = sent(attack)
    assert np.array_equal(first, sent(attack))
    assert not np.array_equal(first, sent(attack, at=occasion(1)))
    assert not np.array_equal(first, sent(attack, at=occasion(0, 1)))


def test_poisoning_by_estimate_and_with_full_knowledge_differ() -> None:
    attack = LocalModelPoisoning(parties=MATES, knowledge="omniscient")
    full, mean = sent(attack), HONEST.mean(axis=0)
    beyond = np.where(mean < 0, full >= HONEST.max(axis=0), full <= HONEST.min(axis=0))
    assert beyond.all()


@pytest.mark.parametrize("rows", [0, 1, 2])
def test_with_too_few_mates_the_trained_update_is_sent(rows: int) -> None:
    known = Knowledge({name: UPDATES[name] for name in NAMES[:rows]})
    attack = LocalModelPoisoning(parties=MATES, against="krum")
    seams = party_behaviour((attack,), PartyId("p02"), OWN, lambda _a, _o: known).seams
    assert np.array_equal(seams.update(ROWS[2], occasion()), ROWS[2])


def test_only_the_chosen_actors_act() -> None:
    """p00 and p02 are in one cluster, p04 in the other."""

    def acting(**placement: object) -> set[str]:
        attack = Scale(parties=MATES, actors=2, **placement)  # type: ignore[arg-type] # fields by name
        return {me for me in MATES if not np.array_equal(sent(attack, me), UPDATES[PartyId(me)])}

    assert acting(placement="concentrate") == {"p00", "p02"}
    together = acting(placement="spread")
    assert len(together) == 2
    assert "p04" in together


def test_attacks_act_in_their_rounds_only() -> None:
    attack = FallOfEmpires(parties=MATES, rounds=(2,))
    assert np.array_equal(sent(attack), ROWS[2])
    assert not np.array_equal(sent(attack, at=occasion(2)), ROWS[2])


def test_all_members_send_the_same_and_it_is_computed_once() -> None:
    attack = MinMax(parties=MATES)
    known = insight(attack, occasion())
    made = [
        party_behaviour((attack,), PartyId(me), OWN, lambda _a, _o: known).seams.update(
            UPDATES[PartyId(me)], occasion()
        )
        for me in MATES
    ]
    assert made[0] is made[1] is made[2]


def test_without_a_channel_a_coalition_is_a_bug() -> None:
    attack: UpdateAttack = FallOfEmpires(parties=MATES)
    with pytest.raises(UsageError, match="cannot run fall-of-empires"):
        party_behaviour((attack,), PartyId("p00")).seams.update(ROWS[0], occasion())


def test_every_kind_of_attack_on_updates_can_be_crafted() -> None:
    """A new one is here as soon as its file is."""
    every = [find(Behaviour, name) for name in names(Behaviour)]
    for kind in (one for one in every if issubclass(one, UpdateAttack)):
        attack = kind(parties=MATES).settle(7, 2)
        assert np.isfinite(sent(attack)).all()


def test_data_attacks_poison_labels_and_images() -> None:
    x, y = np.zeros((4, 1, 4, 4), dtype=np.float32), np.array([0, 1, 8, 9], dtype=np.int64)
    x[0, 0, 0, 0] = 2.0
    shifted = party_behaviour((LabelShift(parties=("p00",), shift=3),), NAMES[0])
    assert shifted.data(x, y, 10)[1].tolist() == [3, 4, 1, 2]
    hidden = party_behaviour((Backdoor(parties=("p00",), target=5, fraction=0.5, size=1),), NAMES[0])
    images, labels = hidden.data(x, y, 10)
    assert (labels == 5).sum() == 2
    assert ((images[:, 0, 3, 3] == 2.0) == (labels == 5)).all()
    assert hidden.poisons(0)
