from __future__ import annotations

import json
from io import StringIO

import pytest
import torch
from rich.console import Console
from typer.testing import CliRunner

from securefl.base.errors import UsageError
from securefl.cli.bench import app
from securefl.lab.bench import sites
from securefl.lab.bench.report import report_json
from securefl.lab.bench.sites import BARE, BUILT_IN, SITE, TRAINER, SiteReport, print_sites, run_sites


@pytest.fixture(scope="module")
def report() -> SiteReport:
    return run_sites(length=1 << 20, repetitions=1)


def test_every_way_is_measured_with_both_kinds_of_batches(report: SiteReport) -> None:
    ways = [(row.batches, row.way) for row in report.here]
    order = (TRAINER, SITE, BARE, BUILT_IN)
    assert ways == [(batches, way) for batches in ("DataLoader", "ready") for way in order]
    assert all(row.milliseconds > 0 and row.low <= row.ratio <= row.high for row in report.here)
    assert [row.ratio for row in report.here if row.way == TRAINER] == [1.0, 1.0]


def test_an_array_lies_twice_in_shared_memory_and_nowhere_else(report: SiteReport) -> None:
    """4 MiB of parameters: what an interpreter needs besides is a small part of a copy."""
    assert report.apart.shared == pytest.approx(2, abs=0.01)
    assert report.apart.party < 0.05
    assert report.apart.site < 0.5


def test_another_loop_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rates of 0.1 in the site, and of half of it in the loop."""
    rates = iter((0.1, 0.05) * 8)
    monkeypatch.setattr(sites, "_sgd", lambda weights: torch.optim.SGD(weights, lr=next(rates)))
    with pytest.raises(UsageError, match="gave different parameters"):
        run_sites(length=4, repetitions=1)


def test_tables_and_json_hold_every_row(report: SiteReport) -> None:
    out = StringIO()
    print_sites(Console(file=out, width=80), report)
    assert out.getvalue().count(SITE) == 3
    assert "copies in shared memory" in out.getvalue()
    read = json.loads(report_json(report))
    assert (read["torch"], len(read["here"])) == (torch.__version__, 8)
    assert read["apart"]["length"] == 1 << 20


@pytest.mark.parametrize("arguments", [(0, 1), (1, 0)])
def test_what_cannot_be_measured(arguments: tuple[int, int]) -> None:
    with pytest.raises(UsageError):
        run_sites(*arguments)


def test_command() -> None:
    done = CliRunner().invoke(app, ["sites", "--length", "10", "--repetitions", "1", "--json"])
    assert done.exit_code == 0, done.output
    assert len(json.loads(done.output)["here"]) == 8
