"""What simulated coalitions know of each other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from securefl.base.arrays import F32, F64
from securefl.base.entropy import Entropy, InsecureSeededEntropy
from securefl.base.ids import PartyId
from securefl.methods.attacks.parts.alie import ALIE
from securefl.methods.attacks.parts.fall_of_empires import FallOfEmpires
from securefl.methods.attacks.parts.label_flip import LabelFlip
from securefl.protocol.round.party.upload import UpdateId
from securefl.runtime.misbehaviour.knowledge import tellers
from securefl.runtime.simulation.federation import SimulatedCoalition
from securefl.runtime.simulation.trainers import Trainings, one_by_one
from securefl.scenario.behaviours import Behaviour, Drop, Phase
from securefl.training.rounds import Trainer
from securefl.training.sgd.outcomes import TrainingDivergedError

NAMES = tuple(PartyId(f"p{index:02d}") for index in range(8))
MATES = ("p00", "p01", "p02", "p03")
CLUSTERS = ((NAMES[:4], NAMES[4:7]),)
"""p07 sits the round out."""
ROOT = InsecureSeededEntropy(1)


def occasion(round_: int = 0, work: int = 0) -> UpdateId:
    return UpdateId(round_, work, np.ones(3, dtype=np.float32), CLUSTERS)


class Asked:
    """Counts who trains; party i moves by i + 10 * round, p01 fails in round 1."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, int]] = []

    def of(self, name: PartyId, index: int) -> Trainer:
        def train(
            round_: int, params: F32, _carry: F64 | None, _entropy: Entropy, _samples: int | None
        ) -> F64:
            self.calls.append((name, round_))
            if (name, round_) == ("p01", 1):
                raise TrainingDivergedError("no")
            return np.full(params.size, float(index + 10 * round_))

        return train


def connected(cast: Mapping[PartyId, Sequence[Behaviour]]) -> tuple[SimulatedCoalition, Asked]:
    asked, coalition = Asked(), SimulatedCoalition(cast)
    crew = {name: asked.of(name, index) for index, name in enumerate(NAMES)}
    coalition.connect(Trainings(one_by_one([crew], ROOT), coalition.asks))
    return coalition, asked


FALL = FallOfEmpires(parties=MATES)
COALITION: dict[PartyId, tuple[Behaviour, ...]] = {PartyId(name): (FALL,) for name in MATES}


def test_a_coalition_knows_what_its_members_trained_and_has_them_train_once() -> None:
    coalition, asked = connected(COALITION)
    known = coalition.insight(FALL, occasion())
    assert known.rows().tolist() == [[i, i, i] for i in range(4)]
    assert coalition.insight(FALL, occasion()) is known
    assert asked.calls == [(name, 0) for name in MATES]
    assert coalition.insight(FALL, occasion(2)).rows()[:, 0].tolist() == [20, 21, 22, 23]


def test_whoever_fails_tells_nothing() -> None:
    coalition, _ = connected(COALITION)
    assert coalition.insight(FALL, occasion(1)).rows()[:, 0].tolist() == [10, 12, 13]


def test_who_tells() -> None:
    phases: tuple[Phase, ...] = (
        "before-keys",
        "after-keys",
        "after-shares",
        "after-masked-input",
        "after-freeze",
    )
    for phase in phases:
        cast = {**COALITION, PartyId("p02"): (FALL, Drop(phase=phase, rounds=(1,)))}
        assert tellers(FALL, cast, occasion()) == MATES
        counted = phase in {"after-masked-input", "after-freeze"}
        assert ("p02" in tellers(FALL, cast, occasion(1))) == counted


def test_an_omniscient_coalition_knows_all_honest_parties_of_the_round() -> None:
    attack = ALIE(parties=MATES[:2], z=1.0, knowledge="omniscient")
    cast: dict[PartyId, tuple[Behaviour, ...]] = {PartyId(name): (attack,) for name in attack.parties}
    cast[NAMES[4]] = (LabelFlip(parties=("p04",)),)
    cast[NAMES[5]] = (Drop(phase="after-keys"),)
    coalition, _ = connected(cast)
    assert tellers(attack, cast, occasion()) == ("p02", "p03", "p06")
    assert coalition.insight(attack, occasion()).rows()[:, 0].tolist() == [2, 3, 6]
    assert all(coalition.asks(name) for name in NAMES)


def test_those_outside_a_coalition_are_not_asked() -> None:
    coalition, _ = connected({**COALITION, NAMES[5]: (LabelFlip(parties=("p05",)),)})
    assert [name for name in NAMES if coalition.asks(name)] == list(MATES)
