"""An NVFlare client script in NVFlare's own simulator and as a site."""

from __future__ import annotations

import json
import re
import shutil
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file

from securefl.base.errors import ConfigError
from securefl.training.sites.layout import SiteError
from securefl.training.sites.site import Delta, RoundContext
from tests.interop.commands import NVFLARE, ROOT, command, evaluated, federation, securefl, site_of

pytestmark = pytest.mark.interop

SCRIPT = """
import sys
import numpy as np
import nvflare.client as flare

samples = 6

def main(body):
    flare.init()
    while flare.is_running():
        received = flare.receive()
        assert flare.is_train() and not flare.is_evaluate() and flare.get_site_name() == "p00"
        arrays = {{name: np.asarray(one) + 1 for name, one in received.params.items()}}
        {}
"""
SEND = "flare.send(flare.FLModel(params=arrays, metrics={'loss': received.current_round, 'text': 'x'}))"
FIRST = {"w": np.zeros((2, 3), np.float32), "b": np.ones(2, np.float32)}


def script(folder: Path, body: str, whole: str = SCRIPT) -> Path:
    path = folder / "ward.py"
    path.write_text(whole.format(body) + "\nmain(sys.argv[1:])\n")
    return path


def told(number: int) -> RoundContext:
    return RoundContext(number, 3, 1)


def test_accuracies_are_those_of_nvflares_simulator(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Both print what a site sees of the model that it receives; the run has the simulation's bits."""
    folder = shutil.copytree(ROOT / "examples" / "nvflare_script", tmp_path / "app")
    job = [str(NVFLARE), str(ROOT / "interop" / "nvflare_job.py"), str(tmp_path / "workspace")]
    printed = command(job, folder, PYTHONPATH="")
    sites = defaultdict(list)
    for number, accuracy in re.findall(r"round (\d+): accuracy of the model received ([\d.]+)", printed):
        sites[int(number)].append(float(accuracy))
    theirs = [float(np.mean(sites[number])) for number in sorted(sites)]
    securefl(f"site|weights|train:Net|--site-python|{NVFLARE}|--out|initial.safetensors", folder)
    securefl(f"site|check|federation.toml|train.py|--site-python|{NVFLARE}", folder)
    for line in (
        "simulate|federation.toml|--exact|--out|simulated|--site|train.py --epochs 5",
        "simulate|federation.toml|--exact|--out|diff|--site|train.py --diff",
        "run|federation.toml|--broker|embedded|--out|out|--site|train.py",
    ):
        securefl(f"{line}|--site-python|{NVFLARE}|--insecure-seeded-entropy", folder)
    found = evaluated(folder / "out", "accuracy")
    with capsys.disabled():
        print("\naccuracy of the model at the beginning of each round")
        print("nvflare   " + " ".join(f"{one:.4f}" for one in theirs))
        print("securefl  " + " ".join(f"{one:.4f}" for one in found))
    np.testing.assert_allclose(found, theirs, atol=0.01)
    model = (folder / "out" / "model.safetensors").read_bytes()
    assert model == (folder / "simulated" / "model.safetensors").read_bytes()
    other = load_file(folder / "diff" / "model.safetensors")
    for name, array in load_file(folder / "out" / "model.safetensors").items():
        np.testing.assert_allclose(array, other[name], atol=1e-5)
    lines = [json.loads(line) for line in (folder / "out" / "p00.site.jsonl").read_text().splitlines()]
    assert any("accuracy of the model received" in line.get("printed", "") for line in lines)


def test_it_trains_once_a_round_and_goes_on(tmp_path: Path) -> None:
    site = site_of(str(script(tmp_path, SEND)), federation(tmp_path, FIRST), NVFLARE)
    assert site.samples == 6
    for number in range(2):
        assert site.evaluate(FIRST, told(number)) == (6, {"loss": number})
        arrays, count, metrics = site.fit(FIRST, told(number))
        np.testing.assert_array_equal(arrays["b"], FIRST["b"] + 1)
        assert (count, metrics) == (6, {})
    site.close()


def test_differences_and_integers(tmp_path: Path) -> None:
    body = "change = {name: np.ones_like(one) for name, one in arrays.items()}; assert arrays['n'] < 6\n"
    body += "        flare.send(flare.FLModel(params=change, params_type='DIFF'))"
    scenario = federation(
        tmp_path, FIRST, head={"order": ["w", "n", "b"], "local": {"n": ["int64", [], [4]]}}
    )
    site = site_of(str(script(tmp_path, body)), scenario, NVFLARE)
    change, _, _ = site.fit(FIRST, told(0))
    assert isinstance(change, Delta)
    assert sorted(change.arrays) == ["b", "w"]
    np.testing.assert_array_equal(change.arrays["b"], np.ones(2))
    # n was 4 and is 5 now; adding 1 in the script makes 6.
    with pytest.raises(SiteError, match=r"ward\.py failed: AssertionError"):
        site.fit(FIRST, told(1))
    site.close()


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (f"{SEND}\n        return", "ward.py ended before this round (a script goes on while"),
        (f"{SEND}; {SEND}", "ward.py failed: RuntimeError: sends a model without having received one"),
        ("raise KeyError('no such patient')", "ward.py failed: KeyError: 'no such patient'"),
        ("sys.exit(3)", "ward.py failed: exits with 3"),
        ("return", "ward.py ended without sending a model (a script goes on while"),
        ("flare.send(flare.FLModel(metrics={'auc': 1.0}))", "ward.py sent params of type NoneType"),
        ("flare.send(flare.FLModel(params={'b': 'x'}))", "b has dtype <U1, expected numbers"),
    ],
)
def test_what_a_script_does_wrong_costs_a_round_and_is_one_line(body: str, said: str, tmp_path: Path) -> None:
    site = site_of(str(script(tmp_path, body)), federation(tmp_path, FIRST), NVFLARE)

    def rounds() -> None:
        for number in range(2):
            site.fit(FIRST, told(number))

    with pytest.raises(SiteError) as refused:
        rounds()
    assert said in str(refused.value)
    assert "\n" not in str(refused.value)
    site.close()


def test_a_script_that_failed_is_run_again(tmp_path: Path) -> None:
    body = f"assert received.current_round != 1, 'bad day'; {SEND}"
    site = site_of(str(script(tmp_path, body)), federation(tmp_path, FIRST), NVFLARE)
    site.fit(FIRST, told(0))
    with pytest.raises(SiteError, match=r"ward\.py failed: AssertionError: bad day"):
        site.fit(FIRST, told(1))
    assert site.fit(FIRST, told(2))[1] == 6
    site.close()


@pytest.mark.parametrize(
    ("whole", "said"),
    [
        (SCRIPT.replace("samples = 6", ""), "ward.py does not say how many samples the party has"),
        ("import sys\nmain = print\n{}", "ward.py ended before it received a model"),
        ("import sys\nraise ValueError('no data')\n{}", "ward.py failed: ValueError: no data"),
    ],
)
def test_a_script_that_cannot_be_a_site_is_refused(whole: str, said: str, tmp_path: Path) -> None:
    path = script(tmp_path, SEND if "flare" in whole else "", whole)
    with pytest.raises(ConfigError, match=re.escape(said)) as refused:
        site_of(str(path), federation(tmp_path, FIRST), NVFLARE)
    assert "\n" not in str(refused.value)


def test_an_environment_without_nvflare_is_named(tmp_path: Path) -> None:
    scenario: Any = federation(tmp_path, FIRST)
    body = "import sys\nmain = print\n{}"
    with pytest.raises(ConfigError, match=r"nvflare cannot be imported.*--site-python names the interpreter"):
        site_of(str(script(tmp_path, "", body)), scenario, ROOT / ".venv" / "bin" / "python")
