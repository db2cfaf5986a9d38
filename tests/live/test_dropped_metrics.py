"""Metrics that do not count: the party's console names them once, the site's log in each round."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.live.federated import events, run_program
from tests.live.test_metrics import made

pytestmark = pytest.mark.live


def test_a_run_names_metrics_that_do_not_count(tmp_path: Path) -> None:
    """A histogram with other bins than declared: no number of the site counts."""
    scenario, fields = made(tmp_path)
    module = tmp_path / "ward_with_metrics.py"
    module.write_text(module.read_text().replace("bins=50", "bins=50 if self.samples != 21 else 40"))
    fields += ("--set", "stop.rounds=3", "--set", "stop.patience=3")
    ended = run_program(scenario, tmp_path / "run", "--site", "ward_with_metrics:Ward", *fields)
    reason = "no metrics counted: evaluate gave scores of shape (2, 40), expected (2, 50)"
    said = [event["text"] for event in events(ended.stdout) if reason in str(event)]
    assert said == [f"p01: round 0: {reason}"], ended.stdout
    log = (tmp_path / "run" / "p01.site.jsonl").read_text().splitlines()
    assert [json.loads(line)["notes"] for line in log] == [[reason]] * len(ended.rows)
    for file in (tmp_path / "run" / "transcripts").glob("*.jsonl"):
        assert b"expected (2, 50)" not in file.read_bytes()
