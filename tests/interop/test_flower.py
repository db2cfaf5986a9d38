"""A Flower app in Flower's own simulation and as a site: the same files, the same accuracies."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file

from securefl.base.errors import ConfigError
from securefl.training.sites.layout import SiteError
from securefl.training.sites.site import RoundContext
from tests.interop.commands import FLOWER, LIMIT, ROOT, command, evaluated, federation, securefl, site_of

pytestmark = pytest.mark.interop

STYLES = {"client": "server", "older": "older_server"}
APP = """
import os
import numpy as np
from flwr.app import Array, ArrayRecord, ConfigRecord, Message, MetricRecord, RecordDict
from flwr.client import NumPyClient
from flwr.clientapp import ClientApp

def samples(context):
    return 10 + context.node_config["partition-id"]

def trains(app, change):
    @app.train()
    def train(message, context):
        arrays = {name: array.numpy() for name, array in message.content["arrays"].items()}
        state = context.state.setdefault("seen", ConfigRecord({"rounds": 0}))
        state["rounds"] += 1
        found, metrics = change(arrays, message.content["config"], state)
        records = {"arrays": ArrayRecord({name: Array(np.asarray(one)) for name, one in found.items()})}
        return Message(RecordDict({**records, "metrics": MetricRecord(metrics)}), reply_to=message)
    return app

def good(arrays, config, state):
    after = {name: one + 1 for name, one in arrays.items()}
    order = float(list(arrays) == ["w", "count", "b"])
    seen = {"rounds": state["rounds"], "server-round": config["server-round"], "count": int(arrays["count"])}
    return after, {"num-examples": 10, "order": order, "history": [1.0, 2.0], **seen}

def uncounted(arrays, config, state):
    return arrays, {"loss": 1.0}

def dies(arrays, config, state):
    if config["server-round"] == 2:
        os._exit(7)
    return good(arrays, config, state)

app, no_count, fragile = (trains(ClientApp(), one) for one in (good, uncounted, dies))

def clipping_mod(message, context, call_next):
    return call_next(message, context)

def noise_mod(message, context, call_next):
    return call_next(message, context)

all_mods = ClientApp(mods=[clipping_mod])
one_mod = ClientApp()
@one_mod.train(mods=[clipping_mod, noise_mod])
def train(message, context):
    return message
without = ClientApp()

class Client(NumPyClient):
    def fit(self, parameters, config):
        same = [one.shape for one in parameters] == [(2, 3), (), (2,)]
        return [one + 1 for one in parameters], 10, {"same": float(same), "round": config["server_round"]}

class Short(NumPyClient):
    def fit(self, parameters, config):
        return parameters[:2], 10, {}
    def evaluate(self, parameters, config):
        return 0.5, 3, {"accuracy": 0.25}

older_mods = ClientApp(lambda context: Client().to_client(), mods=[noise_mod])

def client_fn(context):
    return Client().to_client()
older = ClientApp(client_fn)

def short_fn(context):
    return Short().to_client()
short = ClientApp(short_fn)
"""
FIRST = {"w": np.zeros((2, 3), np.float32), "b": np.ones(2, np.float32)}
COUNT = {"count": ["int64", [], [4]]}
"""An integer that stands between two arrays in the app's own order."""


@pytest.fixture(scope="module")
def flwr(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """Flower's own simulation, as its documents start it, but that it installs nothing: its environment."""
    home = tmp_path_factory.mktemp("flwr")
    with socket.create_server(("127.0.0.1", 0)) as one, socket.create_server(("127.0.0.1", 0)) as other:
        ports = [str(each.getsockname()[1]) for each in (one, other)]
    link = f'[superlink]\ndefault = "here"\n[superlink.here]\naddress = "127.0.0.1:{ports[0]}"\n'
    (home / "config.toml").write_text(f"{link}insecure = true\n")
    environment = {
        "FLWR_HOME": str(home),
        "FLWR_TELEMETRY_ENABLED": "0",
        "PATH": f"{FLOWER.parent}:{os.environ['PATH']}",
    }
    words = [
        *("flower-superlink", "--insecure", "--simulation", "--disable-runtime-dependency-installation"),
        *("--host", "127.0.0.1", "--port", ports[0], "--control-api-address", f"127.0.0.1:{ports[1]}"),
    ]
    process = subprocess.Popen(
        [str(FLOWER.parent / words[0]), *words[1:]],
        env={**os.environ, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    assert process.stdout is not None
    assert any("running on" in line for line in process.stdout)
    try:
        yield environment
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGTERM)
        process.communicate(timeout=LIMIT)


@pytest.mark.parametrize("style", STYLES)
def test_accuracies_are_those_of_flowers_simulation(
    style: str, tmp_path: Path, flwr: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    """Flower evaluates after a round, a site before the next: its round n is our round n + 1, from 0."""
    folder = shutil.copytree(ROOT / "examples" / "flower_app", tmp_path / "app")
    project = folder / "pyproject.toml"
    text = project.read_text().replace("flower_app.client:app", f"flower_app.{style}:app")
    project.write_text(text.replace("flower_app.server:app", f"flower_app.{STYLES[style]}:app"))
    out = tmp_path / "flower.json"
    command(
        [
            *(str(FLOWER.parent / "flwr"), "run", ".", "here", "--stream"),
            *("--federation-config", "num-supernodes=5", "--run-config", f"out='{out}'"),
        ],
        folder,
        **flwr,
    )
    told = json.loads(out.read_text())
    site = f"--site|flower_app.{style}:app|--site-python|{FLOWER}"
    securefl(f"site|weights|flower_app.task:Net|--site-python|{FLOWER}|--out|initial.safetensors", folder)
    securefl(f"site|check|federation.toml|flower_app.{style}:app|--site-python|{FLOWER}", folder)
    securefl(f"simulate|federation.toml|{site}|--out|simulated", folder)
    securefl(f"run|federation.toml|{site}|--broker|embedded|--out|out", folder)
    with capsys.disabled():
        print(f"\n{style}: accuracy of the model after each round")
        print("flower    " + " ".join(f"{one:.4f}" for one in told["accuracy"]))
    for where in ("simulated", "out"):
        found = evaluated(folder / where, "accuracy")
        with capsys.disabled():
            print(f"{where:<10}" + " ".join(f"{one:.4f}" for one in found[1:]))
        np.testing.assert_allclose(found[1:], told["accuracy"][:-1], atol=0.01)
        model = load_file(folder / where / "model.safetensors")
        assert model.keys() == told["model"].keys() - {"norm.num_batches_tracked"}
        for name, array in model.items():
            np.testing.assert_allclose(array, told["model"][name], atol=0.02)


def test_batch_statistics_may_stay_at_the_sites(tmp_path: Path) -> None:
    folder = shutil.copytree(ROOT / "examples" / "flower_app", tmp_path / "app")
    weights = f"site|weights|flower_app.task:Net|--site-python|{FLOWER}|--local|norm.running_*"
    assert "3 arrays kept at the sites: norm.running_mean, norm.running_var, norm.num" in securefl(
        weights, folder
    )
    site = f"--site|flower_app.client:app|--site-python|{FLOWER}"
    securefl(f"simulate|federation.toml|{site}|--out|out", folder)
    assert "norm.running_var" not in load_file(folder / "out" / "model.safetensors")


@pytest.fixture
def apps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    (tmp_path / "apps_of_tests.py").write_text(APP)
    monkeypatch.syspath_prepend(tmp_path)
    yield federation(tmp_path, FIRST, head={"order": ["w", "count", "b"], "local": COUNT})
    sys.modules.pop("apps_of_tests", None)


def told(number: int) -> RoundContext:
    return RoundContext(number, 3, 1)


def test_state_and_what_does_not_travel_stay_at_the_site(apps: Any) -> None:
    site = site_of("apps_of_tests:app", apps, FLOWER)
    assert site.samples == 10
    assert not hasattr(site, "evaluate")
    for number in range(2):
        arrays, count, metrics = site.fit(FIRST, told(number))
        np.testing.assert_array_equal(arrays["b"], FIRST["b"] + 1)
        assert (sorted(arrays), count) == (["b", "w"], 10)
        assert metrics == {
            "order": 1.0,
            "rounds": number + 1,
            "server-round": number + 1,
            "count": 4 + number,
        }
    site.close()


def test_a_process_that_is_started_again_has_lost_them(apps: Any) -> None:
    site = site_of("apps_of_tests:fragile", apps, FLOWER)
    assert site.fit(FIRST, told(0))[2]["rounds"] == 1
    with pytest.raises(SiteError, match=r"its process ended \(exit code 7\)"):
        site.fit(FIRST, told(1))
    assert site.fit(FIRST, told(2))[2] == {"order": 1.0, "rounds": 1, "server-round": 3, "count": 4}
    site.close()


def test_lists_of_an_older_client_have_its_order(apps: Any) -> None:
    site = site_of("apps_of_tests:older", apps, FLOWER)
    arrays, count, metrics = site.fit(FIRST, told(0))
    np.testing.assert_array_equal(arrays["w"], FIRST["w"] + 1)
    assert (count, metrics) == (10, {"same": 1.0, "round": 1})
    assert site.evaluate(FIRST, told(0)) == (0, {})
    site.close()
    site = site_of("apps_of_tests:short", apps, FLOWER)
    with pytest.raises(SiteError, match=r"^fit returned 2 arrays, expected 3: w, count, b"):
        site.fit(FIRST, told(0))
    assert site.evaluate(FIRST, told(0)) == (3, {"loss": 0.5, "accuracy": 0.25})
    site.close()


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("all_mods", "p00: the ClientApp has the mod clipping_mod (take it out: securefl clips"),
        ("one_mod", "p00: the ClientApp has the mod clipping_mod, noise_mod (take it out"),
        ("older_mods", "p00: the ClientApp has the mod noise_mod (take it out"),
        ("without", "p00: the ClientApp has neither @app.train() nor a client_fn"),
    ],
)
def test_an_app_that_cannot_be_a_site_is_refused_in_one_line(name: str, said: str, apps: Any) -> None:
    with pytest.raises(ConfigError) as refused:
        site_of(f"apps_of_tests:{name}", apps, FLOWER)
    assert str(refused.value).startswith(f"--site apps_of_tests:{name}: {said}")
    assert "\n" not in str(refused.value)


def test_who_does_not_count_is_told_so(apps: Any, tmp_path: Path) -> None:
    site = site_of("apps_of_tests:no_count", apps, FLOWER)
    with pytest.raises(SiteError, match=r"^train replied without the metric num-examples"):
        site.fit(FIRST, told(0))
    with pytest.raises(SiteError, match=r"cannot be told to train on its first samples only .*weighting.use"):
        site.fit(FIRST, RoundContext(1, 3, 1, 2))
    site.close()
    (tmp_path / "apps_of_tests.py").write_text(APP.replace("def samples", "def others"))
    with pytest.raises(ConfigError, match=r"apps_of_tests does not say how many samples .*set samples there"):
        site_of("apps_of_tests:app", apps, FLOWER)


def test_vectors_are_what_flower_computes(tmp_path: Path) -> None:
    out = tmp_path / "vectors.json"
    command([str(FLOWER), str(ROOT / "interop" / "flower_optimisers.py"), str(out)], tmp_path)
    kept = json.loads((ROOT / "tests" / "vectors" / "flower_optimisers.json").read_text())
    made = json.loads(out.read_text())
    assert kept["changes"] == made["changes"]
    for one, other in zip(kept["cases"], made["cases"], strict=True):
        np.testing.assert_allclose(one.pop("models"), other.pop("models"), rtol=1e-12)
        assert one == other
