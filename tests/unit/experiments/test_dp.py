"""The presets of DP (Xiang et al. 2023): all tables and figures are there, with the paper's numbers."""

from __future__ import annotations

from functools import cache
from itertools import product
from math import isclose, sqrt
from pathlib import Path

import pytest
from msgspec.structs import replace

import scenarios
from securefl.base.errors import ConfigError
from securefl.lab.experiments.exhibits import CellPlan, Exhibit, exhibits
from securefl.lab.experiments.experiment import ScaleName
from securefl.lab.experiments.sources import Source, nowhere, with_auxiliary
from securefl.lab.experiments.tabulate import ExhibitResults, sheet_key, tabulate
from securefl.methods.attacks.parts.alie import ALIE
from securefl.methods.attacks.parts.gaussian import Gaussian
from securefl.methods.attacks.parts.inner_product_manipulation import InnerProductManipulation
from securefl.methods.attacks.parts.label_flip import LabelFlip
from securefl.methods.robust.rules.inner_product import InnerProduct
from securefl.methods.robust.rules.krum import Krum
from securefl.methods.robust.rules.mean import Mean
from securefl.methods.robust.rules.trimmed_mean import TrimmedMean
from securefl.scenario.behaviours import NoNoise, Poisoning
from securefl.scenario.privacy import ClipEach, Normalise
from securefl.scenario.scenario import Scenario
from securefl.training.data.partitions.class_shares import ClassShares
from securefl.training.data.partitions.iid import Iid
from securefl.training.models.parts.group_norm_cnn import GroupNormCnn
from securefl.training.models.parts.mlp import Mlp
from securefl.training.models.parts.residual_cnn import ResidualCnn
from tests.looped import looped
from tests.unit.cli.programs import call, files, refusal

SCALES: tuple[ScaleName, ...] = ("desk", "paper")
OURS = ("baselines", "clipping", "first-stage", "half-life", "m")
TABLES = ("2", "3", "4", "5", "6", *(str(n) for n in range(10, 18)), *OURS)
FIGURES = tuple(str(n) for n in range(1, 39))
LF, G, OP = LabelFlip, Gaussian, InnerProductManipulation
ATTACKS: dict[str, tuple[type[Poisoning], type]] = {
    "table-5": (LF, Iid),
    "table-6": (LF, Iid),
    "table-10": (G, Iid),
    "table-11": (OP, Iid),
    "table-12": (LF, ClassShares),
    "table-13": (G, ClassShares),
    "table-14": (OP, ClassShares),
    "figure-4": (LF, Iid),
    "table-m": (LF, Iid),
}
"""By table or figure: the attack and the split (captions; section 6 and appendix A.6)."""
for _first in (1, 2, 3):
    for _at, _number in enumerate((_first, *(_first + n for n in (17, 20, 23, 26, 29)))):
        ATTACKS[f"figure-{_number}"] = ((LF, G, OP)[_at % 3], Iid if _at < 3 else ClassShares)
for _number in range(6, 18):
    ATTACKS[f"figure-{_number}"] = ((LF, G, OP)[_number % 3], Iid if _number < 12 else ClassShares)
for _number in range(33, 39):
    ATTACKS[f"figure-{_number}"] = ((LF, G, OP)[_number % 3], Iid if _number < 36 else ClassShares)


@cache
def dp() -> dict[str, Exhibit]:
    return {one.item.key: one for one in exhibits(Path(scenarios.__path__[0]) / "papers", "dp")}


@cache
def plan(key: str, scale: ScaleName, dataset: str = "fashion-mnist") -> CellPlan:
    """Every cell's scenario; making it checks that it is feasible."""
    return _planned(key, scale, dataset)


@cache
def _planned(key: str, scale: ScaleName, dataset: str) -> CellPlan:
    one = dp()[key]
    (data,) = (d for d in one.study.datasets if d.name == dataset)
    return one.plan(scale, nowhere(data, one.item.auxiliary))


def usual(one: Exhibit) -> str:
    """The data set that most tests look at, where this item has it."""
    return next((d.name for d in one.datasets() if d.name == "fashion-mnist"), one.datasets()[0].name)


def attacked(key: str) -> dict[str, Scenario]:
    return {label: made for label, made in plan(key, "paper").scenarios.items() if made.behaviours}


def test_every_table_and_figure_is_there() -> None:
    assert dp().keys() == {*(f"table-{n}" for n in TABLES), *(f"figure-{n}" for n in FIGURES)}
    assert {key for key, one in dp().items() if one.item.ours} == {f"table-{name}" for name in OURS}


@pytest.mark.slow
@pytest.mark.parametrize("scale", SCALES)
def test_every_cell_is_feasible_on_every_data_set(scale: ScaleName) -> None:
    sheets = set()
    for key, one in dp().items():
        # Items of a sheet differ in attack and split only: the first one goes through all data sets.
        known = [usual(one)] if one.path in sheets else [dataset.name for dataset in one.datasets()]
        sheets.add(one.path)
        for dataset in known:
            refused = plan(key, scale, dataset).refused
            # Of the clusters, those too small for their colluders.
            assert all("threshold, f = " in label for label in refused), (key, dataset, refused)


@looped("key", sorted(ATTACKS))
def test_attack_and_split_are_those_of_the_caption(key: str) -> None:
    kind, split = ATTACKS[key]
    for label, made in attacked(key).items():
        (attack,) = made.behaviours
        assert type(attack) is kind, label
        assert isinstance(made.data.partition, split)
        honest = made.parties - attack.count
        assert honest == made.data.shares == 20
        if isinstance(attack, Gaussian):
            assert attack.std < 1e-5
        if isinstance(attack, InnerProductManipulation):
            assert isclose(attack.epsilon, sqrt(20))
            assert attack.knowledge == "omniscient"


def test_the_papers_workers_rounds_and_privacy() -> None:
    for key in ("figure-1", "table-5", "table-6", "table-15"):
        for made in plan(key, "paper").scenarios.values():
            assert made.stop.rounds == 1500
            assert made.training.batch_size == 16
            assert made.model == Mlp(hidden=(32,), activation="elu")
            assert made.server_optimiser.learning_rate == 0.2
            if made.privacy.unit == "record":
                assert made.privacy.multiplier is None
                assert made.privacy.relation == "add-remove"
                assert made.privacy.transfer is not None
                assert made.privacy.transfer.multiplier == pytest.approx(0.79, abs=0.005)
    byzantine = {label: made.parties - 20 for label, made in plan("figure-1", "paper").scenarios.items()}
    assert {byzantine[f"{share} %, 2"] for share in (20, 40, 60)} == {5, 13, 30}
    for number, parties in ((2, 200), (6, 400), (9, 2000), (12, 400), (15, 2000)):
        assert {made.parties for made in attacked(f"figure-{number}").values()} == {parties}


def test_epsilons() -> None:
    epsilons = [made.privacy.epsilon for made in plan("table-15", "paper").scenarios.values()]
    assert epsilons == [None, 2.0, 1.0, 0.5, 0.25, 0.125]
    assert {made.privacy.epsilon for made in plan("figure-4", "paper").scenarios.values()} == {1.0}
    assert {made.privacy.epsilon for made in plan("table-m", "paper").scenarios.values()} == {0.5}


def test_gamma_is_the_honest_share_unless_it_is_what_is_varied() -> None:
    for key in ("figure-1", "figure-2", "figure-9", "table-4", "table-5"):
        for made in plan(key, "paper").scenarios.values():
            rule = made.aggregation.rule
            if isinstance(rule, InnerProduct):
                assert rule.gamma == 20 / made.parties
                assert made.data.server_per_class == 2
            else:
                assert isinstance(rule, Mean)
                assert made.parties == 20
                assert not made.behaviours
    gammas = [m.aggregation.rule.gamma for m in plan("table-6", "paper").scenarios.values()
              if isinstance(m.aggregation.rule, InnerProduct)]  # fmt: skip
    assert gammas == [0.2, 0.2, 0.35, 0.35, 0.5, 0.5, 0.65, 0.65, 0.8, 0.8]
    assert {m.parties for m in plan("table-6", "paper").scenarios.values()} == {40}


def test_turning_base_rates_and_the_attacks_of_others() -> None:
    turning = [m.behaviours[0] for m in plan("table-5", "paper").scenarios.values()]
    assert [b.honest_until for b in turning if isinstance(b, Poisoning)][::2] == [0.0, 0.2, 0.4, 0.6, 0.8]
    rates = {m.server_optimiser.learning_rate for m in plan("figure-3", "paper").scenarios.values()}
    assert rates == {0.02, 0.04, 0.08, 0.2, 0.4, 0.8, 1.0}
    others = plan("table-2", "paper").scenarios
    assert isinstance(others["60 %, a little"].behaviours[0], ALIE)
    assert isinstance(others["60 %, inner"].behaviours[0], InnerProductManipulation)
    auxiliary = plan("table-17", "paper").scenarios
    assert {m.data.server_set for m in auxiliary.values()} == {"npz:--"}


def test_any_foreign_auxiliary_set_serves_and_the_note_says_which(tmp_path: Path) -> None:
    one = dp()["table-17"]
    bare = Source(one.datasets()[0])
    with pytest.raises(ConfigError, match=r"there is no kmnist\.npz .* \(put x_train, y_train"):
        with_auxiliary(bare, one.item.auxiliary, tmp_path)
    with pytest.raises(ConfigError, match="--aux npz:lost: no such file or folder"):
        with_auxiliary(bare, one.item.auxiliary, tmp_path, "npz:lost")
    named = with_auxiliary(bare, one.item.auxiliary, None, "digits")
    (tmp_path / "other.npz").touch()
    filed = with_auxiliary(bare, one.item.auxiliary, None, f"npz:{tmp_path}/other.npz")
    assert (named.instead, filed.instead) == ("digits", "other.npz")
    made = one.plan("desk", named)
    assert {m.data.server_set for m in made.scenarios.values()} == {"digits"}
    keys = {
        sheet_key(one, "desk", bare.dataset, one.plan("desk", source).scenarios)
        for source in (named, filed, nowhere(bare.dataset, one.item.auxiliary))
    }
    assert len(keys) == 1, "the page would call the table an older one"
    done = ExhibitResults(exhibit=one, dataset=bare.dataset, scale="desk", plan=made, results={},
                refused=dict.fromkeys(made.scenarios, "not run"), jobs=1, versions={},
                auxiliary=named.instead)  # fmt: skip
    assert tabulate(done).note.endswith("; auxiliary samples from digits, not kmnist.npz")


def test_baselines_see_the_same_noisy_uploads_and_know_how_many_lie() -> None:
    made = plan("table-baselines", "desk").scenarios
    for label, one in made.items():
        rule, attack = label.split(", ")
        liars = one.parties - 20
        assert [b.count for b in one.behaviours] == ([] if attack == "none" else [liars])
        assert liars == {"none": 0, "20 % flip labels": 5}.get(attack, 30)
        if rule != "plain":
            same = made[f"second stage, {attack}"]
            assert (one.privacy, one.training, one.behaviours) == (
                same.privacy,
                same.training,
                same.behaviours,
            )
            assert one.privacy.epsilon == 2
        match one.aggregation.rule:
            case Krum(byzantine=reckoned):
                assert reckoned == liars
            case TrimmedMean(trim=trim):
                assert trim == min(liars, (one.parties - 1) // 2)
            case InnerProduct(gamma=gamma):
                assert gamma == 20 / one.parties


def test_clipping_leaves_the_noise_in_a_step_as_it_is() -> None:
    for label, one in plan("table-clipping", "desk").scenarios.items():
        dp = one.training.dp_sgd
        assert dp is not None
        assert isinstance(dp.bound, Normalise if label.startswith("normalised") else ClipEach)
        assert one.server_optimiser.learning_rate * dp.norm == pytest.approx(0.2)


def test_scores_that_forget_are_figure_35_with_a_half_life_and_without() -> None:
    made = plan("table-half-life", "desk").scenarios
    for turn, epsilon in product(("0", "0.8"), ("2", "1/8")):
        plain = made[f"{turn}, none, {epsilon}"]
        assert plain == plan("figure-35", "desk").scenarios[f"{turn}, {epsilon}"]
        rule = plain.aggregation.rule
        assert isinstance(rule, InnerProduct)
        for half_life in (80, 20, 5):
            forgetful = replace(rule, half_life=float(half_life))
            expected = replace(plain, aggregation=replace(plain.aggregation, rule=forgetful))
            assert made[f"{turn}, {half_life}, {epsilon}"] == expected


def test_the_first_stage_is_on_or_off_and_skippers_flip_labels_too() -> None:
    for label, one in plan("table-first-stage", "desk").scenarios.items():
        _, checks, attack = label.split(", ")
        assert one.checks.kind == {"off": "none"}.get(checks, checks)
        assert one.privacy.multiplier == 0.792
        if attack == "no noise":
            flip, skip = one.behaviours
            assert (type(flip), type(skip)) == (LabelFlip, NoNoise)
            assert flip.parties == skip.parties == tuple(f"p{i}" for i in range(20, 50))
        elif attack != "none":
            assert [b.count for b in one.behaviours] == [30]


def test_data_sets_have_the_papers_sizes_and_networks() -> None:
    made = {name: plan("table-15", "paper", name).scenarios["2"] for name in ("mnist", "colorectal", "usps")}
    assert {name: (m.parties, m.stop.rounds) for name, m in made.items()} == {
        "mnist": (20, 1500),
        # 10 epochs of 458 and 727 records; two samples per class are the server's.
        "colorectal": (10, 287),
        "usps": (10, 455),
    }
    assert isinstance(made["mnist"].model, GroupNormCnn)
    assert isinstance(made["colorectal"].model, ResidualCnn)
    assert made["usps"].model == Mlp(hidden=(32,), activation="elu")
    assert made["usps"].data.standardise is not None


def test_published_numbers() -> None:
    """One of each table, read in the paper's text by hand; the shapes are checked where files are read."""
    for key, dataset, label, number in (
        ("table-2", "fashion-mnist", "60 %, a little", 0.79),
        ("table-3", "mnist", "40 %", 0.86),
        ("table-4", "usps", "zero, 1/8", 0.58),
        ("table-5", "colorectal", "0.2, 1/8", 0.41),
        ("table-6", "colorectal", "80 %, 1/8", 0.34),
        ("table-10", "mnist", "35 %, 1/8", 0.88),
        ("table-11", "usps", "80 %, 1/8", 0.47),
        ("table-12", "mnist", "20 %, 2", 0.94),
        ("table-13", "usps", "80 %, 1/8", 0.61),
        ("table-14", "fashion-mnist", "65 %, 1/8", 0.64),
        ("table-15", "usps", "none", 0.92),
        ("table-16", "fashion-mnist", "1/2", 0.77),
        ("table-17", "usps", "label flips, 20 %", 0.08),
    ):
        sheet, item = dp()[key].sheet, dp()[key].item
        by_label = {cell.label: cell for cell in sheet.cells()}
        assert sheet.number_at(item.published[dataset], by_label[label]) == number, key
    for key, one in dp().items():
        assert bool(one.item.published) == (one.item.kind == "table" and not one.item.ours), key


def test_desk_scale_takes_minutes_and_says_what_it_leaves_out() -> None:
    for key, one in dp().items():
        name = usual(one)
        desk, paper = plan(key, "desk", name), plan(key, "paper", name)
        steps = sum(made.stop.rounds * made.parties for made in desk.scenarios.values())
        # A step of one worker takes 4.1 ms of a processor, noise and its share of all else included, with two
        # simulations beside each other (table 17: 65,250 steps in 264 s); 15 minutes on two, less a reserve.
        assert steps * 4.1e-3 / 2 <= 14 * 60 or one.sheet.shows == "labels", key
        note = one.sheet.scale["desk"].note
        assert len(one.sheet.cells_at("desk")) == len(one.sheet.cells_at("paper")) or "only" in note, key
        rounds = [max(made.stop.rounds for made in of.scenarios.values()) for of in (desk, paper)]
        assert rounds[0] == rounds[1] or "not 8 or 10" in note or one.sheet.shows == "labels", key
        assert {made.description for made in desk.scenarios.values()} == {
            "one dense network of 32, also on MNIST (not the paper's CNN)"
        }


@pytest.mark.parametrize(
    ("dataset", "said"),
    [
        ("usps", "--dataset usps: there is no usps.npz in "),
        ("fashion-mnist", "--dataset fashion-mnist: there is no fashion-mnist in "),
        (
            "npz:lost.npz",
            "--dataset npz:lost.npz: no such file or folder (put x_train, y_train, x_test, ",
        ),
    ],
)
def test_a_table_without_its_data_is_refused_in_a_line(dataset: str, said: str, tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    asked = ("--dataset", dataset, "--data-dir", tmp_path / "data", "--out", tmp_path / "results" / "dp")
    reason = refusal(call("reproduce", "dp", "--table", "15", *asked))
    assert reason.startswith(said), reason
    assert reason.endswith(")")
    assert files(tmp_path) == {"data"}
