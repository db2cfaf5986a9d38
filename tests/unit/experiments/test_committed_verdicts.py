"""Committed results, their pages, and sentences of documents about them."""

from __future__ import annotations

import json
import re
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from securefl.lab.experiments.exhibits import exhibits, papers
from securefl.lab.experiments.judging import rulings_of
from securefl.lab.experiments.page import is_outdated
from securefl.lab.experiments.record import CellRecord, Record, read_record, read_records
from tests.unit.cli.programs import call, refusal
from tests.unit.experiments.committed import PAPERS, RESULTS, ROOT, dp, result, short


@pytest.mark.parametrize("paper", papers(PAPERS))
def test_every_result_has_a_commit_and_is_of_the_present_files(paper: str) -> None:
    known = {(one.item.kind, one.item.number): one for one in exhibits(PAPERS, paper)}
    records = read_records(RESULTS / paper)
    assert records
    assert [record.stem for record in records if not record.commit] == []
    outdated = [record for record in records if is_outdated(known[record.kind, record.number], record)]
    assert [record.stem for record in outdated] == []


def test_one_changed_seed_of_a_result_changes_its_page(tmp_path: Path) -> None:
    (tmp_path / "share").mkdir()
    path = tmp_path / "share" / "8a-desk.json"
    shutil.copy(RESULTS / "share" / "8a-desk.json", path)

    def verdict() -> str:
        assert call("reproduce", "share", "--page", "--out", tmp_path / "share").exit_code == 0
        page = (tmp_path / "share.md").read_text()
        (ruling,) = re.findall(r"- \*\*(.*)\*\*: SHARE is above the trimmed mean", page)
        return str(ruling)

    assert verdict() == "does not hold"
    record: dict[str, Any] = json.loads(path.read_bytes())
    (cell,) = (one for one in record["cells"] if one["label"] == "SHARE, m = 3, R = 10")
    cell["seeds"][2]["accuracies"] = [0.99] * len(cell["seeds"][2]["accuracies"])
    path.write_text(json.dumps(record))
    assert verdict() == "not decided"


def test_a_changed_verdict_stands_with_the_earlier_one(tmp_path: Path) -> None:
    (tmp_path / "share").mkdir()
    shutil.copy(RESULTS / "share" / "8a-desk.json", tmp_path / "share" / "8a-desk.json")
    known = {"8a-desk": {"SHARE is above the trimmed mean without it": "holds"}}
    earlier = tmp_path / "share-earlier.json"
    earlier.write_text(json.dumps({"commit": "0", "rulings": known}))
    asked = ("reproduce", "share", "--page", "--out", tmp_path / "share")
    assert call(*asked).exit_code == 0
    page = (tmp_path / "share.md").read_text()
    assert page.count("; earlier verdict: holds") == 1
    assert "An *earlier verdict* compared means" in page
    earlier.write_text(earlier.read_text().replace('"holds"', '"does not hold"'))
    assert call(*asked).exit_code == 0
    assert "; earlier verdict" not in (tmp_path / "share.md").read_text()
    earlier.write_text("{")
    assert refusal(call(*asked)).startswith(f"{earlier}: cannot be read: ")


def test_results_of_the_same_simulations_are_one_test() -> None:
    """With p = 0.018 a claim is decided as one of two hypotheses, and not as one of four."""
    known = exhibits(PAPERS, "dp")
    record = read_record(RESULTS / "dp" / "table-2-fashion-mnist-desk.json")

    def near(cell: CellRecord) -> CellRecord:
        if cell.label != "40 %, a little":
            return cell
        shifts = zip(cell.seeds, (0.004, -0.002, 0.001, -0.004, 0.001), strict=True)
        seeds = tuple(replace(seed, accuracies=(0.7544 + shift,) * 10) for seed, shift in shifts)
        return replace(cell, seeds=seeds)

    desk = replace(record, cells=tuple(map(near, record.cells)))
    paper = replace(desk, scale="paper", stem="table-2-fashion-mnist-paper")
    others = replace(
        paper, cells=tuple(replace(cell, scenario=f"other {cell.scenario}") for cell in desk.cells)
    )
    (verdict,) = rulings_of(known, [desk])[desk.stem].verdicts
    assert 0.0125 < verdict.p_holds < 0.025
    for records, ruling in (([desk], "holds"), ([desk, paper], "holds"), ([desk, others], "not decided")):
        ruled = rulings_of(known, records)
        assert {one.ruling for record in records for one in ruled[record.stem].verdicts} == {ruling}


def test_claims_about_tables_of_our_own_are_ours() -> None:
    for paper in ("dp", "br-ifca"):
        known, records = exhibits(PAPERS, paper), read_records(RESULTS / paper)
        own = {(one.item.kind, one.item.number) for one in known if one.item.ours}

        def is_own(record: Record, own: set[tuple[Any, str]] = own) -> bool:
            return (record.kind, record.number) in own

        ruled = rulings_of(known, records)
        stems = [record.stem for record in records if is_own(record)]
        assert stems
        assert all(verdict.ours for stem in stems for verdict in ruled[stem].verdicts)


def read_text(document: str) -> str:
    """Return the text of a document on one line."""
    return " ".join((ROOT / document).read_text().split())


def test_numbers_of_documents_are_those_of_results() -> None:
    """Each sentence is made here from the results, as the document must have it."""

    clusters = result("weighting/figure-clusters-mnist-desk")
    liars, honest = (short(clusters[f"{attack}, median, ignore"]) for attack in ("negation, 10 %", "none"))
    weighting = read_text("docs/weighting.md")
    assert f"With `ignore` the median withstood eight ({liars} against {honest} without liars" in weighting
    shakespeare = result("weighting/figure-4-shakespeare-desk")
    for cap, broken in (("truncate", True), ("truncate to 30 %", False)):
        lost = shakespeare[f"none, median, {cap}"] - shakespeare[f"negation, 1, median, {cap}"]
        assert (lost > 0.1) == broken
    assert "one liar of ten breaks the median on Shakespeare, at 30 % it does not" in weighting

    groups = result("hidden-groups/table-clusters-fashion-mnist-desk")
    counts = {m: groups.count_found(f"m = {m}, equal, 19 of 96") for m in (4, 6, 8)}
    assert counts[6] == 20
    halves = read_text("docs/adr/0028-groups-part-one-by-one.md")
    assert f"m = 4 finds {counts[4]} of 20 groups, m = 6 all, m = 8 {counts[8]}" in halves
    members = result("hidden-groups/table-members-fashion-mnist-desk")
    assert members.count_found("Dirichlet(1), hidden, 10 of 96") == 19
    assert members.count_found("Dirichlet(0.3), hidden, nobody") < 10
    assert "10 % liars one group of 20 is lost, with Dirichlet(0.3) most are, also without liars" in halves

    half_life = dp("table-half-life")
    late = {h: f"{half_life[f'0.8, {h}, 1/8']:.2f}" for h in ("none", "80", "20", "5")}
    start = f"{half_life['0, none, 1/8']:.2f}"

    def cost(turn: str, h: str, epsilon: str) -> float:
        return half_life[f"{turn}, none, {epsilon}"] - half_life[f"{turn}, {h}, {epsilon}"]

    most = {h: f"{max(cost('0', h, epsilon) for epsilon in ('2', '1/8')):.2f}" for h in ("80", "20", "5")}
    assert most["80"] == "0.00"
    assert min(cost("0.8", h, "2") for h in ("80", "20", "5")) > -0.02
    forgetting = read_text("docs/adr/0029-scores-that-forget.md")
    assert (
        f"plain {late['none']}, h = 80 {late['80']}, h = 20 {late['20']}, h = 5 {late['5']}, against {start}"
    ) in forgetting
    assert f"h = 80 cost nothing, h = 20 and 5 up to {most['20']} and {most['5']}." in forgetting
    assert "At epsilon = 2 no half-life gains more than 0.02 on the plain sum" in forgetting
    assert sum(one < 0.5 for one in dp("figure-38").seeds("0.8, 2")) == 3
    assert "takes the model at epsilon = 2 as well, in three of five seeds" in forgetting


RESULT_LINK = re.compile(r"results/(?:share|dp|weighting|br-ifca|hidden-groups)\.md#")
NUMBER = re.compile(r"(?<!\w)0?\.\d\d|\d %")


def test_no_other_paragraph_has_numbers_of_results() -> None:
    """A new one belongs into the test above."""
    documents = [ROOT / "README.md", *(ROOT / "docs").glob("*.md"), *(ROOT / "docs" / "adr").glob("*.md")]
    paragraphs = [
        (path.name, paragraph)
        for path in documents
        for paragraph in re.split(r"\n\s*\n|\n- ", path.read_text())
    ]
    numbered = Counter(name for name, one in paragraphs if RESULT_LINK.search(one) and NUMBER.search(one))
    assert numbered == {"weighting.md": 2, "0029-scores-that-forget.md": 1}
