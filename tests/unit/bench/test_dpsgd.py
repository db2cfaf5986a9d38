from __future__ import annotations

import json
from io import StringIO

import pytest
import torch
from rich.console import Console
from typer.testing import CliRunner

from securefl.base.errors import UsageError
from securefl.cli.bench import app
from securefl.lab.bench.dpsgd import AIMS, PLAIN, DpReport, net, print_dpsgd, run_dpsgd
from securefl.lab.bench.report import report_json
from securefl.training.batched.dp_fleet import fits_fleet
from securefl.training.models.flatten import dimension


@pytest.fixture(scope="module")
def report() -> DpReport:
    return run_dpsgd(batch=3, repetitions=1, steps=1)


def test_both_nets_are_measured_in_every_way(report: DpReport) -> None:
    assert [row.net for row in report.rows] == ["mlp"] * 5 + ["cnn"] * 5
    ways = [row.way for row in report.rows[:5]]
    assert ways == [PLAIN, "DP-SGD", "with a carry", "20 parties at once", "vmap(grad)"]
    assert [row.way for row in report.rows[5:]] == ways
    for row in report.rows:
        assert row.microseconds > 0
        plain = next(other for other in report.rows if (other.net, other.way) == (row.net, PLAIN))
        assert row.ratio == pytest.approx(row.microseconds / plain.microseconds)


def test_the_nets_are_the_papers() -> None:
    assert dimension(net("mlp")) == 25_450
    assert dimension(net("cnn")) == 21_802
    for name in AIMS:
        assert fits_fleet(net(name))
        assert net(name)(torch.zeros(2, 28, 28)).shape == (2, 10)


def test_table_and_json_hold_every_row(report: DpReport) -> None:
    out = StringIO()
    print_dpsgd(Console(file=out, width=80), report)
    assert out.getvalue().count("vmap(grad)") == 2
    read = json.loads(report_json(report))
    assert read["torch"] == torch.__version__
    assert [row["parameters"] for row in read["rows"]] == [25_450] * 5 + [21_802] * 5


def test_the_number_of_threads_is_as_before(report: DpReport) -> None:
    threads = torch.get_num_threads()
    run_dpsgd(batch=1, repetitions=1, steps=1)
    assert torch.get_num_threads() == threads


@pytest.mark.parametrize("arguments", [(0, 1, 1), (3001, 1, 1), (1, 0, 1), (1, 1, 0)])
def test_what_cannot_be_measured(arguments: tuple[int, int, int]) -> None:
    with pytest.raises(UsageError):
        run_dpsgd(*arguments)


def test_command() -> None:
    done = CliRunner().invoke(app, ["dpsgd", "--batch", "2", "--steps", "1", "--repetitions", "1", "--json"])
    assert done.exit_code == 0, done.output
    assert len(json.loads(done.output)["rows"]) == 10
