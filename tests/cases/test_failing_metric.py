"""An evaluation that fails costs the metrics of its site, not its training (users/17)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

import securefl
from tests.cases.users.play import MSE, linear, loader, play, sgd

EXTRA = """
[evaluation]
repeats = "accept"
[[evaluation.metrics]]
name = "loss"
kind = "mean"
upper = 8
better = "lower"
"""


def made(found: Any) -> securefl.TorchSite:
    return securefl.TorchSite(linear(), loader(), MSE, sgd(0.05), evaluate=lambda _model: found)


def site(name: str) -> securefl.TorchSite:
    """One site has no samples to test on, another returns a truth value besides."""
    found = {
        "p00": (0, {"loss": 0.0}),
        "p01": (32, {"loss": 1.0, "early_stop": True}),
        "p02": (32, {"loss": 2.0}),
    }
    return made(found[name])


def site_alone(_name: str) -> securefl.TorchSite:
    return made((32, {"loss": 1.0}))


def site_of_words(name: str) -> securefl.TorchSite:
    """The metric of one site is a text: it counts for no mean."""
    return made((32, {"loss": "1.0" if name == "p00" else 3.0}))


def moved(result: securefl.RunResult) -> float:
    return float(np.abs(result.arrays()["weight"] - linear().get_parameter("weight").detach().numpy()).max())


def test_all_sites_train(tmp_path: Path) -> None:
    full = play(tmp_path, site_alone, 1, EXTRA, "alone")
    for name, maker in (("some", site), ("words", site_of_words)):
        result = play(tmp_path, maker, 1, EXTRA, name)
        assert moved(result) == moved(full) > 0.1
        assert result.rounds[0].failures == {}


def test_the_mean_is_that_of_sites_that_measured(tmp_path: Path) -> None:
    assert play(tmp_path, site, 1, EXTRA).metrics["loss"] == 1.5
    assert play(tmp_path, site_of_words, 1, EXTRA, "words").metrics["loss"] == 3.0
