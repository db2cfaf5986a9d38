"""``securefl report``: one HTML page about a run."""

from __future__ import annotations

import json
import math
import re
import shutil
from html.parser import HTMLParser
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

import securefl
from securefl.base.errors import (
    EXIT_ABORTED,
    EXIT_DECIDE,
    EXIT_EXPECTED,
    EXIT_PAUSED,
    EXIT_UNEXPECTED,
    ConfigError,
)
from securefl.base.ids import PartyId
from securefl.lab.run_page import charts, page, read_run, run_page
from securefl.lab.run_page.blocks import Chart, PageSection, PageTable, Paragraph
from securefl.lab.run_page.collect import AuditFields, RunFiles, SummaryFields
from securefl.lab.run_page.participation import participation_blocks
from securefl.lab.run_page.sections import sections_of
from securefl.methods.metrics.pooling import Measured
from securefl.protocol.round import SumSeen
from securefl.runtime.report.records import LeftOut, RefusedMessage, RoundRecord, Volume
from securefl.scenario.load import parse_scenario
from tests.unit.cli.programs import call, refusal

SCENARIO = parse_scenario('name = "x"\nparties = 6\n')


def record(round_: int, **other: object) -> RoundRecord:
    fields: dict[str, object] = {
        "accuracy": 0.5, "loss": 1.0, "update_norm": 1.0, "participants": (), "counted": (), "left_out": (),
        "sums": (), "kept": (), "rejected": (), "lost": {}, "redraws": 0, "retries": 0,
        "seconds": {"total": 1.0}, "traffic": {}, "refusals": {},
    }  # fmt: skip
    return RoundRecord(round=round_, **(fields | other))  # type: ignore[arg-type]


def members(*names: str) -> SumSeen:
    parties = tuple(map(PartyId, names))
    return SumSeen(0, 0, parties, parties, None)


def out(name: str, reason: str) -> LeftOut:
    return LeftOut(PartyId(name), reason)


def ended(exit_code: int = 0, **view: object) -> SummaryFields:
    """The summary of a run that has ended."""
    fields: dict[str, object] = {
        "securefl": "1", "run": "r", "seed": 0, "simulated": True, "exit_code": exit_code,
        "exit_meaning": "x", "reason": "y", "seconds": 1.0, "outcome": {"model_destroyed": False},
        "expectations": [],
        "server_view": {
            "opened_sums": 1, "smallest_sum": 1, "single_updates": [], "insecure_seeded_entropy": False,
        } | view,
    }  # fmt: skip
    return msgspec.convert(fields, SummaryFields)


def of(
    *records: RoundRecord, summary: SummaryFields | None = None, audit: AuditFields | None = None
) -> RunFiles:
    return RunFiles(path=Path("/runs/x"), scenario=SCENARIO, records=records, summary=summary, audit=audit)


def section(run: RunFiles, key: str) -> PageSection:
    return next(one for one in sections_of(run) if one.key == key)


def texts(found: PageSection) -> str:
    return " ".join(one.text for one in found.blocks if isinstance(one, Paragraph))


def tables(found: PageSection) -> dict[str, PageTable]:
    return {one.title: one for one in found.blocks if isinstance(one, PageTable)}


class Tags(HTMLParser):
    """Names of opened and closed elements, and links."""

    VOID = frozenset({"meta", "rect", "path", "circle", "polygon"})

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: set[str] = set()
        self.ids: list[str] = []
        self.targets: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.add(tag)
        values = dict(attrs)
        self.ids += [values["id"] or ""] if "id" in values else []
        self.targets += [values["href"] or ""] if "href" in values else []
        assert not {"src", "onload", "onclick"} & set(values)
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.add(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("run") / "run"
    securefl.simulate("quickstart", seed=1, rounds=3, out=folder)
    return folder


def test_the_page_is_well_formed_and_loads_nothing(run: Path) -> None:
    text = run_page(read_run(run))
    tags = Tags(text)
    assert tags.open == []
    assert not tags.seen & {"script", "link", "img", "iframe", "object"}
    assert "default-src 'none'" in text
    assert "http:" not in text
    assert "https:" not in text
    assert "url(" not in text
    assert len(tags.ids) == len(set(tags.ids))
    assert {target.removeprefix("#") for target in tags.targets} <= set(tags.ids)


def test_its_numbers_are_those_of_the_run(run: Path) -> None:
    rows = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    text, summary = run_page(read_run(run)), json.loads((run / "summary.json").read_text())
    assert f"{100 * rows[-1]['accuracy']:.1f} %" in text
    for row in rows:
        assert f'<td class="number">{row["accuracy"]:.3g}' in text
    assert f"<b>{summary['server_view']['opened_sums']}</b>" in text
    assert summary["exit_meaning"] in text
    assert "has not ended" not in text


def test_an_unfinished_run_is_shown_and_reloads_only_live(run: Path, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    shutil.copytree(run, folder)
    (folder / "summary.json").unlink()
    still, live = run_page(read_run(folder)), run_page(read_run(folder), live=True)
    assert "3 of 3 rounds are done" in still
    assert 'http-equiv="refresh"' in live
    assert 'http-equiv="refresh"' not in still
    assert 'http-equiv="refresh"' not in run_page(read_run(run), live=True)
    (folder / "metrics.jsonl").unlink()
    assert "0 of 3 rounds are done" in run_page(read_run(folder))


def test_following_ends_with_the_run(run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder, file, seen = tmp_path / "run", tmp_path / "page.html", []
    shutil.copytree(run, folder)
    summary = (folder / "summary.json").read_bytes()
    (folder / "summary.json").unlink()

    def sleep(seconds: float) -> None:
        seen.append((seconds, "refresh" in file.read_text()))
        if len(seen) == 2:
            (folder / "summary.json").write_bytes(summary)

    monkeypatch.setattr("time.sleep", sleep)
    page.follow_run(folder, file)
    assert seen == [(page.RELOAD_SECONDS, True)] * 2
    assert "refresh" not in file.read_text()


def test_the_command_writes_and_refuses(run: Path, tmp_path: Path) -> None:
    done = call("report", run)
    assert (done.exit_code, done.stdout.strip()) == (0, f"written: {run / 'report.html'}")
    assert (run / "report.html").read_text() == run_page(read_run(run))
    assert call("report", run, "--out", tmp_path / "a" / "b.html").exit_code == 0
    (tmp_path / "file").write_text("")
    assert call("report", run, "--out", tmp_path / "file" / "b.html").exit_code == 3
    assert "does not end in .html" in refusal(call("report", run, "--out", tmp_path / "page.pdf"))
    assert "scenario.toml is missing" in refusal(call("report", tmp_path))
    folder = tmp_path / "run"
    shutil.copytree(run, folder)
    (folder / "audit").mkdir()
    for text in ("{", "[]", '{"format": "securefl audit 0"}', '{"format": "securefl audit 1"}'):
        (folder / "audit" / "audit.json").write_text(text)
        told = refusal(call("report", folder))
        assert "audit.json: is " in told
        assert told.endswith(f"(run securefl audit {folder} --force)")


def test_an_audit_stands_on_the_page() -> None:
    found = {
        "format": "securefl audit 1",
        "verdict": "1 of 2 findings are worse than the scenario allows", "exit_code": 1,
        "audits": [{"title": "Exposure", "findings": [
            {"severity": "breach", "claim": "The server can compute p00's update."},
            {"severity": "holds", "claim": "The rest holds."},
        ]}],
    }  # fmt: skip
    audit = section(of(record(0), summary=ended(), audit=msgspec.convert(found, AuditFields)), "audit")
    assert audit.tone == "bad"
    assert tables(audit)["Exposure"].rows[0] == ("breach", "The server can compute p00's update.")
    assert "securefl audit /runs/x" in texts(section(of(record(0), summary=ended()), "audit"))


@pytest.mark.parametrize(
    ("code", "tone"),
    [(EXIT_EXPECTED, "good"), (EXIT_UNEXPECTED, "bad"), (EXIT_ABORTED, "bad"), (EXIT_PAUSED, "warning"),
     (EXIT_DECIDE, "bad")],
)  # fmt: skip
def test_the_verdict_has_the_tone_of_the_exit_code(code: int, tone: str) -> None:
    assert f'<p class="verdict {tone}"' in run_page(of(record(0), summary=ended(code)))


def test_text_from_outside_is_no_markup() -> None:
    evil = "<script>alert(1)</script>"
    text = run_page(
        of(
            record(
                0, participants=("p0",), left_out=(out("p0", evil),), counted=("p1",), sums=(members("p1"),),
                refusals={RefusedMessage("a", evil, evil): 2}, lost={(0, 1): evil},
            )
        )
    )  # fmt: skip
    assert "<script" not in text
    assert text.count("&lt;script&gt;") >= 3
    assert Tags(text).open == []


def test_the_spread_over_clusters_and_the_errors_are_in_the_table() -> None:
    one = Measured("auc", 0.8, 0.8, 0.8, 0.7, 0.9, 3, True, deviation=0.01)  # noqa: FBT003
    chart = section(of(record(0, metrics=(one,)), record(1)), "metrics").blocks[-1]
    assert isinstance(chart, Chart)
    assert chart.table is not None
    assert chart.table.columns == ("round", "auc", "lowest", "highest", "standard error")
    assert list(chart.table.rows) == [("0", "0.8", "0.7", "0.9", "0.01"), ("1", "-", "-", "-", "-")]
    assert "privacy noise" in chart.note


def test_a_destroyed_model_leaves_gaps() -> None:
    run = of(record(0, loss=math.inf), record(1, loss=1.7e308), record(2, loss=math.nan), record(3, loss=2.0))
    loss = section(run, "metrics").blocks[1]
    assert isinstance(loss, Chart)
    assert "nan" not in loss.svg
    assert "inf" not in loss.svg
    assert "to 2 over 4 rounds" in loss.text


def test_the_margin_to_exposure() -> None:
    calm = section(of(record(0, counted=("a", "b", "c"), sums=(members("a", "b", "c"),))), "view")
    assert calm.tone == "good"
    assert "2 of 3" in run_page(of(record(0, sums=(members("a", "b", "c"),))))
    single = ended(1, single_updates=[{"round": 0, "party": "a"}])
    assert section(of(record(0, sums=(members("a"),)), summary=single), "view").tone == "bad"


def test_parties_without_events_share_one_line() -> None:
    names = tuple(f"p{number:02}" for number in range(60))
    sums = (members(*names[:58]),)
    absent = (out("p58", "silent"), out("p59", "not drawn for this round"))
    one: dict[str, object] = {"counted": names[:58], "participants": names[:59], "sums": sums}
    one |= {"kept": ((0, 0),), "left_out": absent}
    blocks = list(participation_blocks([record(number, **one) for number in range(200)], SCENARIO))
    chart = next(block for block in blocks if isinstance(block, Chart))
    assert "58 of 60 parties were counted in all 200 rounds" in texts(PageSection("", "", tuple(blocks)))
    assert chart.svg.count("class='cell") == 2 * 50
    assert chart.svg.count("class='cell out'") == chart.svg.count("class='cell absent'") == 50
    assert "A column stands for 4 rounds" in chart.note
    calm = list(participation_blocks([record(0, counted=("a",), sums=(members("a"),))], SCENARIO))
    assert [type(block) for block in calm] == [Paragraph]


def test_a_party_whose_cluster_was_left_out_is_framed_and_counted_in_the_table() -> None:
    one = record(
        0, counted=("a", "b"), sums=(members("a", "b"),), rejected=((0, 0),), participants=("a", "b")
    )
    run = of(
        one,
        record(1, counted=("a", "b"), sums=(members("a", "b"),), failed={(0, 0): "its noise is too small"}),
    )
    left_out = section(run, "rule")
    assert "left out 1 sum, the checks 1" in texts(left_out)
    assert [tuple(row) for row in tables(left_out)["By party"].rows] == [
        ("a", "2", "2", "100.0 %"), ("b", "2", "2", "100.0 %"),
    ]  # fmt: skip
    chart = next(block for block in section(run, "parties").blocks if isinstance(block, Chart))
    assert chart.svg.count("class='cell rejected'") == 4


def test_costs_failures_and_rejections() -> None:
    one = record(
        0, seconds={"training": 2.0, "release": 0.5, "total": 2.5}, failures={"a": ""}, counted=("a",),
        traffic={"a": {"up": Volume(1, 2_000_000), "down": Volume(2, 1_000_000)}},
        claims={0: "", 1: "no quorum"},
        refusals={RefusedMessage("server", "a", "late"): 3},
    )  # fmt: skip
    run = of(one, one)
    costs = [block for block in section(run, "costs").blocks if isinstance(block, Chart)]
    assert "training: 4.0 s" in costs[0].text
    assert costs[1].table is not None
    assert list(costs[1].table.rows) == [("a", "4.0 MB", "2.0 MB")]
    assert list(tables(section(run, "failures"))["By party"].rows) == [("a", "2", "0")]
    assert list(tables(section(run, "rejections"))["By sender"].rows) == [("server", "a", "late", "6")]
    assert "1 of 2 rounds" in texts(section(run, "verification"))


@given(st.lists(st.one_of(st.floats(-1e99, 1e99), st.just(math.nan)), min_size=1, max_size=90))
def test_charts_stay_inside_their_frame(values: list[float]) -> None:
    svg = charts.line_chart(range(len(values)), [charts.ChartLine("x", tuple(values))])
    for path in re.findall(r"class='curve c0' d='([^']*)'", svg):
        for x, y in re.findall(r"[ML](-?[\d.e+]+) (-?[\d.e+]+)", path):
            assert 0 <= float(x) <= charts.WIDTH
            assert -1 <= float(y) <= charts.HEIGHT


def test_a_column_of_numbers_is_aligned_as_numbers() -> None:
    table = PageTable("", ("a", "b", "c", "d"), [("1", "p1", "1.5 MB", "-"), ("2,000", "2", "12 %", "1e-05")])
    assert table.numeric == (True, False, True, True)
    assert PageTable("", ("a",), []).numeric == (False,)


@pytest.mark.parametrize("field", ["round", "accuracy", "loss"])
def test_a_row_with_text_for_a_number_is_refused(run: Path, tmp_path: Path, field: str) -> None:
    folder = tmp_path / "run"
    shutil.copytree(run, folder)
    rows = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    rows[0][field] = "<b>"
    (folder / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert f"{field} is not a number" in refusal(call("report", folder))


def test_a_folder_without_a_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"scenario\.toml is missing"):
        read_run(tmp_path)


def test_the_clusters_are_those_of_the_plan_and_the_seed_is_the_runs(run: Path) -> None:
    text = run_page(read_run(run))
    summary = json.loads((run / "summary.json").read_text())
    assert f"seed: {summary['seed']} determines" in text or f"--seed {summary['seed']}" in text
    whole = RunFiles(path=Path("r"), scenario=SCENARIO, records=(), summary=None, audit=None)
    assert "2 clusters of 3" in run_page(whole)
    five = parse_scenario('name = "x"\nparties = 5\n')
    assert "1 cluster of 5" in run_page(
        RunFiles(path=Path("r"), scenario=five, records=(), summary=None, audit=None)
    )


@pytest.mark.parametrize("field", ["reason", "exit_code", "seed", "outcome", "server_view", "expectations"])
@pytest.mark.parametrize("value", [None, [1], {"a": 1}])
def test_a_damaged_summary_is_refused(run: Path, tmp_path: Path, field: str, value: object) -> None:
    folder = tmp_path / "run"
    shutil.copytree(run, folder, ignore=shutil.ignore_patterns("report.html"))
    summary = json.loads((folder / "summary.json").read_text())
    summary[field] = value
    if value is None:
        del summary[field]
    (folder / "summary.json").write_text(json.dumps(summary))
    for command in ("report", "export"):
        assert "is damaged, or of another version" in refusal(call(command, folder))
    assert not (folder / "report.html").exists()
    assert not (folder / "export").exists()


@pytest.mark.parametrize("rows", [0, 1, 2, None])
@pytest.mark.parametrize("command", ["report", "report --live", "export", "plot"])
def test_an_ended_run_without_some_of_its_rows_is_refused(
    run: Path, tmp_path: Path, rows: int | None, command: str
) -> None:
    folder = tmp_path / "run"
    shutil.copytree(run, folder, ignore=shutil.ignore_patterns("report.html"))
    lines = (folder / "metrics.jsonl").read_text().splitlines(keepends=True)
    if rows is None:
        (folder / "metrics.jsonl").unlink()
    else:
        (folder / "metrics.jsonl").write_text("".join(lines[:rows]))
    name, *options = command.split()
    done = call(name, folder, *options)
    reason = f"it has {rows} of the 3 rounds with a new model in summary.json (restore it from a backup)"
    assert (reason if rows is not None else "metrics.jsonl: ") in refusal(done)
    assert done.stdout == ""
    assert not {one.name for one in folder.iterdir()} & {"report.html", "export", "rounds.png"}
    # Without a summary the run has not ended: fewer rows are right.
    (folder / "summary.json").unlink()
    if name != "export" and "--live" not in options and rows:
        assert call(name, folder).exit_code == 0


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"round": "x"}, "row 2 has a wrong value: round is not a number (restore it from a backup)"),
        ({"loss": "x"}, "row 2 has a wrong value: loss is not a number"),
        ({"clusters": None}, "row 2 lacks clusters"),
        ({"seconds": 3}, "row 2 has a value of a wrong type"),
        ({"survivors": []}, "row 2 has another number of participants than it lists"),
        ({"clusters": {"opened": [], "kept": [[1, 2, 3]], "rejected": [], "lost": []}}, "of a wrong type"),
    ],
)
@pytest.mark.parametrize("command", ["report", "export", "plot"])
def test_a_damaged_row_is_refused_in_plain_words(
    run: Path, tmp_path: Path, change: dict[str, object], reason: str, command: str
) -> None:
    folder = tmp_path / "run"
    shutil.copytree(run, folder)
    rows = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    rows[1] = {key: value for key, value in (rows[1] | change).items() if value is not None}
    (folder / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    line = refusal(call(command, folder))
    assert reason in line
    assert "Error(" not in line
