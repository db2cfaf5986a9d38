"""A report is one class, from which line, row, summary and transcript entry follow."""

from __future__ import annotations

import io
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pytest

from securefl.base.ids import PartyId
from securefl.cli.run_end import plain_news
from securefl.protocol.round.shared import reports
from securefl.runtime.report.evidence import entry_of
from securefl.runtime.report.metrics import RunMetrics
from securefl.runtime.report.progress import PlainProgress
from securefl.runtime.report.records import RoundRecord
from securefl.runtime.report.summary import summarise
from securefl.runtime.report.witness import Fact
from securefl.scenario.load import parse_scenario

BOTH = (PartyId("p00"), PartyId("p01"))
SCENARIO = parse_scenario('name = "x"\nparties = 2\nclustering.size = 2')


@dataclass(frozen=True, slots=True)
class ModelCompressed(reports.AnyReport):
    """Server: a report that the product does not know."""

    round: int
    saved: int

    def line(self) -> str:
        return f"round {self.round}: {self.saved} bytes saved"

    def row_numbers(self) -> Mapping[str, int]:
        return {"saved_bytes": self.saved}


def test_a_new_report_has_a_line_and_an_entry(capsys: pytest.CaptureFixture[str]) -> None:
    stream, report = io.StringIO(), ModelCompressed(0, 7)
    PlainProgress(stream).on_report(0.0, report)
    assert stream.getvalue() == "round 0: 7 bytes saved\n"
    plain_news("p00")(Fact(0.0, report))
    assert "".join(capsys.readouterr()) == "p00: round 0: 7 bytes saved\n"
    assert entry_of(report, "run") == ("model_compressed", {"round": 0, "saved": 7})


def test_numbers_of_a_new_report_are_in_rows_and_summary() -> None:
    rows: list[Any] = []
    metrics = RunMetrics(SCENARIO, rows.append)
    for round_, saved in ((0, (7, 5)), (1, ()), (2, (1,))):
        metrics.on_report(0.0, reports.RoundStarted(round_, bytes(32)))
        for one in saved:
            metrics.on_report(0.0, ModelCompressed(round_, one))
        metrics.on_report(0.0, reports.RoundDone(round_, None, None, BOTH, (), (), (), (), ()))
    assert [row.get("tally") for row in rows] == [{"saved_bytes": 12}, None, {"saved_bytes": 1}]
    assert [RoundRecord.from_row(row) for row in rows] == list(metrics.records)
    summary = summarise(run="r", scenario=SCENARIO, metrics=metrics, insecure=False, seconds=1.0, files={})
    assert summary.to_json()["tally"] == {"saved_bytes": 13}
