"""``securefl plot`` and ``RunResult.plot``: what a run measured, as a picture."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

import securefl
from securefl.base.errors import ConfigError, RunAbortedError
from securefl.lab.plots.run_figure import draw_run, run_plot
from securefl.methods.metrics.pooling import Measured
from securefl.runtime.report.records import RoundRecord
from securefl.scenario.load import parse_scenario
from tests.unit.cli.programs import call, refusal

BASE = 'name = "x"\nparties = 6\n'


def record(round_: int, accuracy: float | None, *metrics: Measured) -> RoundRecord:
    return RoundRecord(
        round=round_, accuracy=accuracy, loss=accuracy, update_norm=None, participants=(), counted=(),
        left_out=(), sums=(), kept=(), rejected=(), lost={}, redraws=0, retries=0, seconds={}, traffic={},
        refusals={}, metrics=metrics,
    )  # fmt: skip


def measured(value: float, low: float, high: float, name: str = "scores.auc") -> Measured:
    return Measured(name, value, value, value, low, high, 3, True)  # noqa: FBT003


def test_numbers_of_sites_have_their_spread_and_the_kept_round() -> None:
    scenario = parse_scenario(
        BASE,
        (
            "stop.metric=scores.auc",
            "evaluation={samples=9, repeats='accept', metrics=[{name='scores', kind='histogram'}]}",
        ),
    )
    records = [
        record(0, None, measured(0.5, 0.4, 0.6)),
        record(1, None),
        record(2, None, measured(0.9, 0.8, 0.95), measured(1.0, 1.0, 1.0, "loss")),
        record(3, None, measured(0.8, 0.7, 0.9)),
    ]
    plot = run_plot(scenario, records)
    assert (plot.title, plot.rounds) == ("x", (0, 1, 2, 3))
    auc, loss = plot.traces
    assert (auc.label, auc.best, loss.best) == ("scores.auc", 2, None)
    assert auc.values[0::2] == (0.5, 0.9)
    assert math.isnan(auc.values[1])
    assert (auc.low[2], auc.high[2]) == (0.8, 0.95)
    assert [one.label for one in run_plot(scenario, records, ["loss"]).traces] == ["loss"]


def test_a_test_set_gives_accuracy_and_loss() -> None:
    plot = run_plot(parse_scenario(BASE), [record(0, 0.5), record(1, 0.75)])
    assert [(one.label, one.values, one.low) for one in plot.traces] == [
        ("accuracy", (0.5, 0.75), ()),
        ("loss", (0.5, 0.75), ()),
    ]


def test_numbers_beyond_any_axis_are_left_out() -> None:
    """The differences of such numbers overflow in matplotlib."""
    records = [record(0, 0.5), record(1, 1.7e308), record(2, -1.7e308)]
    plot = run_plot(parse_scenario(BASE), records)
    assert plot.traces[0].values[0] == 0.5
    assert all(map(math.isnan, plot.traces[0].values[1:]))
    assert draw_run(plot).startswith(b"\x89PNG")


def test_nothing_measured_is_said() -> None:
    with pytest.raises(ConfigError, match=r"run: has no numbers"):
        run_plot(parse_scenario(BASE), [record(0, None)])
    with pytest.raises(ConfigError, match=r"--metric: the run did not measure f1 \(.*accuracy, loss"):
        run_plot(parse_scenario(BASE), [record(0, 0.5)], ["f1"])


def test_the_command_and_python_draw_a_run(tmp_path: Path) -> None:
    result = securefl.simulate("quickstart", seed=1, out=tmp_path / "run")
    done = call("plot", tmp_path / "run")
    assert (done.exit_code, done.stdout.strip()) == (0, f"{tmp_path / 'run'}/rounds.png: accuracy, loss")
    picture = (tmp_path / "run" / "rounds.png").read_bytes()
    assert picture.startswith(b"\x89PNG")
    again = result.plot(tmp_path / "again.png")
    assert again.read_bytes() == picture
    one = result.plot(tmp_path / "new" / "one.png", "loss").read_bytes()
    assert one == result.plot(tmp_path / "two.png", ["loss", "loss"]).read_bytes() != picture
    assert b"<svg" in result.plot(tmp_path / "one.svg", ["accuracy"]).read_bytes()
    with pytest.raises(RunAbortedError, match="cannot be written"):
        result.plot(tmp_path / "again.png" / "one.png")
    assert "not a picture" in refusal(call("plot", tmp_path / "run", "--out", tmp_path / "x.jpg"))
    assert "--metric: the run did not measure f1" in refusal(call("plot", tmp_path / "run", "--metric", "f1"))
    assert "is not the directory of a run: scenario.toml is missing" in refusal(call("plot", tmp_path))
