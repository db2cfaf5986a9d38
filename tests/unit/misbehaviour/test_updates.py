"""Data, update, clip and release seams: what a lying party puts into the sum."""

from __future__ import annotations

import numpy as np
import pytest

from lying import SplitsModel
from securefl.base.arrays import F32, F64
from securefl.base.entropy import Entropy
from securefl.base.errors import RunAbortedError, UsageError
from securefl.base.ids import PartyId
from securefl.methods.attacks.parts.label_flip import LabelFlip
from securefl.methods.attacks.parts.scale import Scale
from securefl.protocol.round.party.upload import HONEST
from securefl.runtime.misbehaviour.assignment import party_behaviour, server_machine
from securefl.scenario.behaviours import Drop, Garbage, NoClip, UpdateAttack, WrongShare
from tests.simulation.world import scenario
from tests.unit.misbehaviour.lab import ROUNDING, Lab

ME = PartyId("p00")


def test_label_flip_turns_labels_round() -> None:
    x, y = np.ones((4, 2), dtype=np.float32), np.array([0, 1, 8, 9], dtype=np.int64)
    behaviour = party_behaviour((LabelFlip(parties=("p00",), rounds=(1,)),), ME)
    same, flipped = behaviour.data(x, y, 10)
    assert same is x
    assert flipped.tolist() == [9, 8, 1, 0]
    assert flipped.dtype == np.int64
    assert y.tolist() == [0, 1, 8, 9]
    assert [behaviour.poisons(r) for r in range(3)] == [False, True, False]


def test_without_behaviours_a_party_is_honest() -> None:
    behaviour = party_behaviour((), ME)
    y = np.array([0, 1], dtype=np.int64)
    assert behaviour.seams == HONEST
    assert behaviour.data(np.ones((2, 1), dtype=np.float32), y, 2)[1] is y
    assert not behaviour.poisons(0)


@pytest.mark.parametrize("factor", [-1.0, -10.0, 0.5])
def test_scale_scales_its_part_of_the_opened_sum(factor: float) -> None:
    lab = Lab(scenario(6), {"p02": (Scale(parties=("p02",), factor=factor),)})
    lab.run()
    (wrong,) = [s for s in lab.sums(0).items() if "p02" in s[0]]
    (right,) = [s for s in lab.sums(0).items() if "p02" not in s[0]]
    assert right[1] == sum(lab.worth[p] for p in right[0])
    assert wrong[1] == sum(lab.worth[p] for p in wrong[0]) + (factor - 1) * lab.worth[PartyId("p02")]


def test_scale_acts_in_its_rounds_only() -> None:
    lying = Scale(parties=("p02",), factor=3, rounds=(1,))
    lab = Lab(scenario(6, rounds="3"), {"p02": (lying,)}).run()
    assert isinstance(lab, Lab)
    lab.assert_sums_right(0)
    lab.assert_sums_right(2)
    (wrong,) = [s for s in lab.sums(1).items() if "p02" in s[0]]
    assert wrong[1] - sum(lab.worth[p] for p in wrong[0]) == pytest.approx(0.5, abs=ROUNDING)


def test_no_clip_leaves_out_the_clip() -> None:
    clipped = scenario(3, encoding__clip="0.01")
    honest = Lab(clipped, {})
    honest.run()
    (all_clipped,) = honest.sums(0).values()
    assert all_clipped == pytest.approx(3 * 0.01 / 2, abs=ROUNDING)  # norm 0.01 over 4 equal coordinates
    lab = Lab(clipped, {"p02": (NoClip(parties=("p02",)),)})
    lab.run()
    (value,) = lab.sums(0).values()
    assert value == pytest.approx(2 * 0.01 / 2 + lab.worth[PartyId("p02")], abs=ROUNDING)
    later = Lab(clipped, {"p02": (NoClip(parties=("p02",), rounds=(1,)),)})
    later.run()
    assert later.sums(0) == honest.sums(0)


@pytest.mark.parametrize("reclusterings", ["1", "2"])
def test_wrong_shares_are_named_with_their_culprit(reclusterings: str) -> None:
    lying = WrongShare(parties=("p01",), rounds=(0,))
    lab = Lab(scenario(6, reclusterings=reclusterings, rounds="2"), {"p01": (lying,)})
    lab.run()
    refused = lab.server.rejects
    assert len(refused) == int(reclusterings)
    assert {r.culprit for r in refused} == {"p01"}
    assert all("released a wrong seed share" in r.reason for r in refused)
    assert [len(done.survivors) for done in lab.rounds_done()] == [6, 6]
    for round_ in range(2):
        assert len(lab.sums(round_)) >= 2
        lab.assert_sums_right(round_)


def test_wrong_shares_of_a_dropped_members_key_are_refused_too() -> None:
    cast = {
        "p00": (Drop(parties=("p00",), phase="after-shares"),),
        "p01": (WrongShare(parties=("p01",)),),
    }
    lab = Lab(scenario(4, size="4"), cast)
    lab.run()
    assert [r.culprit for r in lab.server.rejects] == ["p01"]
    (survivors,) = lab.sums(0)
    assert survivors == ("p01", "p02", "p03")
    lab.assert_sums_right(0)


def test_too_many_wrong_shares_lose_the_sum_and_open_nothing() -> None:
    lying = {name: (WrongShare(parties=(name,)),) for name in ("p00", "p01")}
    lab = Lab(scenario(3), lying)
    lab.run()
    assert lab.sums(0) == {}
    assert {r.culprit for r in lab.server.rejects} == {"p00", "p01"}
    assert lab.rounds_done()[0].lost == ((0, 0),)


def test_an_actor_shows_only_what_is_its_own() -> None:
    lab = Lab(scenario(3), {})
    with pytest.raises(UsageError, match="only the server shows it"):
        party_behaviour((SplitsModel(),), ME)
    with pytest.raises(UsageError, match="only parties show it"):
        server_machine(lab.server.machine, lab.plan, (Garbage(parties=("p00",)),))


class Faulty(UpdateAttack, frozen=True, kw_only=True):
    """An attack of one's own that does ``how`` wrong."""

    how: str

    def craft(self, update: F64, before: F32, entropy: Entropy) -> F64:
        if self.how == "raises":
            raise KeyError("x")
        return update[:2]


@pytest.mark.parametrize(
    ("how", "reason"),
    [("raises", "Faulty raised KeyError: 'x'"), ("short", r"Faulty returned \(2,\), expected f64")],
)
def test_a_faulty_attack_of_ones_own_is_blamed_in_one_line(how: str, reason: str) -> None:
    lab = Lab(scenario(6), {"p02": (Faulty(parties=("p02",), how=how),)})
    with pytest.raises(RunAbortedError, match=reason):
        lab.run()
