from __future__ import annotations

import json
from io import StringIO
from typing import Any

import numpy as np
import pytest
from rich.console import Console
from typer.testing import CliRunner

from securefl.base.arrays import Ring
from securefl.base.entropy import InsecureSeededEntropy
from securefl.base.errors import ConfigError, UsageError
from securefl.cli.bench import app, parse_sizes
from securefl.lab.bench.meter import Meter
from securefl.lab.bench.rehearsal import ENCODE
from securefl.lab.bench.report import aim, print_report, report_json
from securefl.lab.bench.secagg import SIZES, BenchReport, BenchRow, run_secagg, standard_rows
from securefl.protocol.secure_sum.masking import opening

ROWS = (BenchRow(3, 10), BenchRow(3, 20_000), BenchRow(3, 20_000, 1), BenchRow(9, 10), BenchRow(6, 10_000))


@pytest.fixture(scope="module")
def report() -> BenchReport:
    return run_secagg(ROWS, 1, InsecureSeededEntropy(1))


def test_every_row_is_measured_on_both_sides(report: BenchReport) -> None:
    assert tuple(result.row for result in report.rows) == ROWS
    for result in report.rows:
        for side in (result.member, result.server):
            assert side.seconds > 0
            assert side.floor == pytest.approx(sum(side.floor_parts.values()))
            assert side.ratio == pytest.approx(side.seconds / side.floor)
            assert ENCODE not in side.stages
        assert result.member.encode > 0
        assert result.server.encode == 0
        assert sum(result.server.stages.values()) == pytest.approx(result.server.seconds)


def test_bytes_fit_shares_formula(report: BenchReport) -> None:
    for fit in (report.member_bytes, report.server_bytes):
        assert fit is not None
        assert fit.per_word == pytest.approx(4, abs=0.1)
        assert 500 < fit.per_member < 2_000
        assert fit.error < 0.05


def test_fewer_than_three_rows_cannot_be_fitted() -> None:
    found = run_secagg((BenchRow(3, 10), BenchRow(3, 20)), 1, InsecureSeededEntropy(1))
    assert found.member_bytes is None
    assert found.server_bytes is None


def test_a_wrong_sum_is_no_result(monkeypatch: pytest.MonkeyPatch) -> None:
    right = opening.unmask

    def wrong(total: Ring, *args: Any) -> None:
        right(total, *args)
        total[0] += np.uint32(1)

    monkeypatch.setattr("securefl.protocol.secure_sum.masking.kind.unmask", wrong)
    with pytest.raises(UsageError, match="wrong sum"):
        run_secagg((BenchRow(3, 10),), 1, InsecureSeededEntropy(1))


def test_standard_rows_drop_a_tenth() -> None:
    rows = standard_rows()
    assert [(row.members, row.length) for row in rows[::2]] == list(SIZES)
    assert [row.dropped for row in rows] == [0, 1, 0, 1, 0, 3, 0, 3, 0, 10]


@pytest.mark.parametrize(
    "row", [(2, 10, 0), (3, 0, 0), (3, 10, 2), (3, 10, -1), (1_025, 10, 0), (3, 10**9, 0)]
)
def test_rows_that_cannot_be_measured(row: tuple[int, int, int]) -> None:
    with pytest.raises(UsageError):
        BenchRow(*row)


def test_at_least_one_repetition() -> None:
    with pytest.raises(UsageError):
        run_secagg((BenchRow(3, 10),), 0)


def test_aims() -> None:
    assert [aim(length) for length in (1, 100_000, 999_999, 1_000_000, 10**8)] == [4, 4, 4, 2, 2]


def test_tables_show_every_row(report: BenchReport) -> None:
    out = StringIO()
    print_report(Console(file=out, width=100), report)
    text = out.getvalue()
    for label in ("3 x 10, 0", "3 x 2e4, 0", "3 x 2e4, 1", "9 x 10, 0", "6 x 1e4, 0"):
        # Overview, two breakdowns and two floors, bytes.
        assert text.count(f" {label} ") + text.count(f"\n{label} ") == 6
    assert " d + " in text


def test_json_holds_the_whole_report(report: BenchReport) -> None:
    read = json.loads(report_json(report))
    assert read["repetitions"] == 1
    assert read["rows"][2]["row"] == {"members": 3, "length": 20_000, "dropped": 1}
    assert read["rows"][0]["server"]["ratio"] == report.rows[0].server.ratio
    assert read["member_bytes"]["per_word"] == pytest.approx(4, abs=0.1)


def test_meters_add_up() -> None:
    meter = Meter()
    for _ in range(2):
        with meter.stage("one"):
            pass
    meter.count_signed([bytes(100), bytes(70)])
    meter.count_verified(bytes(80))
    meter.count_relayed(bytes(65))
    assert list(meter.seconds) == ["one"]
    assert (meter.sent, meter.received, meter.signatures, meter.verifications) == (170, 80, 2, 2)
    assert meter.hashed == 36 + 6 + 16 + 1


def test_sizes_of_the_command_line() -> None:
    assert parse_sizes("10x1e5, 32x1000000") == ((10, 100_000), (32, 1_000_000))


@pytest.mark.parametrize(
    "text", ["", "10", "10x", "x10", "10x1.5", "10xinf", "10x1e400", "2x10", "3x0", "axb"]
)
def test_bad_sizes_are_named(text: str) -> None:
    with pytest.raises(ConfigError, match="--rows"):
        parse_sizes(text)


def test_command() -> None:
    runner = CliRunner()
    done = runner.invoke(app, ["secagg", "--rows", "3x10", "--repetitions", "1", "--json"])
    assert done.exit_code == 0, done.output
    assert len(json.loads(done.output)["rows"]) == 2
    refused = runner.invoke(app, ["secagg", "--rows", "3y10"])
    assert refused.exit_code == 2
    assert "is not a size" in refused.output
