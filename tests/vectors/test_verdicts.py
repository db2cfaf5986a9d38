"""What every committed result says, against what it said before experiments had one machinery.

``python -m tests.vectors.test_verdicts`` writes it anew (first at commit a2b8915), where a result is added.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import msgspec

import scenarios
from securefl.reproduce.freshness import read_check
from securefl.reproduce.groups.record import conclude, read_trial_records
from securefl.reproduce.groups.record import settings_key as trials_key
from securefl.reproduce.groups.sheet import read_trials, trial_papers
from securefl.reproduce.judging import Verdict, judge, overall
from securefl.reproduce.leakage.record import read_sweep_records
from securefl.reproduce.page import entries
from securefl.reproduce.power import PowerRecord
from securefl.reproduce.record import read_records
from securefl.reproduce.sheets.exhibits import exhibits, studies
from securefl.reproduce.sheets.page import outdated, shown
from securefl.reproduce.sheets.record import read_sheet_records
from securefl.reproduce.shelf import labels_of, papers

COMMITTED = Path(__file__).parent / "verdicts.json"
RESULTS = Path(__file__).parents[2] / "docs/results"
PAPERS = Path(scenarios.__path__[0]) / "papers"


def _said(kept: Iterable[Verdict], judged: Iterable[Verdict]) -> dict[str, list[str]]:
    """Each verdict with its numbers, as it is kept and as today's claims are judged."""
    return {"verdicts": [str(one) for one in kept], "judged": [str(one) for one in judged]}


def _panels() -> Iterator[tuple[str, dict[str, Any]]]:
    for paper, presets in papers(PAPERS).items():
        for entry in entries(presets, read_records(RESULTS / paper), read_check(RESULTS / paper)):
            if (record := entry.record) is None:
                continue
            curves = {curve.label: [seed.accuracies for seed in curve.seeds] for curve in record.curves}
            claims = entry.preset.figure.claims
            judged = [judge(claim, curves, record.last, record.rounds) for claim in claims]
            yield (
                f"{paper}/{record.stem}",
                {
                    **_said(record.verdicts, judged),
                    "overall": overall(record.verdicts),
                    "stale": bool(entry.mark),
                    "outdated": entry.outdated,
                    "numbers": record.fingerprint,
                },
            )


def _tables() -> Iterator[tuple[str, dict[str, Any]]]:
    for paper in studies(PAPERS):
        known = exhibits(PAPERS, paper)
        for one in shown(known, read_sheet_records(RESULTS / paper), read_check(RESULTS / paper)):
            for record in one.records:
                cells = {
                    cell.label: [seed.accuracies for seed in cell.seeds]
                    for cell in record.cells
                    if cell.seeds
                }
                rounds = max(cell.rounds for cell in record.cells)
                sheet, item = one.exhibit.sheet, one.exhibit.item
                claims = (*sheet.claims, *item.claims_about(record.dataset))
                judged = [judge(c, cells, sheet.last, rounds) for c in claims if labels_of(c) <= cells.keys()]
                yield (
                    f"{paper}/{record.stem}",
                    {
                        **_said(record.verdicts, judged),
                        "overall": overall(record.verdicts),
                        "agreement": record.agreement(),
                        "unjudged": list(record.unjudged),
                        "stale": bool(one.check.mark(record.stem, record.fingerprint)),
                        "outdated": outdated(one.exhibit, record),
                        "numbers": record.fingerprint,
                    },
                )


def _trials() -> Iterator[tuple[str, dict[str, Any]]]:
    for paper in trial_papers(PAPERS):
        records, check = read_trial_records(RESULTS / paper), read_check(RESULTS / paper)
        for one in read_trials(PAPERS, paper):
            for (panel, scale), record in records.items():
                if panel != one.sheet.panel:
                    continue
                judged = conclude(one, scale, record.cells, record.seconds).verdicts
                yield (
                    f"{paper}/{record.stem}",
                    {
                        **_said(record.verdicts, judged),
                        "overall": overall(record.verdicts),
                        "stale": bool(check.mark(record.stem, record.fingerprint)),
                        "outdated": record.settings != trials_key(one, scale),
                        "numbers": record.fingerprint,
                    },
                )


def _sweeps() -> Iterator[tuple[str, dict[str, Any]]]:
    for record in read_sweep_records(RESULTS / "leakage"):
        rows = {
            f"{row.label}, R = {cell.reclusterings}": [
                cell.mean,
                min(cell.seen, default=None),
                max(cell.seen, default=None),
                max(cell.once),
                max(cell.fresh),
                cell.exposure,
                cell.epsilon,
            ]
            for row in record.rows
            for cell in row.cells
        }
        yield f"leakage/{record.name}", {"rows": rows}


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
    return dict(sorted([*_panels(), *_tables(), *_trials(), *_sweeps(), *_checks()]))


def test_every_committed_result_is_judged_as_before() -> None:
    assert today() == json.loads(COMMITTED.read_text())


if __name__ == "__main__":
    COMMITTED.write_text(json.dumps(today(), indent=1, ensure_ascii=False) + "\n")
