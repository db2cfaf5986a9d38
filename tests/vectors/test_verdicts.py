"""Rulings on all committed results, against those that are committed.

``python -m tests.vectors.test_verdicts`` writes them after a result or the rule has changed.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

import scenarios
from securefl.base.sums import ordered_sum
from securefl.cli.leakage import STUDY
from securefl.lab.experiments.exhibits import exhibits, papers, sweep_of
from securefl.lab.experiments.freshness import read_check
from securefl.lab.experiments.judging import rulings_of
from securefl.lab.experiments.page import is_outdated, shown_exhibits
from securefl.lab.experiments.power import PowerRecord
from securefl.lab.experiments.record import read_record, read_records
from securefl.lab.experiments.verdicts import overall

COMMITTED = Path(__file__).parent / "verdicts.json"
RESULTS = Path(__file__).parents[2] / "docs/results"
PAPERS = Path(scenarios.__path__[0]) / "papers"


def _papers() -> Iterator[tuple[str, dict[str, Any]]]:
    for paper in papers(PAPERS):
        known, check = exhibits(PAPERS, paper), read_check(RESULTS / paper)
        for one in shown_exhibits(known, read_records(RESULTS / paper), check):
            for record in one.records:
                rulings = one.rulings[record.stem]
                tables = {"agreement": record.agreement()} if one.exhibit.named else {}
                yield (
                    f"{paper}/{record.stem}",
                    {
                        "verdicts": [str(verdict) for verdict in rulings.verdicts],
                        "unjudged": list(rulings.unjudged),
                        "overall": overall(rulings.verdicts),
                        **tables,
                        "stale": bool(check.mark(record.stem, record.fingerprint)),
                        "outdated": is_outdated(one.exhibit, record),
                        "numbers": record.fingerprint,
                    },
                )


def _sweeps() -> Iterator[tuple[str, dict[str, Any]]]:
    for record in read_records(RESULTS / "leakage"):
        exhibit = sweep_of(Path(scenarios.__path__[0]) / "leakage" / f"{record.stem}.toml", STUDY)
        assert not is_outdated(exhibit, record)
        rows = {}
        for cell in record.cells:
            seen = cell.finals(1)
            rows[cell.label] = [
                ordered_sum(seen) / len(seen) if seen else None,
                min(seen, default=None),
                max(seen, default=None),
                max(seed.values["once"] for seed in cell.seeds),
                max(seed.values["fresh"] for seed in cell.seeds),
                cell.values.get("exposure"),
                cell.values.get("epsilon"),
            ]
        yield f"leakage/{record.stem}", {"rows": rows}


def _checks() -> Iterator[tuple[str, dict[str, Any]]]:
    record = msgspec.json.decode((RESULTS / "checks.json").read_bytes(), type=PowerRecord)
    rows = {
        f"d = {block.dim}, n = {block.members}, {block.multiplier:g}: {row.deviation}": list(
            row.failed.values()
        )
        for block in record.blocks
        for row in block.rows
    }
    yield "checks", {"trials": record.trials, "rows": rows}


def today() -> dict[str, dict[str, Any]]:
    """By result."""
    return dict(sorted([*_papers(), *_sweeps(), *_checks()]))


def test_every_committed_result_is_judged_as_before() -> None:
    assert today() == json.loads(COMMITTED.read_text())


def test_claims_about_other_auxiliary_samples_than_the_papers_are_not_judged() -> None:
    (table,) = (one for one in exhibits(PAPERS, "dp") if one.item.key == "table-17")
    record = read_record(RESULTS / "dp" / "table-17-fashion-mnist-desk.json")
    other = rulings_of([table], [record])[record.stem]
    assert other.verdicts == ()
    assert [line for line in other.unjudged if line.endswith("(the auxiliary samples are not the paper's)")]
    own = msgspec.structs.replace(record, note=record.note.partition("; auxiliary")[0])
    assert rulings_of([table], [own])[record.stem].verdicts


if __name__ == "__main__":
    COMMITTED.write_text(json.dumps(today(), indent=1, ensure_ascii=False) + "\n")
