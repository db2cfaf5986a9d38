"""``securefl dp calibrate``."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest

from tests.unit.cli.programs import call, refusal

FASHION = {"--epsilon": "0.25", "--records": "3000", "--batch": "16", "--epochs": "8"}


def calibrate(**changed: str) -> tuple[str, ...]:
    options = FASHION | {f"--{name}": value for name, value in changed.items()}
    return ("dp", "calibrate", *(part for pair in options.items() for part in pair))


def test_sigma_by_both_accountants_with_its_assumptions() -> None:
    result = call(*calibrate(), width=200)
    assert result.exit_code == 0, result.stderr
    head, pld, pld_other, rdp, rdp_other, note = result.stdout.splitlines()
    assert "T = 1500 steps, q = 0.0053333" in head
    assert pld.startswith("PLD  sigma 2.30")
    assert rdp.startswith("RDP  sigma 2.571")
    for line, relation in ((pld, "add-remove"), (rdp, "add-remove"), (pld_other, "replace-one")):
        assert f"(record, {relation}, Poisson sampling, q = 16/3000, denominator 16, delta 0.00015)" in line
    assert "epsilon 0.649" in rdp_other
    assert "coarse bound" in note


def test_json() -> None:
    result = call(
        *calibrate(accountant="rdp", relation="replace-one", delta="1e-5", records="3001"), "--json"
    )
    assert result.exit_code == 0, result.stderr
    found: dict[str, Any] = json.loads(result.stdout)
    assert (found["unit"], found["relation"], found["sampler"]) == ("record", "replace-one", "poisson")
    assert (found["steps"], found["delta"], found["denominator"]) == (1501, 1e-5, 16)
    assert list(found["sigma"]) == ["rdp"]
    one = found["sigma"]["rdp"]
    assert one["other_relation"] == "add-remove"
    assert one["epsilon_other_relation"] < one["epsilon"] <= 0.25
    assert math.isfinite(one["sigma"])


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"delta": "0.001"}, "--delta: 0.001 is not from 1e-12 to below 1 / records = 0.000333"),
        ({"delta": "0"}, "--delta: 0 is not"),
        ({"batch": "3001"}, "--batch: is 3001, out of range for 3000"),
        ({"batch": "0"}, "--batch: is 0, out of range for 3000"),
        ({"records": "1"}, "--records: is 1 (give 2 to "),
        ({"epochs": "0"}, "--epochs: 0 epochs"),
        ({"epochs": "nan"}, "--epochs: nan epochs"),
        ({"epsilon": "0.001"}, "--epsilon: cannot compute noise for epsilon = 0.001 (choose 0.05 to 50)"),
        ({"epsilon": "1000"}, "--epsilon: cannot compute noise for epsilon = 1000"),
        ({"relation": "swap"}, "--relation: 'swap' is not one of 'add-remove', 'replace-one'"),
        ({"sampler": "shuffle"}, "--sampler: 'shuffle' is not one of 'poisson', 'fixed-size'"),
        ({"accountant": "gdp"}, "--accountant: 'gdp' is not one of 'pld', 'rdp', 'both'"),
    ],
)
def test_one_line_each(changed: dict[str, str], said: str) -> None:
    assert refusal(call(*calibrate(**changed))).startswith(said)


def test_without_the_library(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    assert (
        refusal(call(*calibrate()))
        == "privacy: the privacy accountant needs dp-accounting, which is not installed"
        " (pip install 'securefl[dp]')"
    )
