"""Metrics of whole runs: pooled over whoever is counted, against what all those samples say."""

from __future__ import annotations

import contextlib
import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console
from safetensors.numpy import load_file

import securefl
from securefl.runtime.report import print_summary
from securefl.training.models.tensors import write_tensors

ROUNDS = 4
TEXT = """
name = "metrics"
parties = 12
[model]
type = "weights"
file = "w.safetensors"
[clustering]
size = 4
atoms = 2
reclusterings = 2
[secure_sum]
threshold = 2
min_survivors = 2
[evaluation]
samples = 100
[[evaluation.metrics]]
name = "loss"
kind = "mean"
upper = 8
better = "lower"
[[evaluation.metrics]]
name = "scores"
kind = "histogram"
bins = 50
[[evaluation.metrics]]
name = "table"
kind = "confusion"
[stop]
rounds = 4
"""


class Site:
    """Scores samples by one weight; each site has other samples, and another number of them."""

    def __init__(self, name: str) -> None:
        rng = np.random.default_rng(int(name[1:]))
        self.samples = 20 + 5 * int(name[1:])
        self.labels = rng.integers(0, 2, self.samples)
        self.x = rng.normal(self.labels, 1.5)

    def parameters(self) -> dict[str, Any]:
        return {"w": np.zeros(2, np.float32)}

    def fit(self, parameters: dict[str, Any], context: securefl.RoundContext) -> Any:
        return {"w": parameters["w"] + np.float32(0.25)}, self.samples, {}

    def scores(self, w: Any) -> Any:
        return 1 / (1 + np.exp(-(self.x * w[0] - w[1] / 2)))

    def evaluate(self, parameters: dict[str, Any], context: securefl.RoundContext) -> Any:
        scores = self.scores(parameters["w"])
        loss = -np.log(np.where(self.labels == 1, scores, 1 - scores)).mean()
        return self.samples, {
            "loss": loss,
            "scores": securefl.score_histogram(scores, self.labels, bins=50),
            "table": securefl.confusion(self.labels, scores > 0.5, 2),
        }


def simulated(
    folder: Path, *overrides: str, site: Any = Site, verbose: bool = False, seeded: bool = False
) -> securefl.RunResult:
    write_tensors(folder / "w.safetensors", Site("p00").parameters())
    file = folder / "metrics.toml"
    file.write_text(TEXT)
    # A path relative to the folder: draws follow from the scenario, which must not name a temporary folder.
    with contextlib.chdir(folder):
        scenario = securefl.load(file, ("model.file='w.safetensors'", *overrides))
        return securefl.simulate(
            scenario, site=site, out=folder / "run", seed=4, seeded=seeded, verbose=verbose
        )


def pooled(names: Any, w: Any) -> dict[str, float]:
    """What one site with all samples of ``names`` would say."""
    sites = [Site(name) for name in names]
    scores, labels = np.concatenate([s.scores(w) for s in sites]), np.concatenate([s.labels for s in sites])
    loss = -np.log(np.where(labels == 1, scores, 1 - scores)).mean()
    at = np.minimum((scores * 50).astype(int), 49)
    pairs = at[labels == 1, None] - at[labels == 0][None]
    return {
        "loss": float(loss),
        "scores.auc": float(((pairs > 0) + (pairs == 0) / 2).mean()),
        "table.accuracy": float(((scores > 0.5) == labels).mean()),
    }


@pytest.mark.parametrize(
    ("kind", "faults"),
    [
        ("masking", ""),
        ("masking", "{kind='drop',phase='after-keys',count=2}"),
        ("masking", "{kind='kill',phase='after-shares',count=2,rounds=[1]}"),
        ("crypten", ""),
        ("crypten", "{kind='drop',phase='after-masked-input',count=2}"),
    ],
)
def test_pooled_metrics_are_those_of_all_samples_counted(tmp_path: Path, kind: str, faults: str) -> None:
    overrides = (f"behaviours=[{faults}]", f"secure_sum.kind='{kind}'")
    result = simulated(tmp_path, *overrides)
    assert len(result) == ROUNDS
    w = np.zeros(2, np.float32)
    for record in result.rounds:
        inside = {party for one in record.sums if one.reclustering == 0 for party in one.counted}
        found = {one.name: one.pooled for one in record.metrics}
        for name, value in pooled(sorted(inside), w).items():
            assert found[name] == pytest.approx(value, abs=2e-4), (record.round, name)
        assert not faults or record.round != 1 or len(inside) < 12
        if record.update_norm is not None:
            w = w + np.float32(0.25)


def test_a_run_stops_by_a_metric_and_keeps_the_best_model(tmp_path: Path) -> None:
    stop = ("stop.metric='table.accuracy'", "stop.patience=2", "stop.rounds=30")
    result = simulated(tmp_path, *stop)
    values = [next(m.value for m in r.metrics if m.name == "table.accuracy") for r in result.rounds]
    best = int(np.argmax(values))
    assert len(values) == best + 3 < 30
    np.testing.assert_allclose(result.arrays()["w"], 0.25 * best, atol=1e-4)
    assert result.metrics["table.accuracy"] == values[best]
    assert "no better table.accuracy in 2 rounds" in result.summary.outcome.reason


def test_a_target_ends_the_run(tmp_path: Path) -> None:
    result = simulated(tmp_path, "stop.metric='loss'", "stop.target=0.69", "stop.rounds=30")
    assert result.summary.outcome.reason.startswith("loss 0.6")
    assert len(result) < 30


def test_liars_in_a_fifth_of_the_clusters_move_the_median_by_a_place(tmp_path: Path) -> None:
    """2 liars of 60 sites are in 2 of 15 clusters at most: the median stays within two honest places."""
    many = (
        "parties=60",
        "evaluation.samples=1000",
        "evaluation.report='median'",
        "clustering.reclusterings=1",
        "stop.rounds=1",
    )
    liars = "behaviours=[{kind='false-metrics',extreme='most',parties=['p03','p40']}]"
    record = simulated(tmp_path, *many, liars).rounds[0]
    clusters = [one.counted for one in record.sums]
    for name in ("scores.auc", "table.accuracy"):
        each = sorted(pooled(members, np.zeros(2))[name] for members in clusters)
        after = next(one for one in record.metrics if one.name == name)
        middle = len(each) // 2
        assert each[middle - 2] - 1e-3 <= after.value <= each[middle + 2] + 1e-3
    loss = next(one for one in record.metrics if one.name == "loss")
    assert loss.high > 1.5 > loss.value, "the lie is in its sum"


LIARS = tuple(f"p{n:02d}" for n in range(0, 60, 5))
"""A fifth of 60 sites."""


@pytest.mark.parametrize("extreme", ["most", "least"])
def test_a_fifth_of_liars_move_the_median_by_their_shares_of_samples(tmp_path: Path, extreme: str) -> None:
    """20 random clusters of 3, new ones each round: up to half of them and more hold one of 12 liars."""
    many = ("parties=60", "clustering.size=3", "clustering.atoms=1", "clustering.reclusterings=1")
    more = ("evaluation.repeats='accept'", "evaluation.samples=1000", "evaluation.report='median'")
    lies = f"behaviours=[{{kind='false-metrics',extreme='{extreme}',parties={list(LIARS)}}}]"
    w, spoiled = np.zeros(2, np.float32), []
    for record in simulated(tmp_path, *many, *more, lies, seeded=True).rounds:
        clusters = [tuple(one.counted) for one in record.sums]
        assert len(clusters) == 20
        found = {one.name: one for one in record.metrics}
        for name, one in found.items():
            if name not in BOUNDED:
                continue
            ends = np.array([reach(name, members, w) for members in clusters])
            least, most = np.median(ends, axis=0)
            assert least - 2e-4 <= one.value <= most + 2e-4, (record.round, name)
        # What is said of the loss is the worst that can be said, so that the bound is met.
        loss = np.median([reach("loss", members, w) for members in clusters], axis=0)
        assert found["loss"].value == pytest.approx(loss[int(extreme == "most")], abs=2e-4)
        if extreme == "most":
            # Of 12 liars fewer than 10 clusters hold two: half of the clusters have at most one.
            tame = [members for members in clusters if len(set(members) & set(LIARS)) <= 1]
            assert len(tame) > 10
            assert found["loss"].value <= max(reach("loss", members, w)[1] for members in tame)
            assert found["loss"].pooled > found["loss"].value + 0.1
        spoiled.append(sum(bool(set(members) & set(LIARS)) for members in clusters))
        w = w + np.float32(0.25)
    assert max(spoiled) >= 8, "so many that no order of the honest clusters' values alone would be a bound"


BOUNDED = ("loss", "scores.auc", "table.accuracy")


def reach(name: str, members: tuple[str, ...], w: Any) -> tuple[float, float]:
    """The least and the most that a cluster's number can be, whatever its liars say of their samples."""
    honest = [party for party in members if party not in LIARS]
    lied = sum(Site(party).samples for party in members if party in LIARS)
    low, high = (0.0, 8.0) if name == "loss" else (0.0, 1.0)
    if not honest:
        return low, high
    own = pooled(honest, w)[name]
    labels = np.concatenate([Site(party).labels for party in honest])
    kept = len(labels) / (len(labels) + lied)
    if name == "scores.auc":
        ones, zeros = int(labels.sum()), int(len(labels) - labels.sum())
        kept = min(ones * zeros / ((ones + n) * (zeros + lied - n)) for n in range(lied + 1))
    return kept * own + (1 - kept) * low, kept * own + (1 - kept) * high


def test_epsilon_counts_the_metrics(tmp_path: Path) -> None:
    private = (
        "privacy={unit='party',multiplier=4.0,delta=1e-5}",
        "encoding.clip=1",
        "encoding.range=1",
        "encoding.scale_bits=8",
        "clustering.reclusterings=1",
    )
    spent = {}
    for noise in ("1", "3", "none"):
        (tmp_path / noise).mkdir()
        with_or_without = ("evaluation={}",) if noise == "none" else (f"evaluation.noise={noise}",)
        result = simulated(tmp_path / noise, *private, *with_or_without)
        epsilon = result.summary.outcome.epsilon
        assert epsilon is not None
        spent[noise] = epsilon
    assert spent["none"] < spent["3"] < spent["1"]
    # Noise of z on both is noise of z / sqrt(2) on one: epsilon of Gaussians grows nearly in proportion.
    assert 1.35 < spent["1"] / spent["none"] < 1.6


def test_with_privacy_metrics_carry_noise(tmp_path: Path) -> None:
    """Noise that is little enough for no number to be missing."""
    private = ("privacy={unit='party',multiplier=1.0,delta=1e-5}", "encoding.clip=1", "encoding.range=1")
    little = ("evaluation.noise=0.02", "encoding.scale_bits=8", "stop.rounds=1")
    only = "evaluation.metrics=[{name='table',kind='confusion'}]"
    record = simulated(tmp_path, *private, *little, only).rounds[0]
    found = {one.name: one for one in record.metrics}
    exact = pooled([f"p{n:02d}" for n in range(12)], np.zeros(2))
    # Counts are whole, so that without noise it would be exact: with noise it is so once in 10^3.
    assert abs(found["table.accuracy"].pooled - exact["table.accuracy"]) > 1e-5
    assert found["table.accuracy"].deviation > 0.01


EXPECT = "expect=[{metric='evaluation',of='loss',at_most=8}]"
PARTY = ("encoding.clip=1", "encoding.range=1", "encoding.scale_bits=8", "stop.metric='table.accuracy'")


@pytest.mark.parametrize(
    ("noise", "reason"),
    [(0.02, "and stop.min_gain is 0.01"), (4.0, "noise")],
)
def test_a_run_whose_metric_has_too_much_noise_keeps_its_last_model(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], noise: float, reason: str
) -> None:
    """Patience and the best model followed the noise."""
    private = ("privacy={unit='party',multiplier=1.0,delta=1e-5}", "stop.patience=1", "stop.rounds=6")
    result = simulated(
        tmp_path, *PARTY, *private, f"evaluation.noise={noise}", EXPECT, verbose=True, seeded=True
    )
    assert len(result) == 6, "no round is stopped by"
    assert result.summary.outcome.reason == "6 rounds done"
    assert not (tmp_path / "run" / "best.safetensors").exists()
    last = load_file(tmp_path / "run" / "model.safetensors")
    np.testing.assert_array_equal(result.arrays()["w"], last["w"])
    shown = capsys.readouterr().out
    assert shown.count("table.accuracy is too noisy to stop or choose a model by") == 1
    assert noise > 1 or " ± " in shown
    summary = json.loads((tmp_path / "run" / "summary.json").read_text())
    if noise < 1:
        (judged,) = result.summary.judgements
        assert judged.deviation == summary["outcome"]["deviations"]["loss"] > 0
        assert judged.text == f"loss {judged.found}, expected at most 8"
        assert " ± " in judged.found
    kept = summary["outcome"]["model"]
    assert kept["which"] == "last"
    assert kept["unused_rounds"] == 6
    assert reason in kept["reason"]
    for row, (_, cells) in zip(summary["rounds"], result.frame().iterrows(), strict=True):
        if "table.accuracy" in row.get("metrics", {}):
            deviation = row["metrics"]["table.accuracy"]["deviation"]
            assert cells["table.accuracy.deviation"] == deviation > 0.01
    console = Console(file=io.StringIO(), width=200)
    print_summary(console, result.summary)
    printed = console.file.getvalue()  # type: ignore[attr-defined]
    assert "the model is the last one, not a best one: table.accuracy was too noisy to use" in printed


def test_patience_and_the_best_model_go_by_the_gain_that_counts(tmp_path: Path) -> None:
    stop = ("stop.metric='table.accuracy'", "stop.min_gain=0.01", "stop.patience=3", "stop.rounds=30")
    only = "evaluation.metrics=[{name='table',kind='confusion'}]"

    found = (500, 505, 515, 520)

    class Slow(Site):
        def evaluate(self, parameters: dict[str, Any], context: securefl.RoundContext) -> Any:
            right = found[min(context.number, 3)]
            return 1000, {"table": np.array([[right, 1000 - right], [0, 0]])}

    result = simulated(tmp_path, *stop, only, site=Slow)
    values = [one.value for row in result.rounds for one in row.metrics if one.name == "table.accuracy"]
    best = 2
    assert values == pytest.approx([0.5, 0.505, 0.515, 0.52, 0.52, 0.52], abs=1e-3)
    summary = json.loads((tmp_path / "run" / "summary.json").read_text())
    assert summary["outcome"]["model"] == {"which": "best", "round": best}
    assert result.metrics["table.accuracy"] == values[best]
    np.testing.assert_allclose(result.arrays()["w"], 0.25 * best, atol=1e-4)


def test_an_epsilon_that_is_asked_for_is_kept_with_metrics(tmp_path: Path) -> None:
    private = (
        "privacy={unit='party',epsilon=6}",
        "encoding.clip=1",
        "encoding.range=1",
        "encoding.scale_bits=8",
    )
    result = simulated(tmp_path, *private)
    assert result.summary.outcome.epsilon is not None
    assert 5.9 < result.summary.outcome.epsilon <= 6


def test_a_site_that_does_not_evaluate_is_refused(tmp_path: Path) -> None:
    class Silent(Site):
        evaluate: Any = None

    with pytest.raises(securefl.ConfigError, match="site: the scenario declares loss, scores, table, but"):
        simulated(tmp_path, site=Silent)


def test_a_site_whose_metric_fails_sends_none_and_notes_why_for_itself(tmp_path: Path) -> None:
    class Wrong(Site):
        def evaluate(self, parameters: dict[str, Any], context: securefl.RoundContext) -> Any:
            samples, found = super().evaluate(parameters, context)
            return samples, found if self.samples > 20 else found | {"loss": float("nan")}

    result = simulated(tmp_path, site=Wrong)
    assert {one.name for one in result.rounds[0].metrics} >= {"loss", "scores.auc"}
    names = [f"p{n:02d}" for n in range(1, 12)]
    found = next(one for one in result.rounds[0].metrics if one.name == "loss")
    assert found.pooled == pytest.approx(pooled(names, np.zeros(2))["loss"], abs=2e-4)
    last = json.loads((tmp_path / "run" / "p00.site.jsonl").read_text().splitlines()[-1])
    assert "error" not in last, "the training counts"
    assert any("evaluate returned a loss that is NaN or infinite" in note for note in last["notes"])


def test_rows_hold_what_records_do(tmp_path: Path) -> None:
    record = simulated(tmp_path, "stop.rounds=1").rounds[0]
    assert record.metrics
    assert record.from_row(json.loads(json.dumps(record.row()))).metrics == record.metrics


@pytest.mark.parametrize("most", [0.75, 0.25])
def test_expectations_and_tables_have_what_sites_say(tmp_path: Path, most: float) -> None:
    expect = f"expect=[{{metric='evaluation',of='loss',at_most={most}}}]"
    result = simulated(tmp_path, "stop.rounds=2", expect)
    values = [next(one.value for one in record.metrics if one.name == "loss") for record in result.rounds]
    (judged,) = result.summary.judgements
    assert judged.ok == (values[-1] <= most) == (most == 0.75)
    assert list(result.frame()["loss"]) == values
    assert result.metrics["loss"] == values[-1]


def test_roots_of_squared_errors_go_by_all_samples_of_all_sites(tmp_path: Path) -> None:
    """Sites return mean squared errors; shown, stopped by and expected is RMSE, as numpy has it."""

    class Errs(Site):
        def evaluate(self, parameters: dict[str, Any], context: securefl.RoundContext) -> Any:
            return self.samples, {"rmse": float(((self.x - 10 * parameters["w"][0]) ** 2).mean())}

    metric = "{name='rmse',kind='mean',upper=400,root=true,better='lower'}"
    stop = ("stop.metric='rmse'", "stop.patience=1", "stop.rounds=9")
    more = ("evaluation.report='pooled'", "expect=[{metric='evaluation',of='rmse',at_most=2}]")
    result = simulated(tmp_path, f"evaluation.metrics=[{metric}]", *stop, *more, site=Errs)
    x = np.concatenate([Site(f"p{n:02d}").x for n in range(12)])
    want = [float(np.sqrt(((x - 2.5 * number) ** 2).mean())) for number in range(len(result))]
    assert list(result.frame()["rmse"]) == pytest.approx(want, abs=1e-3)
    assert len(want) == int(np.argmin(want)) + 2 < 9
    assert result.metrics["rmse"] == pytest.approx(min(want), abs=1e-3)
    assert [one.ok for one in result.summary.judgements] == [min(want) <= 2]
