"""The power table: sums with and without deviations, and its page."""

from __future__ import annotations

from pathlib import Path

import msgspec
import numpy as np
import pytest

from securefl.base.entropy import InsecureSeededEntropy
from securefl.lab.experiments.deviations import DEVIATIONS, STD, Deviation, PowerSetting
from securefl.lab.experiments.power import (
    ALL,
    ALPHA,
    PUBLISHED,
    SETTINGS,
    PowerRecord,
    failures,
    measure_power,
)
from securefl.lab.experiments.power_page import power_page
from securefl.lab.experiments.record import encode
from securefl.methods.privacy.checks.family import OpenedSum, check_sums
from securefl.methods.privacy.checks.verdict import KINDS
from tests.looped import looped

SMALL = PowerSetting(dim=500, members=6)
RESULTS = Path(__file__).parents[3] / "docs" / "results"
BY_NAME = {deviation.name: deviation for deviation in DEVIATIONS}


def measured(trials: int = 2) -> PowerRecord:
    return measure_power(trials, 1, [SMALL], lambda *_: None)


@looped(
    "deviation, members",
    [(deviation, members) for deviation in DEVIATIONS for members in (deviation.fewest, 20)],
)
def test_every_kind_of_sum_can_be_made(deviation: Deviation, members: int) -> None:
    root = InsecureSeededEntropy(1)
    values = deviation.make(PowerSetting(dim=500, members=members), root.child("fixed"), root.child("now"))
    assert values.shape == (500,)
    assert values.dtype == np.int64


@pytest.mark.parametrize("setting", [SMALL, PowerSetting(dim=3_000, members=2, multiplier=0.05)])
def test_honest_signals_keep_to_the_allowance(setting: PowerSetting) -> None:
    """What noise adds to nothing is the signal: the same noise is drawn for all."""
    root = InsecureSeededEntropy(2)
    fixed, fresh = root.child("fixed"), root.child("now")

    def values(name: str) -> np.ndarray:
        return BY_NAME[name].make(setting, fixed, InsecureSeededEntropy(3).child("now"))

    allowance = setting.plan(0.01).null(setting.members).allowance
    noise = values("honest, no signal")
    norms = {
        deviation.name: float(np.linalg.norm(values(deviation.name) - noise))
        for deviation in DEVIATIONS
        if deviation.honest
    }
    assert len(norms) == 4
    assert max(norms.values()) <= allowance
    assert all(norm > 0.9 * setting.members * setting.norm for norm in list(norms.values())[1:])
    assert fresh.draw(4) != fixed.draw(4)


@pytest.mark.parametrize(
    ("name", "variance"),
    [
        ("1 member adds no noise", 5.0),
        ("half the members add no noise", 3.0),
        ("1 member's noise x 1.5", 5 + 1.5**2),
        ("1 member sorts its noise along a direction", 6.0),
        ("1 member sends -10 x its noisy upload", 105.0),
    ],
)
def test_deviations_have_the_noise_that_they_say(name: str, variance: float) -> None:
    """In units of one member's; 20,000 coordinates know it to 1 %, and the signal adds 1e-4 of it."""
    root = InsecureSeededEntropy(4)
    setting = PowerSetting(dim=20_000, members=6, multiplier=2.0)
    values = BY_NAME[name].make(setting, root.child("fixed"), root.child("now"))
    assert np.square(values / STD).mean() == pytest.approx(variance, rel=0.05)


def test_the_record_counts_every_check_of_every_row_and_is_repeatable() -> None:
    record = measured()
    assert record == measured()
    (block,) = record.blocks
    assert [row.deviation for row in block.rows] == [d.name for d in DEVIATIONS]
    for row in block.rows:
        assert tuple(row.failed) == (*PUBLISHED, *KINDS[:-1], ALL, KINDS[-1])
        assert all(0 <= count <= 2 for count in row.failed.values())
    failed = {row.deviation: row.failed[ALL] for row in block.rows}
    assert failed["1 member sends -10 x its noisy upload"] == 2
    assert failed["honest, all signals aligned"] == 0


def test_all_is_what_a_run_does() -> None:
    """Sorted noise, with last round's for reference: the projection finds it, and no check of a run."""
    setting, root = PowerSetting(dim=1_000, members=5), InsecureSeededEntropy(6)
    deviation, plan = BY_NAME["1 member sorts its noise along a direction"], setting.plan(ALPHA)
    before, now = (
        deviation.make(setting, root.child("fixed"), root.child(name)) for name in ("before", "now")
    )
    failed = failures(now, before, setting, plan)
    assert failed["projection"]
    assert not failed[ALL]
    assert failed[ALL] != check_sums([OpenedSum(now, 5)], plan)[0].ok


def test_the_page_shows_every_row() -> None:
    record = measured()
    text = power_page(record)
    for row in record.blocks[0].rows:
        assert f"\n| {row.deviation} | " in text
    assert "## d = 500, sums of 6 parties" in text
    assert "2 sums for each row, seed 1" in text


def test_the_page_in_the_documents_is_that_of_the_record_beside_it() -> None:
    content = (RESULTS / "checks.json").read_bytes()
    record = msgspec.json.decode(content, type=PowerRecord)
    assert encode(record) == content
    assert power_page(record) == (RESULTS / "checks.md").read_text(encoding="utf-8")
    assert len(record.blocks) == len(SETTINGS)
    honest = [row for block in record.blocks for row in block.rows if row.honest]
    assert max(row.failed[ALL] for row in honest) <= 0.05 * record.trials
    rows = [row for block in record.blocks for row in block.rows if "sorts its noise" in row.deviation]
    assert all(row.failed[ALL] <= 0.05 * record.trials for row in rows), "no run finds sorted noise"
    assert max(row.failed["projection"] for row in rows) == record.trials
