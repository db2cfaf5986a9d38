"""Six processes, 1.2 million parameters, verified rounds, restarts of server and broker: `make realistic`."""

from __future__ import annotations

import json
import signal
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pytest
from sklearn.isotonic import IsotonicRegression

from securefl.base.errors import EXIT_PAUSED
from securefl.runtime.transport.broker import choose_broker
from tests.live.outages import At, Fault, Ground, broken
from tests.realistic.federation import PARTIES, RUN, SERVER, Federation, federation
from tests.realistic.network import FEW_BINS

pytestmark = pytest.mark.realistic

ROUNDS = 5
COMMON = """
name = "clinics"
parties = 6

[model]

[clustering]
size = 6

[deadlines]
join = 120
hello = 120
reveal = 120
keys = 120
shares = 120
certify = 120
release = 120
verify = 120
"""
EXACT = (
    COMMON.replace("size = 6", "size = 6\natoms = 3")
    + """
[secure_sum]
server = "active"
verify = "all"
threshold = 4
min_survivors = 4
colluders = 1
colluders_per_cluster = 1

[server_optimiser]
momentum = 0.2

[stop]
rounds = 5
metric = "scores.auc"

[evaluation]
samples = 200

[[evaluation.metrics]]
name = "scores"
kind = "histogram"
bins = 50

[[evaluation.metrics]]
name = "accuracy"
kind = "mean"

[[evaluation.metrics]]
name = "loss"
kind = "mean"
upper = 8
better = "lower"
"""
)
"""Metrics over atoms; the moments of the server's optimiser outlive its restart."""
NOISED = (
    COMMON + "submit = 12\n"
    """
[secure_sum]
server = "active"
verify = "all"
threshold = 4
min_survivors = 5
colluders = 1
colluders_per_cluster = 1

[privacy]
unit = "party"
epsilon = 40
delta = 1e-3
placement = "threshold"

[encoding]
clip = 0.5
scale_bits = 13

[server_optimiser]
type = "adam"
learning_rate = 0.003

[stop]
rounds = 5

[evaluation]
samples = 200
noise = 0.5

[[evaluation.metrics]]
name = "accuracy"
kind = "mean"

[[evaluation.metrics]]
name = "chances"
kind = "histogram"
classes = 1
bins = 5
"""
)
"""Six parties are too few for an AUC: at every finite epsilon the noise exceeds the samples of a class."""


@dataclass(frozen=True)
class Variant:
    """A scenario and its outages."""

    scenario: str
    broker_fault: Fault
    broker_at: At
    persistent: bool
    server_signal: signal.Signals
    server_at: At
    options: tuple[str, ...] = ()

    def acts(self, made: Federation) -> dict[At, Callable[[], None]]:
        """The outages, each at the first frame of a step."""
        return {
            self.broker_at: partial(made.ground.suffer, self.broker_fault, 0.0),
            self.server_at: partial(made.restart_server, self.server_signal),
        }


VARIANTS = {
    "exact": Variant(
        EXACT,
        broker_fault="kill",
        broker_at=(1, "inputs"),
        persistent=False,
        server_signal=signal.SIGKILL,
        server_at=(3, "release"),
        options=("--site-python", sys.executable),
    ),
    "noised": Variant(
        NOISED,
        broker_fault="restart",
        broker_at=(3, "shares"),
        persistent=True,
        server_signal=signal.SIGTERM,
        server_at=(1, "training"),
    ),
}


@dataclass(frozen=True)
class Ended:
    """A federation at its end, and what an auditor and a user make of it."""

    made: Federation
    variant: Variant
    models: tuple[dict[str, Any], ...]
    """Metrics in plain torch of the model that each round began with, and of the last one."""


@pytest.fixture(scope="module", params=VARIANTS)
def ended(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ended]:
    """Run a variant to its end; print its times and peaks of memory."""
    variant = VARIANTS[request.param]
    folder = tmp_path_factory.mktemp(request.param)
    kind = choose_broker("auto")
    ground = Ground(kind, folder / "broker", persistent=variant.persistent and kind == "mosquitto")
    with federation(folder, ground, variant.scenario, *variant.options) as made:
        acts = variant.acts(made)
        with broken(ground, acts) as done:
            for name in (SERVER, *PARTIES):
                made.start(name)
            made.wait()
        assert sorted(done) == sorted(acts), "an outage did not happen"
        made.collect()
        out = made.out(SERVER)
        files = [out / "first.safetensors", *sorted((out / "models").iterdir())]
        models = tuple(made.evaluate(*files)) if len(files) == ROUNDS + 1 else ()
        print(made.figures())
        yield Ended(made, variant, models)


def test_every_process_ends_with_the_right_code(ended: Ended) -> None:
    stopped = -signal.SIGKILL if ended.variant.server_signal == signal.SIGKILL else EXIT_PAUSED
    assert [one.process.returncode for one in ended.made.starts(SERVER)] == [stopped, 0]
    for name in PARTIES:
        assert [one.process.returncode for one in ended.made.starts(name)] == [0]
    for program in ended.made.started:
        assert program.stderr == "", program.name
        if program.process.returncode == 0:
            assert program.stdout.splitlines()[-1] == "done: 5 rounds done"


def test_restarts_cost_no_round_and_accuse_no_party(ended: Ended) -> None:
    rows, summary = ended.made.rows(), ended.made.summary()
    assert [row["round"] for row in rows] == list(range(ROUNDS))
    assert [row["survivors"] for row in rows] == [[*PARTIES]] * ROUNDS
    assert [row["refusals"] for row in rows] == [[]] * ROUNDS
    assert summary["verification"] == {"confirmed": [*range(ROUNDS)], "void": []}
    assert (summary["exit_code"], summary["reason"]) == (0, "5 rounds done")
    for program in ended.made.started:
        for word in ("refused", "sits out", "sends zeros", "convicted", "stood still", "outside"):
            assert word not in program.stdout, program.stdout


def test_no_metric_and_no_training_failed(ended: Ended) -> None:
    for name in PARTIES:
        log = (ended.made.out(name) / f"{name}.site.jsonl").read_text().splitlines()
        entries = [json.loads(line) for line in log]
        assert [one["round"] for one in entries] == list(range(ROUNDS))
        assert not [one for one in entries if "error" in one or "notes" in one]


def test_audit_verify_and_accounts_are_clean(ended: Ended) -> None:
    audit = ended.made.run(SERVER, "audit", RUN, "--json")
    assert audit.returncode == 0, audit.stdout + audit.stderr
    findings = [one for chapter in json.loads(audit.stdout)["audits"] for one in chapter["findings"]]
    assert [one["claim"] for one in findings if one["severity"] not in {"holds", "note"}] == []
    assert any(
        "follows from the first model and the certified sums of rounds 0 to 4" in one["claim"]
        for one in findings
    )
    verified = ended.made.run(SERVER, "verify", RUN, "--json")
    assert verified.returncode == 0, verified.stdout + verified.stderr
    assert {one["verdict"] for one in json.loads(verified.stdout)["rounds"]} == {"confirmed"}
    for name in PARTIES:
        account = ended.made.run(name, "account", "--key", f"keys/{name}.key")
        assert (account.returncode, account.stderr) == (0, "")
        assert "gave updates to 1 run" in account.stdout


def test_the_files_are_the_models_that_parties_have(ended: Ended) -> None:
    """The last model at the server; the model of the round before at each party; the best one at both."""
    out, names = ended.made.out(SERVER), [f"round-{number:04d}.safetensors" for number in range(ROUNDS)]
    models = [(out / "models" / name).read_bytes() for name in names]
    assert (out / "model.safetensors").read_bytes() == models[-1]
    for name in PARTIES:
        assert (ended.made.out(name) / f"{name}.last.safetensors").read_bytes() == models[-2]
    if "metric =" in ended.variant.scenario:
        values = [row["metrics"]["scores.auc"]["value"] for row in ended.made.rows()]
        best = int(np.argmax(values))
        assert best > 0, "no round improved the first model"
        assert (out / "best.safetensors").read_bytes() == models[best - 1]
        assert ended.made.summary()["outcome"]["evaluation"]["scores.auc"] == values[best]
        for name in PARTIES:
            file = ended.made.out(name) / f"{name}.model.safetensors"
            assert file.read_bytes() == models[best - 1]


def test_models_load_in_plain_torch(ended: Ended) -> None:
    assert len(ended.models) == ROUNDS + 1
    for found in ended.models:
        assert found["finite"]
        assert found["least_variance"] >= 0
    if "[privacy]" in ended.variant.scenario:
        assert ended.models[-1]["variances_of_0"] > 0, "noise led no variance below 0"


def test_reported_metrics_are_those_of_the_files(ended: Ended) -> None:
    for row, found in zip(ended.made.rows(), ended.models, strict=False):
        reported = {name: one["value"] for name, one in row["metrics"].items()}
        if "[privacy]" in ended.variant.scenario:
            check_noised(ended, reported, found)
            stated = row["metrics"]["accuracy"]
            assert abs(stated["value"] - found["accuracy"]) <= 6 * stated["deviation"]
        else:
            check_exact(reported, found)


def check_exact(reported: Mapping[str, float], found: Mapping[str, Any]) -> None:
    """Equal up to the steps of metric words; the AUC is exact in its bins, and near that of all pairs."""
    assert reported.keys() == {"scores.auc", "accuracy", "loss"}
    below, above = (np.array(counts, dtype=np.float64) for counts in found["counts"])
    pairs = above[:, None] * below[None]
    tied = float(np.trace(pairs) / pairs.sum())
    binned = float(np.tril(pairs, -1).sum() / pairs.sum()) + tied / 2
    assert reported["scores.auc"] == pytest.approx(binned, abs=1e-9)
    assert abs(reported["scores.auc"] - found["auc"]) <= tied / 2 + 1e-9
    assert reported["accuracy"] == pytest.approx(found["accuracy"], abs=1e-6)
    assert reported["loss"] == pytest.approx(found["loss"], abs=1e-6)


DRAWS = 4_000
MARGIN = 0.1


def check_noised(ended: Ended, reported: Mapping[str, float], found: Mapping[str, Any]) -> None:
    """Within the numbers of draws of the noise that the settled scenario states, and a margin."""
    scenario = ended.made.scenario()
    cap = scenario["evaluation"]["samples"]
    target = scenario["privacy"]["multiplier"] * scenario["evaluation"]["noise"] * cap * np.sqrt(1 + 2)
    sums = scenario["secure_sum"]
    honest = sums["min_survivors"] - sums["colluders_per_cluster"]
    deviation = target * np.sqrt(len(PARTIES) / honest)
    rng = np.random.default_rng(31)
    samples = found["samples"] + deviation * rng.normal(size=DRAWS)
    right = found["accuracy"] * found["samples"] + deviation * rng.normal(size=DRAWS)
    counts = np.array(found["few_counts"]) + deviation * rng.normal(size=(DRAWS, FEW_BINS))
    drawn = {
        "accuracy": np.clip(right / samples, 0, 1)[samples > 0],
        # A median is stated only if there are more samples than six deviations.
        "chances.median": np.array([median(one) for one in counts if one.sum() > 6 * deviation]),
    }
    assert "accuracy" in reported
    assert reported.keys() <= drawn.keys()
    for name, value in reported.items():
        assert drawn[name].min() - MARGIN <= value <= drawn[name].max() + MARGIN, name


def median(counts: Any) -> float:
    """The median of a histogram over 0 to 1 whose cumulated counts are made to rise, linear within a bin."""
    total = float(counts.sum())
    places = np.linspace(0, 1, len(counts) + 1)
    inner = IsotonicRegression().fit_transform(places[1:-1], np.cumsum(counts)[:-1])
    rising = np.concatenate(([0.0], np.clip(inner, 0.0, total), [total]))
    return float(np.interp(total / 2, rising, places))


def test_training_lowered_the_loss(ended: Ended) -> None:
    """Without noise. With it six parties learn nothing, at any epsilon worth the name."""
    first, *_, last = ended.models
    if "[privacy]" in ended.variant.scenario:
        assert ended.made.summary()["privacy"]["epsilon"] <= 40
    else:
        assert last["training_loss"] < 0.8 * first["training_loss"]
        assert last["auc"] > 0.8


def test_memory_is_within_multiples_of_the_model(ended: Ended) -> None:
    """Beyond the imports: messages of a verified round, and few holes in the heap."""
    model = (ended.made.out(SERVER) / "model.safetensors").stat().st_size
    imports = ended.made.memory_of_imports()
    for name in PARTIES:
        assert ended.made.memory[name] < imports + 110 * model, name
        assert f"{name}.site" in ended.made.memory, "the site has no process of its own"
    assert ended.made.memory[SERVER] < imports + 175 * model
