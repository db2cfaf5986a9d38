from __future__ import annotations

import json
from io import StringIO

import pytest
from rich.console import Console
from typer.testing import CliRunner

from securefl.base.errors import ConfigError, UsageError
from securefl.cli.bench import app, parse_sizes
from securefl.lab.bench.report import report_json
from securefl.lab.bench.robust import (
    FEWEST,
    ROBUST_SIZES,
    RobustReport,
    print_robust,
    rules_for,
    run_robust,
    steps_for,
)
from securefl.scenario.aggregation import PreAggregation, Rule
from securefl.scenario.parts import find, names

PARTS = len(names(Rule)) + len(names(PreAggregation))
"""Rows of a table for one size: one for each rule and each pre-aggregation."""


@pytest.fixture(scope="module")
def report() -> RobustReport:
    return run_robust(((7, 60), (9, 40)), 1)


def test_every_rule_and_every_step_is_measured() -> None:
    for clusters in (FEWEST, *(c for c, _ in ROBUST_SIZES)):
        assert {type(rule) for rule, _ in rules_for(clusters)} == {find(Rule, name) for name in names(Rule)}
        steps = {find(PreAggregation, name) for name in names(PreAggregation)}
        assert {type(step) for step, _ in steps_for(clusters)} == steps
        assert all(rule.clusters_needed <= clusters for rule, _ in rules_for(clusters))


def test_rows(report: RobustReport) -> None:
    assert len(report.rows) == 2 * PARTS
    for row in report.rows:
        assert row.seconds >= 0
        assert row.memory > 0
        if row.floor_seconds:  # of one repetition, so that all medians are of one pair
            assert row.ratio == pytest.approx(row.seconds / row.floor_seconds)


def test_memory_stays_within_a_few_inputs() -> None:
    """c d + c^2 and not c^2 d: no cube in any rule."""
    for row in run_robust(((24, 6_000),), 1).rows:
        assert row.memory < 3.5, row


def test_tables_and_json_hold_every_row(report: RobustReport) -> None:
    out = StringIO()
    print_robust(Console(file=out, width=80), report)
    assert out.getvalue().count("zeno++") == out.getvalue().count("arc") == 2
    read = json.loads(report_json(report))
    assert [row["name"] for row in read["rows"]][:2] == ["mean", "median"]


def test_sizes() -> None:
    assert parse_sizes("20x1e6, 60x100", "clusters", FEWEST) == ((20, 1_000_000), (60, 100))


@pytest.mark.parametrize("text", ["", "20", "20x", "x5", "6x10", "20x0", "20x1.5", "20xinf", "axb"])
def test_bad_sizes_are_named(text: str) -> None:
    with pytest.raises(ConfigError, match="--rows"):
        parse_sizes(text, "clusters", FEWEST)


@pytest.mark.parametrize(("sizes", "repetitions"), [(((6, 10),), 1), (((7, 0),), 1), (((7, 10),), 0)])
def test_what_cannot_be_measured(sizes: tuple[tuple[int, int], ...], repetitions: int) -> None:
    with pytest.raises(UsageError):
        run_robust(sizes, repetitions)


def test_command() -> None:
    done = CliRunner().invoke(app, ["robust", "--rows", "7x50", "--repetitions", "1", "--json"])
    assert done.exit_code == 0, done.output
    assert len(json.loads(done.output)["rows"]) == PARTS
    refused = CliRunner().invoke(app, ["robust", "--rows", "7y50"])
    assert refused.exit_code == 2
    assert "is not a size" in refused.output
