"""Comparisons: the product of axes, what is refused (a file, a combination, all of them), table and JSON."""

from __future__ import annotations

import json
import re
import sys
import tomllib
from pathlib import Path
from statistics import stdev

import numpy as np
import pytest

import scenarios
import securefl
from securefl.base.errors import ConfigError
from securefl.lab.experiments.exhibits import comparison_of
from securefl.lab.experiments.measure import SiteMetric
from securefl.methods.metrics.pooling import Measured
from securefl.protocol.round.shared.reports import RoundDone
from securefl.scenario.load import scenario_of
from securefl.scenario.resolved import to_toml
from tests.unit.cli.programs import call, files, refusal

FILE = """
title = "Rules against attacks"
last = 2
[scenario]
name = "tiny"
parties = 6
[scenario.data]
set = "digits"
train_limit = 120
test_limit = 50
[scenario.model]
type = "softmax"
[scenario.training]
device = "cpu"
[scenario.clustering]
size = 3
[scenario.secure_sum]
threshold = 2
min_survivors = 2
[scenario.stop]
rounds = 3
[[axes]]
name = "rule"
[[axes.choices]]
label = "mean"
[[axes.choices]]
label = "krum"
overrides = ["aggregation.rule={ type = 'krum', byzantine = 4 }"]
[[axes]]
name = "attack"
[[axes.choices]]
label = "none"
[[axes.choices]]
label = "-10 x"
overrides = ["behaviours=[{ kind = 'scale', factor = -10, count = 2 }]"]
[[curves]]
label = "one round"
overrides = ["stop.rounds=1"]
baseline = true
[[claims]]
kind = "below"
says = "the attack hurts"
curves = ["mean, -10 x"]
than = ["mean, none"]
margin = 0.1
[[claims]]
kind = "above"
says = "Krum withstands it"
curves = ["krum, -10 x"]
than = ["mean, -10 x"]
"""


def write(folder: Path, text: str = FILE) -> Path:
    path = folder / "rules.toml"
    path.write_text(text)
    return path


def compare(folder: Path, text: str = FILE, *options: str) -> tuple[str, dict[str, object]]:
    """What a comparison with one seed says, and its record."""
    out = folder / "out"
    ended = call("compare", write(folder, text), "--out", out, "--jobs", "1", "--seeds", "1", *options)
    assert ended.exit_code == 0, ended.output
    return ended.stdout, json.loads((out / "rules.json").read_bytes())


def test_every_combination_is_a_curve_with_the_changes_of_all_its_choices(tmp_path: Path) -> None:
    text = FILE.replace("byzantine = 4", "byzantine = 0").replace(
        "[[curves]]",
        "[[axes]]\nname = 'split'\n"
        "[[axes.choices]]\nlabel = 'iid'\n[[axes.choices]]\nlabel = 'uneven'\n"
        "overrides = ['data.partition.type=dirichlet', 'data.partition.alpha=0.5']\n[[curves]]",
    )
    path = write(tmp_path, text.split("[[claims]]")[0])
    comparison = comparison_of(path)
    labels = [cell.label for cell in comparison.sheet.cells()]
    assert labels[:3] == ["mean, none, iid", "mean, none, uneven", "mean, -10 x, iid"]
    assert [cell.place for cell in comparison.sheet.cells()][-2:] == [("krum", "-10 x", "uneven"), ()]
    assert labels[-1] == "one round"
    made = comparison.plan("desk")
    assert not made.scenarios["mean, none, iid"].behaviours
    assert len(made.scenarios["mean, -10 x, uneven"].behaviours) == 1
    assert type(made.scenarios["mean, none, uneven"].data.partition).__name__ == "Dirichlet"
    assert made.scenarios["one round"].stop.rounds == 1


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("last = 2", "last = 0", "rules.toml, last: expected `int` >= 1"),
        ('title = "Rules against attacks"', "", "rules.toml: object missing required field `title`"),
        ('name = "rule"', 'nam = "rule"', "rules.toml, axes[0]: object contains unknown field `nam`"),
        ('name = "attack"', 'name = "rule"', "rules.toml, axes: two axes have the same name"),
        ('label = "none"', 'label = "-10 x"', "rules.toml, curves: two curves have the same label"),
        ('label = "one round"', 'label = "mean, none"', "curves: two curves have the same label"),
        (
            'than = ["mean, none"]',
            'than = ["mean"]',
            "rules.toml, claims.0: there is no curve 'mean' (name one of",
        ),
        ("parties = 6", 'parties = "6"', "rules.toml, scenario: parties: "),
        ("parties = 6", "partys = 6", "rules.toml, scenario: partys: is not a field"),
        ("{ type = 'krum', byz", "{ type = 'krum', byt", "rules.toml, curve 'krum, none': aggregation.rule."),
        (
            "stop.rounds=1",
            "stop.rounds",
            "curve 'one round': --set stop.rounds: is not of the form path=value",
        ),
        (
            "size = 3",
            "size = 7",
            "rules.toml: all 5 curves are refused, 'mean, none' for this reason: clustering.size: ",
        ),
        ("last = 2", "last 2", "rules.toml: is not TOML: "),
    ],
)
def test_a_file_that_is_refused(old: str, new: str, message: str, tmp_path: Path) -> None:
    assert old in FILE
    said = refusal(call("compare", write(tmp_path, FILE.replace(old, new)), "--out", tmp_path / "out"))
    assert message in said
    assert not (tmp_path / "out").exists()


def test_nothing_to_compare_and_far_too_much(tmp_path: Path) -> None:
    alone = FILE[: FILE.index("[[axes]]")]
    with pytest.raises(ConfigError, match=r"axes: are missing, so there is nothing to compare \(add"):
        comparison_of(write(tmp_path, alone))
    choices = "".join(f"[[axes.choices]]\nlabel = '{i}'\n" for i in range(11))
    axes = "".join(f"[[axes]]\nname = '{name}'\n{choices}" for name in "abc")
    with pytest.raises(ConfigError, match=r"axes: make 1,331 combinations, the limit is 1,000"):
        comparison_of(write(tmp_path, alone + axes))


def test_two_axes_are_a_matrix_and_an_infeasible_row_is_refused_with_its_reason_once(tmp_path: Path) -> None:
    said, record = compare(tmp_path)
    lines = said.splitlines()
    (head,) = (line for line in lines if line.startswith("rule \\ attack"))
    assert head.split()[3:] == ["none", "-10", "x"]
    cells = {cell["label"]: cell for cell in record["cells"]}  # type: ignore[attr-defined]
    (mean,) = (line.split() for line in lines if line.startswith("mean "))
    assert mean[1:] == [f"{cells[label]['final']:.3f}" for label in ("mean, none", "mean, -10 x")]
    (krum,) = (line.split() for line in lines if line.startswith("krum "))
    assert krum[1:] == ["refused", "refused"]
    assert [line for line in lines if ": refused, " in line] == [
        f"krum, none; krum, -10 x: refused, {cells['krum, none']['refused']}"
    ]
    assert "final" not in cells["krum, none"]
    assert cells["krum, none"]["refused"].startswith("aggregation.rule")
    assert len(cells["one round"]["seeds"][0]["accuracies"]) == 1
    assert any(line.startswith("not decided: the attack hurts [mean, -10 x ") for line in lines)
    assert "not judged: Krum withstands it ('krum, -10 x' is refused)" in lines
    out = tmp_path / "out"
    assert (out / "rules.png").read_bytes().startswith(b"\x89PNG\r\n")

    again, same = compare(tmp_path)
    assert "3 simulations kept from an earlier call" in again
    assert same == record
    spoken, _ = compare(tmp_path, FILE, "--json")
    assert "Infinity" not in spoken
    found = json.loads(spoken)
    (verdict,) = found.pop("verdicts")
    assert (verdict["ruling"], verdict["seeds"]) == ("not decided", 1)
    assert found.pop("unjudged") == ["Krum withstands it ('krum, -10 x' is refused)"]
    assert found == record
    assert files(out) >= {"rules.json", "rules.png", ".work/.gitignore"}


def test_a_rule_of_ones_own_lies_beside_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And the picture comes in a second format where it is asked for."""
    monkeypatch.setattr(sys, "path", [*sys.path])
    (tmp_path / "own_rule_to_compare.py").write_text(
        "from securefl.scenario.aggregation import Rule\n"
        "from securefl.base.stack import AggregationResult, all_kept\n"
        "class First(Rule, frozen=True, kw_only=True):\n"
        "    def withstands(self, clusters):\n        return 0\n"
        "    def aggregate(self, stack):\n"
        "        return AggregationResult(stack.means[0].copy(), all_kept(stack))\n"
    )
    text = FILE.replace("{ type = 'krum', byzantine = 4 }", "{ type = 'own_rule_to_compare:First' }")
    _, record = compare(tmp_path, text, "--picture", "svg")
    cells = {cell["label"]: cell for cell in record["cells"]}  # type: ignore[attr-defined]
    assert cells["krum, none"]["final"] > 0
    assert (tmp_path / "out" / "rules.svg").read_bytes().startswith(b"<?xml")
    assert files(tmp_path / "out") >= {"rules.csv", "rules.tex", "rules.png"}


def test_one_axis_is_a_list_from_best_to_worst_with_the_spread_of_the_seeds(tmp_path: Path) -> None:
    text = FILE[: FILE.index('[[axes]]\nname = "rule"')] + FILE[FILE.index('[[axes]]\nname = "attack"') :]
    said, record = compare(tmp_path, text.split("[[claims]]")[0], "--seeds", "2")
    rows = [line for line in said.splitlines() if " ± 0." in line]
    cells = sorted(record["cells"], key=lambda cell: -cell["final"])  # type: ignore[call-overload]
    assert [row.rsplit(maxsplit=3)[0] for row in rows] == [cell["label"] for cell in cells]
    for row, cell in zip(rows, cells, strict=True):
        rounds = [seed["accuracies"][-1:] for seed in cell["seeds"]]
        assert len(rounds) == 2
        finals = [sum(seed["accuracies"][-2:]) / len(seed["accuracies"][-2:]) for seed in cell["seeds"]]
        assert row.endswith(f"{cell['final']:.3f} ± {stdev(finals):.3f}")
    lone = next(cell for cell in cells if cell["label"] == "one round")
    first, second = (seed["accuracies"][0] for seed in lone["seeds"])
    assert lone["final"] == pytest.approx((first + second) / 2, abs=1e-6)
    assert "2 seeds, ± their standard deviation" in said


def test_what_only_the_data_refuse_is_a_refused_curve_unless_it_is_all_of_them(tmp_path: Path) -> None:
    text = FILE.replace("stop.rounds=1", "data.set=mnist")
    said, record = compare(tmp_path, text)
    reason = "data.set: mnist is read from files (name their folder by --data-dir)"
    assert said.count(reason) == 2  # of the simulation, and under the table
    assert record["cells"][-1]["refused"] == reason  # type: ignore[index]
    every = text.replace('set = "digits"', 'set = "mnist"')
    told = call("compare", write(tmp_path, every), "--out", tmp_path / "none", "--jobs", "1", "--json")
    assert told.stdout == ""
    assert refusal(told).endswith(f"all 5 curves are refused, 'mean, none' for this reason: {reason}")


def test_the_example_in_the_docs_is_feasible(tmp_path: Path) -> None:
    page = (Path(__file__).parents[3] / "docs" / "compare.md").read_text(encoding="utf-8")
    (example,) = re.findall(r"```toml\n(.*?)```", page, re.DOTALL)
    path = write(tmp_path, example)
    made = comparison_of(path).plan("desk")
    assert len(made.scenarios) == 5
    assert not made.refused


def test_the_bundled_ones_are_feasible_and_found_by_their_names() -> None:
    paths = sorted((Path(scenarios.__path__[0]) / "comparisons").glob("*.toml"))
    assert paths
    for path in paths:
        assert not comparison_of(path).plan("desk").refused
    said = refusal(call("compare", "nothing"))
    assert said.startswith("nothing: no such file, and no bundled comparison of this name (bundled: ")


SITE = """
import numpy as np

TARGET = np.array([1.0, -2.0, 0.5], np.float32)


class Ward:
    samples = 10

    def __init__(self, name):
        self.shift = np.float32(0.01 * int(name[1:]))

    def parameters(self):
        return {"weight": np.zeros(3, np.float32)}

    def fit(self, parameters, context):
        return {"weight": parameters["weight"] + (TARGET + self.shift - parameters["weight"]) / 2}, 10, {}

    def evaluate(self, parameters, context):
        return 10, {"error": float(np.square(parameters["weight"] - TARGET).mean())}
"""
OF_SITES = """
title = "Rules against an attack, by what sites measure"
site = "ward:Ward"
last = 1
[scenario]
name = "wards"
parties = 9
[scenario.model]
type = "weights"
file = "FIRST"
[scenario.clustering]
size = 3
[scenario.secure_sum]
threshold = 3
min_survivors = 3
[scenario.evaluation]
samples = 10
repeats = "accept"
report = "median"
[[scenario.evaluation.metrics]]
name = "error"
kind = "mean"
upper = 1000
better = "lower"
[scenario.stop]
rounds = 5
metric = "error"
[[axes]]
name = "rule"
[[axes.choices]]
label = "mean"
[[axes.choices]]
label = "median"
overrides = ["aggregation.rule={ type = 'median' }"]
[[axes]]
name = "attack"
[[axes.choices]]
label = "none"
[[axes.choices]]
label = "-10 x"
overrides = ["behaviours=[{ kind = 'scale', factor = -10, count = 1 }]"]
[[claims]]
kind = "above"
says = "the attack costs the mean more"
curves = ["mean, -10 x"]
than = ["median, -10 x"]
"""


class TestSites:
    @pytest.fixture
    def text(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
        (tmp_path / "ward.py").write_text(SITE)
        monkeypatch.syspath_prepend(tmp_path)
        sys.modules.pop("ward", None)
        first = tmp_path / "first.safetensors"
        securefl.save_weights(first, {"weight": np.zeros(3, np.float32)})
        return OF_SITES.replace("FIRST", str(first))

    def test_they_are_compared_by_their_metric(self, text: str, tmp_path: Path) -> None:
        said, record = compare(tmp_path, text)
        assert record["metric"] == "error"
        assert "error at the sites, mean of the last 1 of 5 rounds" in said
        assert "; n = 1; " in next(line for line in said.splitlines() if line.startswith("not decided: "))
        cells = {cell["label"]: cell for cell in record["cells"]}  # type: ignore[attr-defined]
        (seed,) = cells["median, none"]["seeds"]
        scenario = scenario_in(text, tmp_path)
        result = securefl.simulate(scenario, site="ward:Ward", seed=0, out=tmp_path / "alone")
        alone = [one.value for record in result.rounds for one in record.metrics]
        assert len(seed["accuracies"]) == 5
        assert seed["accuracies"][0] == pytest.approx(np.square([1.0, -2.0, 0.5]).mean(), abs=1e-3)
        # Other clusters are drawn, under another run id: the medians are close, and not the same.
        assert seed["accuracies"] == pytest.approx(alone, abs=0.02)

    def test_the_best_of_what_should_be_low_is_the_lowest(self, text: str, tmp_path: Path) -> None:
        rule = text[text.index('[[axes]]\nname = "rule"') : text.index('[[axes]]\nname = "attack"')]
        lied = 'name = "wards"\nbehaviours = [{ kind = "scale", factor = -10, count = 1 }]'
        head = text[: text.index("[[axes]]")].replace('name = "wards"', lied)
        said, _ = compare(tmp_path, head + rule)
        curves = [
            line.split() for line in said.splitlines() if line.startswith(("curve", "mean ", "median "))
        ]
        assert [words[0] for words in curves] == ["curve", "median", "mean"]
        assert curves[0][1] == "error"
        assert float(curves[1][1]) < float(curves[2][1])

    def test_epsilon_is_that_of_all_rounds(self, text: str, tmp_path: Path) -> None:
        noise = 'privacy = { unit = "party", multiplier = 4.0, delta = 1e-5 }'
        words = "encoding = { clip = 1.0, range = 1.0, scale_bits = 8 }"
        private = text.replace("[scenario]\n", f"[scenario]\n{noise}\n{words}\n")
        _, record = compare(tmp_path, private)
        cells = {cell["label"]: cell for cell in record["cells"]}  # type: ignore[attr-defined]
        (seed,) = cells["median, none"]["seeds"]
        alone = securefl.simulate(scenario_in(private, tmp_path), site="ward:Ward", out=tmp_path / "alone")
        assert seed["epsilon"] == pytest.approx(alone.summary.outcome.epsilon, rel=1e-3)

    def test_an_edited_site_is_measured_again(self, text: str, tmp_path: Path) -> None:
        _, before = compare(tmp_path, text)
        # Of another length: Python takes what it compiled before for a file of the same second and length.
        (tmp_path / "ward.py").write_text(SITE.replace("/ 2", "/ 16"))
        sys.modules.pop("ward")
        _, after = compare(tmp_path, text)
        old, new = (
            {cell["label"]: cell["final"] for cell in one["cells"]}  # type: ignore[attr-defined]
            for one in (before, after)
        )
        assert old["mean, none"] < new["mean, none"]

    def test_without_a_metric_to_stop_by_it_is_refused(self, text: str, tmp_path: Path) -> None:
        path = write(tmp_path, text.replace('metric = "error"\n[[axes]]', "[[axes]]"))
        assert "stop.metric: is missing, and sites are compared by it" in refusal(call("compare", path))

    def test_two_metrics_cannot_be_compared(self, text: str, tmp_path: Path) -> None:
        more = text.replace(
            '[[scenario.evaluation.metrics]]\nname = "error"',
            '[[scenario.evaluation.metrics]]\nname = "mae"\nkind = "mean"\n'
            '[[scenario.evaluation.metrics]]\nname = "error"',
        )
        path = write(tmp_path, more.replace("type = 'median' }\"", 'type = \'median\' }", "stop.metric=mae"'))
        assert (
            "stop.metric: is mae, but error in another cell (set the same metric in all of them)"
            in refusal(call("compare", path))
        )

    def test_rounds_without_a_number_have_the_next_or_the_last(self) -> None:
        listener = SiteMetric("error")
        for number, value in enumerate((None, None, 0.5, None, 0.25)):
            made = Measured("error", value, value, value, value, value, 3, False) if value else None  # noqa: FBT003
            done = RoundDone(number, None, None, (), (), (), (), (), (), metrics=(made,) if made else ())
            listener.on_report(0.0, done)
        assert listener.values == [0.5, 0.5, 0.5, 0.5, 0.25]


def scenario_in(text: str, folder: Path) -> securefl.Scenario:
    """The cell of the median without an attack."""
    table = tomllib.loads(text)["scenario"]
    path = folder / "alone.toml"
    path.write_text(to_toml(scenario_of(table)))
    return securefl.load(path, ["aggregation.rule={ type = 'median' }"])
