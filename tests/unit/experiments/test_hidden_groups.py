"""The study of hidden groups: files that are feasible, and what is seen of groups in a simulation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pytest

import scenarios
from securefl.base.ids import PartyId
from securefl.lab.experiments.exhibits import exhibits
from securefl.lab.experiments.experiment import ScaleName
from securefl.lab.experiments.measure import SimulationJob
from securefl.lab.experiments.page import page as sheet_page
from securefl.lab.experiments.record import CellRecord, Record, SeedRecord, scenario_key
from securefl.lab.experiments.sources import nowhere
from securefl.lab.experiments.task_groups import (
    GroupOutcome,
    GroupsRecord,
    GroupWatch,
    found_of,
    heard_of,
    losses_of,
)
from securefl.protocol.round.server.stacking import ClusterSum
from securefl.protocol.round.shared.reports import ModelStepped, SumOpened
from securefl.protocol.round.shared.slots import FIRST_SLOT
from securefl.scenario.load import parse_scenario
from securefl.scenario.scenario import Scenario

EXHIBITS = exhibits(Path(scenarios.__path__[0]) / "papers", "hidden-groups")
HIDDEN = """
name = "grouped"
parties = 16
[groups]
count = 2
mode = "hidden"
tasks = "rotations"
warmup = 1
[clustering]
size = 4
atoms = 4
[secure_sum]
threshold = 4
min_survivors = 4
[weighting]
mode = "ignore"
[stop]
rounds = 4
"""
NAMES = tuple(PartyId(f"p{index:02d}") for index in range(16))
TASKS = {name: index % 2 for index, name in enumerate(NAMES)}
LIAR = "behaviours=[{kind='scale',factor=-10.0,parties=['p01','p03']}]"


@pytest.mark.parametrize("scale", ["desk", "paper"])
def test_every_cell_is_feasible(scale: ScaleName) -> None:
    assert [one.item.number for one in EXHIBITS] == ["clusters", "liars", "members", "starts"]
    for exhibit in EXHIBITS:
        (dataset,) = exhibit.datasets()
        assert not exhibit.plan(scale, nowhere(dataset, None)).refused


def desk(number: str) -> Mapping[str, Scenario]:
    (exhibit,) = (one for one in EXHIBITS if one.item.number == number)
    return exhibit.plan("desk", nowhere(exhibit.datasets()[0], None)).scenarios


def test_tables_share_the_cells_that_they_have_in_common() -> None:
    same = {
        scenario_key(desk("starts")["hidden, screen, median, parted every 2 rounds"]),
        scenario_key(desk("liars")["10 of 96, -10x, hidden, screen, median"]),
        scenario_key(desk("members")["equal, i.i.d., hidden, 10 of 96"]),
        scenario_key(desk("clusters")["m = 4, equal, 10 of 96"]),
    }
    assert len(same) == 1


def test_what_was_never_tried_is() -> None:
    assert {one.clustering.size for one in desk("clusters").values()} == {4, 6, 8}
    assert {one.groups.sizes for one in desk("members").values()} == {(), (38, 29, 19, 10)}
    assert {one.aggregation.byzantine for one in desk("members").values()} == {0, 10, 19}
    assert any(one.data.partition.__struct_config__.tag == "dirichlet" for one in desk("members").values())


class Rounds:
    """Rounds as they would be reported; clusters are of neighbours, four parties each."""

    def __init__(self, *overrides: str) -> None:
        self.watch = GroupWatch(parse_scenario(HIDDEN, overrides), 0, TASKS)
        self._number = 0

    def round(self, models: Sequence[int], screened: Sequence[tuple[int, int]] = ()) -> None:
        """One in which party i chooses ``models[i % len(models)]``."""
        choice = {name: models[index % len(models)] for index, name in enumerate(NAMES)}
        self.watch.on_choice(self._number, choice)
        kept = []
        for cluster in range(4):
            members = NAMES[4 * cluster : 4 * cluster + 4]
            for model in (0, 1):
                if sum(choice[name] == model for name in members) >= 2:
                    zero = np.zeros(1, dtype=np.uint64)
                    one = ClusterSum(FIRST_SLOT + model, cluster, members, members, zero)
                    self.watch.on_report(0.0, SumOpened(self._number, one))
                    if one.key not in screened:
                        kept.append(one.key)
        self.watch.on_report(0.0, ModelStepped(self._number, tuple(kept), (), 1.0))
        self._number += 1

    def done(self) -> GroupsRecord:
        record = self.watch.conclude()
        assert record is not None
        return record


def test_groups_that_have_a_model_each_are_found() -> None:
    rounds = Rounds()
    rounds.round([0])
    for _ in range(3):
        rounds.round([0, 1])
    done = rounds.done()
    assert done == GroupsRecord(
        heard=1.0, vain=0, outcomes=2 * (GroupOutcome(members=8, found=True, last=3, sums=4),)
    )
    assert (found_of([done, done]), heard_of([done])) == ("4 of 4 found", "100% heard")
    assert losses_of([done]) == ""


def test_who_is_alone_in_its_cluster_is_not_heard() -> None:
    rounds = Rounds()
    rounds.round([0])
    for _ in range(3):
        # In every other cluster one party, with its group's minority, chose a model for itself.
        rounds.round([0, 1, 0, 1, 0, 0, 0, 1])
    assert rounds.done().heard == 14 / 16


def test_a_group_without_sums_is_found_and_idle() -> None:
    rounds = Rounds()
    rounds.round([0])
    for _ in range(3):
        rounds.round([0, 1], [(FIRST_SLOT + 1, cluster) for cluster in range(4)])
    done = rounds.done()
    assert found_of([done]) == "2 of 2 found"
    assert losses_of([done]) == "1 found, and not learned, as no sum of it was left"


def test_models_that_groups_share_were_never_apart() -> None:
    rounds = Rounds()
    rounds.round([0])
    for _ in range(3):
        rounds.round([0, 0, 1, 1])
    assert losses_of([rounds.done()]) == "2 never apart from another group"


def test_a_group_is_outvoted_where_liars_are_in_half_of_the_sums_that_the_rule_got() -> None:
    lost, screened = Rounds(LIAR), Rounds(LIAR)
    for rounds, without in ((lost, ()), (screened, ((FIRST_SLOT + 1, 0),))):
        rounds.round([0])
        # Both liars are in the first of model 1's four sums; two others are screened out, or it is.
        rounds.round([0, 1], ((FIRST_SLOT + 1, 1), (FIRST_SLOT + 1, 2)) if rounds is lost else without)
        rounds.round([0])
    assert losses_of([lost.done()]).endswith(
        "found, and lost where liars were in half or more of its sums (1 of 2 sums)"
        "; 1 found, and lost while most of its sums were honest (0 of 4 sums)"
    )
    assert "2 found, and lost while most of its sums were honest (0 of 7 sums)" in losses_of(
        [screened.done()]
    )
    assert [outcome.members for outcome in lost.done().outcomes] == [8, 6]


def test_a_model_that_is_parted_off_a_single_group_is_in_vain() -> None:
    rounds = Rounds()
    rounds.round([0, 1])
    rounds.round([0, 1, 0, 2])
    done = rounds.done()
    assert done.vain == 1
    assert losses_of([done]).endswith("; 1 model parted off a single group")


DIGITS = (
    "data={set='digits',train_limit=320,test_limit=40}",
    "model={type='softmax'}",
    "training={device='cpu'}",
    "stop.rounds=3",
    "leakage.mode='report'",
)


def simulated(tmp_path: Path, *overrides: str) -> SeedRecord:
    scenario = parse_scenario(HIDDEN, (*DIGITS, *overrides))
    return SimulationJob(scenario=scenario, seed=0, folder=tmp_path).measure(lambda _rounds: None)


def test_a_simulation_says_what_became_of_its_groups(tmp_path: Path) -> None:
    groups = simulated(tmp_path).groups
    assert groups is not None
    assert [outcome.members for outcome in groups.outcomes] == [8, 8]
    assert 0 < groups.heard <= 1
    pairs = ("clustering={size=2}", "secure_sum={threshold=2,min_survivors=2}")
    told = simulated(tmp_path, "groups.mode='open'", *pairs, LIAR).groups
    assert told is not None
    assert [outcome.members for outcome in told.outcomes] == [8, 6]
    assert simulated(tmp_path, "groups.tasks='given'").groups is None


def test_the_page_is_no_paper_s_and_says_what_lost_a_group() -> None:
    lost = GroupsRecord(heard=0.5, vain=1, outcomes=(GroupOutcome(members=8, found=False, shared=True),))
    seed = SeedRecord(
        seed=0, accuracies=(0.5,), ended="", seconds=1.0, device="cpu", dataset="Fashion-MNIST", groups=lost
    )
    cell = CellRecord(label="a, b", place=("a", "b"), baseline=False, final=0.5, seeds=(seed,))
    record = Record(
        format=1, paper="hidden-groups", kind="table", number="starts", dataset="fashion-mnist", scale="desk",
        stem="",
        title="", settings="", note="", shows="table", axes=(), last=1, tolerance=0.1, leakage_reported=False,
        cells=(cell,), seconds=0.0, jobs=1, versions={},
    )  # fmt: skip
    assert record.value(cell) == "0.500; 0 of 1 found, 50% heard"
    (line,) = record.losses
    assert line.startswith("groups lost or idle, a, b: 1 never apart from another group; 1 model parted")
    page = sheet_page(EXHIBITS, (), "hidden-groups")
    assert "*Settings:*" in page
    assert "published" not in page
    assert "the paper's" not in page
