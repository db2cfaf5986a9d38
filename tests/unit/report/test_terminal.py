from __future__ import annotations

import io
import json
from dataclasses import replace
from pathlib import Path

import msgspec
import numpy as np
import pytest
from rich.console import Console

from securefl.base.header import RunHeader, end, run
from securefl.base.ids import PartyId
from securefl.protocol.round.server.stacking import ClusterSum
from securefl.protocol.round.shared.lateness import BEFORE_RESTART, late_reason
from securefl.protocol.round.shared.reports import (
    ClustersDrawn,
    ConsultingFailed,
    ModelStepped,
    PartiesJoined,
    RoundDone,
    RoundStarted,
    SatOut,
    SlotsCounted,
    StepReached,
    SumOpened,
    SumSeen,
    SurvivorsFrozen,
)
from securefl.protocol.round.shared.slots import FIRST_SLOT
from securefl.runtime.report.expect import Judgement
from securefl.runtime.report.live import DisplayState, LiveProgress, draw
from securefl.runtime.report.metrics import RunMetrics
from securefl.runtime.report.outcome import RunEnd
from securefl.runtime.report.present import print_summary
from securefl.runtime.report.progress import JsonProgress, PlainProgress, Progress, progress_for
from securefl.runtime.report.records import OVERSIZED, LeftOut
from securefl.runtime.report.summary import Summary, server_view, summarise
from securefl.runtime.report.text import count_of, curve, filter_name, list_of, printable, seconds, size
from securefl.scenario.scenario import Groups
from tests.unit.report.runs import eventful
from tests.unit.report.test_metrics import heard

EVIL = "p07\x1b[2J\n[bold]x[/bold]"


def summary(*, insecure: bool = False, aborted: bool = False) -> Summary:
    plan, _ = eventful()
    metrics = heard()
    metrics.on_reject("server", "p07", EVIL)
    metrics.on_traffic("p00", "up", 1, 1500)
    if aborted:
        metrics.on_end(RunEnd(reason="disk full", aborted=True))
    return summarise(
        run="r1",
        scenario=plan,
        metrics=metrics,
        insecure=insecure,
        seconds=61.0,
        files={"summary": "runs/x/summary.json"},
    )


def printed(what: Summary, *, terminal: bool, width: int = 80) -> str:
    stream = io.StringIO()
    print_summary(Console(file=stream, force_terminal=terminal, color_system=None, width=width), what)
    return stream.getvalue()


@pytest.mark.parametrize("terminal", [True, False])
def test_the_summary_says_what_matters(terminal: bool) -> None:
    text = printed(summary(), terminal=terminal, width=160)
    for part in (
        "on the test set",
        "p03: silent before its masked input",
        "p05, p07: did not turn up",
        "15 cluster sums",
        "The smallest counts 2.",
        "no single update",
        "differential privacy: none",
        "server rejected a message of p07",
        "runs/x/summary.json",
        "exit 0: the run ended, and the scenario expects nothing of it",
    ):
        assert part in text
    assert "INSECURE" not in text


def test_plain_output_is_plain() -> None:
    text = printed(summary(), terminal=False, width=20)
    assert text.replace("▁", "").replace("▃", "").replace("▆", "").replace("█", "").isascii()
    assert "  10 to 12 of 12 updates per round; 15 of 15 sums opened\n" in text
    assert (
        "no single update was exposed: none was opened, and none follows from the sums of its round\n" in text
    )


@pytest.mark.parametrize("terminal", [True, False])
def test_what_peers_say_cannot_drive_the_terminal(terminal: bool) -> None:
    text = printed(summary(), terminal=terminal)
    assert "\x1b[2J" not in text
    assert "p07?[2J?[bold]x[/bold]" in text


def test_warnings_are_loud() -> None:
    assert "INSECURE SEEDED ENTROPY" in printed(summary(insecure=True), terminal=False)
    text = printed(summary(aborted=True), terminal=False)
    assert "exit 3: the run aborted" in text
    assert "aborted: disk full" in text


def test_an_exposed_update_is_never_called_safe() -> None:
    whole = summary()
    alone = SumSeen(0, 9, (PartyId("p99"),), (PartyId("p99"),))
    rounds = (replace(whole.rounds[0], sums=(*whole.rounds[0].sums, alone)),)
    text = printed(replace(whole, rounds=rounds, view=server_view(rounds)), terminal=False)
    assert "SINGLE UPDATES CAN BE COMPUTED from these sums: p99 in round 0" in text
    assert "no single update" not in text


def test_new_work_is_not_called_safe() -> None:
    whole = summary()
    again = msgspec.structs.replace(whole.scenario.clustering, reclusterings=2, new_work=True)
    scenario = msgspec.structs.replace(whole.scenario, clustering=again)
    view = server_view(whole.rounds, new_work=True)
    text = printed(replace(whole, scenario=scenario, view=view), terminal=False)
    assert "no single update was opened; combinations of the sums were not searched\n" in text
    assert "updates of one round are similar" in text
    assert "are similar" not in printed(whole, terminal=False)


def test_a_run_without_rounds_has_a_summary() -> None:
    plan, _ = eventful()
    metrics = RunMetrics(plan)
    metrics.on_end(RunEnd(reason="nobody came", aborted=True))
    empty = summarise(run="r1", scenario=plan, metrics=metrics, insecure=False, seconds=1.0, files={})
    assert "no round ended" in printed(empty, terminal=True)
    assert empty.exit_code == 3
    json.dumps(empty.to_json(), allow_nan=False)


def test_long_runs_show_what_happened() -> None:
    whole = summary()
    rounds = tuple(replace(whole.rounds[2 if n == 50 else 0], round=n) for n in range(100))
    shown = [line.split()[0] for line in table_of(replace(whole, rounds=rounds)) if line.split()]
    assert [cell for cell in shown if cell.isdigit()] == ["0", "50", "99", "97"]
    text = printed(replace(whole, rounds=rounds), terminal=True, width=160)
    assert "97 more rounds not shown here: metrics.jsonl has all" in text


def test_what_happens_in_every_round_hides_no_lost_sum() -> None:
    whole = summary()
    refused = tuple(LeftOut(PartyId(name), OVERSIZED) for name in ("p05", "p07"))
    dull = replace(whole.rounds[0], left_out=refused, lost={}, redraws=0, retries=0)
    special = {40: replace(dull, lost={(0, 2): "too few"}), 70: replace(dull, left_out=refused[:1])}
    rounds = tuple(replace(special.get(n, dull), round=n) for n in range(100))
    lines = table_of(replace(whole, rounds=rounds))
    shown = [int(line.split()[0]) for line in lines if line.split()[0].isdigit()]
    assert shown[:-1] == [0, 1, 2, 3, 4, 5, 6, 40, 41, 70, 71, 99]
    assert "\n".join(lines).count("p05: its update was refused as too long") == 1
    assert "\n".join(lines).count("p05, p07: their updates were refused as too long") == 11


def table_of(what: Summary) -> list[str]:
    """Return the lines of the table of rounds on a wide terminal."""
    _, _, after = printed(what, terminal=True, width=200).partition("what happened")
    table, _, _ = after.partition("What the server could see")
    return [line for line in table.splitlines() if line.strip()]


def test_plain_lines_group_rounds_with_the_same_events() -> None:
    whole = summary()
    quiet = replace(whole.rounds[0], left_out=(), lost={}, redraws=0, retries=0)
    late = replace(quiet, left_out=(LeftOut(PartyId("p03"), "silent before its masked input"),))
    rounds = tuple(replace(late if n in {2, 3, 7} else quiet, round=n) for n in range(9))
    text = printed(replace(whole, rounds=rounds), terminal=False)
    assert "\nParticipation:\n" in text
    assert "  rounds 2 to 3, 7: p03: silent before its masked input\n" in text
    assert "  round 0" not in text
    once = printed(replace(whole, rounds=tuple(replace(late, round=n) for n in range(4, 5))), terminal=False)
    assert "  round 4: p03: silent before its masked input\n" in once
    every_second = tuple(replace(late if n % 2 else quiet, round=n) for n in range(40))
    assert "rounds 1, 3, 5, 7, 9, 11, 13, 15 and 12 more: p03" in printed(
        replace(whole, rounds=every_second), terminal=False
    )
    eventful = tuple(
        replace(quiet, round=n, left_out=(LeftOut(PartyId(f"p{n:02d}"), "did not turn up"),))
        for n in range(15)
    )
    text = printed(replace(whole, rounds=eventful), terminal=False)
    assert text.count(": did not turn up") == 12
    assert "3 more rounds not shown here: metrics.jsonl has all" in text


def test_only_where_something_is_expected_an_outcome_is_the_expected_one() -> None:
    nothing, said = summary(), "the outcome is the expected one"
    assert not nothing.judgements
    assert said not in printed(nothing, terminal=False)
    assert "expects nothing" in str(nothing.to_json()["exit_meaning"])
    met = replace(nothing, judgements=(Judgement("accuracy", 0.5, None, 0.9, ok=True),))
    assert f"exit 0: {said}" in printed(met, terminal=False)
    assert met.to_json()["exit_meaning"] == said
    assert "exit 3: the run aborted" in printed(summary(aborted=True), terminal=False)


def test_of_several_models_it_is_said_what_their_accuracy_is() -> None:
    whole = summary()
    for groups, said in (
        (Groups(), " on the test set  "),
        (Groups(count=3), " on the test set, of the best of 3 models  "),
        (Groups(count=3, tasks="rotations"), " on the test set, mean over 3 rotations of it, "),
    ):
        scenario = msgspec.structs.replace(whole.scenario, groups=groups)
        assert said in printed(replace(whole, scenario=scenario), terminal=False)


def test_with_a_screen_sums_are_left_out_by_rule_or_screen() -> None:
    whole, done = summary(), next(r for _, r in eventful()[1] if isinstance(r, RoundDone))
    rounds = (replace(whole.rounds[0], rejected=((0, 1),)),)
    screened = msgspec.structs.replace(whole.scenario, groups=Groups(count=2, screen=3.0))
    assert "1 cluster out by rule\n" in printed(replace(whole, rounds=rounds), terminal=False)
    text = printed(replace(whole, rounds=rounds, scenario=screened), terminal=False)
    assert "1 cluster out by rule or screen\n" in text
    stream = io.StringIO()
    PlainProgress(stream, by=filter_name(screened.groups)).on_report(0.0, replace(done, rejected=((0, 1),)))
    assert "1 cluster left out by the rule or screen" in stream.getvalue()
    tty = Console(file=io.StringIO(), force_terminal=True, color_system=None, width=80, _environ={})
    for by, said in (
        (filter_name(screened.groups), "by rule, screen or checks"),
        (filter_name(whole.scenario.groups), "by rule or checks"),
    ):
        live = progress_for(tty, by=by)
        for now, report in eventful()[1]:
            if isinstance(report, RoundDone):
                break
            live.on_report(now, report)
        live.on_report(0.0, ModelStepped(0, (), ((0, 0),), None))
        assert isinstance(live, LiveProgress)
        with tty.capture() as shown:
            tty.print(live)
        assert f"left out {said} " in shown.get()


def test_summary_json() -> None:
    content = json.loads(json.dumps(summary(insecure=True).to_json(), allow_nan=False))
    assert content["exit_code"] == 0
    assert content["outcome"]["survivors"] == 10
    assert content["rounds"][1]["left_out"] == {"p03": "silent before its masked input"}
    assert content["server_view"]["smallest_sum"] == 2
    assert content["server_view"]["single_updates"] == []
    assert content["server_view"]["insecure_seeded_entropy"] is True
    assert content["traffic"]["up"] == {"messages": 1, "bytes": 1500}


DEMO = RunHeader((run("demo", "of the display"), end("after 4 rounds")), "r1", 4)


def follow(progress: Progress) -> None:
    _, log = eventful()
    progress.start(DEMO)
    for now, report in log:
        progress.on_report(now, report)
    progress.on_reject("server", "p07", EVIL)
    progress.note("saved")
    progress.finish()
    progress.finish()


def test_plain_progress() -> None:
    stream = io.StringIO()
    follow(PlainProgress(stream))
    lines = stream.getvalue().splitlines()
    assert lines[:3] == [*DEMO.lines, "12 of 12 parties present"]
    assert "round 1: 11 of 12 survive, without p03" in lines
    assert [line.split(",")[0] for line in lines if "accuracy" in line] == [
        f"round {n}: accuracy {n + 1}00.0 %" for n in range(4)
    ]
    assert lines[-2:] == ["server rejected a message of p07: p07?[2J?[bold]x[/bold]", "saved"]


def test_explained_progress_begins_with_the_explanation() -> None:
    for shown in (io.StringIO(), io.StringIO()):
        console = Console(file=shown, width=100)
        progress_for(console, explain=True).start(DEMO)
        assert shown.getvalue().splitlines() == list(DEMO.explanation)
    live = io.StringIO()
    with_display = LiveProgress(Console(file=live, width=100, force_terminal=True), explain=True)
    with_display.start(DEMO)
    with_display.finish()
    assert "demo: of the display" in live.getvalue()


def test_lines_of_one_process_begin_with_its_name() -> None:
    stream = io.StringIO()
    follow(PlainProgress(stream, name="server"))
    header, told = stream.getvalue().splitlines()[:2], stream.getvalue().splitlines()[2:]
    assert header == ["run r1: demo", "end: after 4 rounds"]
    assert all(line.startswith("server: ") for line in told)
    assert told[0] == "server: 12 of 12 parties present"
    assert told[-2:] == ["server: rejected a message of p07: p07?[2J?[bold]x[/bold]", "server: saved"]


def test_where_groups_are_hidden_counted_is_who_is_in_an_opened_sum_everywhere() -> None:
    """Of six parties one falls silent; of the five survivors three are in the group whose sum is opened."""
    plan, _ = eventful()
    members = tuple(PartyId(f"p{i:02d}") for i in range(6))
    total = ClusterSum(FIRST_SLOT, 0, members, members[:5], np.zeros(2, np.uint32))
    reports = (
        RoundStarted(0, b""),
        ClustersDrawn(0, b"", ((members,),)),
        SurvivorsFrozen(0, members[:5], members[5:]),
        SlotsCounted(0, 0, (3, 2), (0,)),
        SumOpened(0, total),
        RoundDone(0, 0.5, 1.0, members, members[:5], (total.key,), (), (total.key,), ()),
    )
    stream, scene = io.StringIO(), DisplayState(rounds=1)
    metrics, progress = RunMetrics(msgspec.structs.replace(plan, parties=6)), PlainProgress(stream)
    for report in reports:
        metrics.on_report(0.0, report)
        progress.on_report(0.0, report)
        scene = scene.after(0.0, report)
    whole = summarise(run="r", scenario=plan, metrics=metrics, insecure=False, seconds=1.0, files={})
    assert "round 0: 5 of 6 survive, without p05" in stream.getvalue()
    assert " 3 of 6 counted, 1 of 1 sum opened" in stream.getvalue()
    assert "3 of 6 updates per round; 1 of 1 sum opened" in printed(whole, terminal=False)
    assert whole.rounds[0].row()["counted"] == 3
    assert json.loads(json.dumps(whole.to_json()))["rounds"][0]["counted"] == 3
    shown = Console(file=io.StringIO(), width=100, force_terminal=True, color_system=None)
    with shown.capture() as panel:
        shown.print(draw(scene, 1.0, 2.0))
    assert " 3 of 5 counted " in panel.get()


def test_a_flood_of_refusals_does_not_drown_the_log() -> None:
    stream = io.StringIO()
    progress = PlainProgress(stream)
    for _ in range(1000):
        progress.on_reject("server", "p07", "garbage")
    assert len(stream.getvalue().splitlines()) == 51


def test_late_messages_of_many_parties_make_one_line_that_accuses_none() -> None:
    stream = io.StringIO()
    progress = PlainProgress(stream, name="server")
    for number in range(14):
        progress.on_reject("server", f"p{number:02d}", BEFORE_RESTART)
    progress.on_reject("server", "p03", BEFORE_RESTART)
    assert stream.getvalue() == ""
    progress.note("saved")
    progress.on_reject("server", "p01", late_reason("Reveal", 3, "the server is collecting hellos"))
    progress.finish()
    assert stream.getvalue().splitlines() == [
        "server: ignored 15 late messages of p00, p01, p02, p03, p04, p05, p06, p07 and 6 more:"
        " meant for the server before it was started again",
        "server: saved",
        "server: ignored 1 late message of p01: Reveal of round 3, the server is collecting hellos",
    ]


def test_late_messages_with_ever_other_causes_do_not_drown_the_log() -> None:
    stream = io.StringIO()
    progress = PlainProgress(stream)
    for number in range(1000):
        progress.on_reject("server", "p07", late_reason("Reveal", number, "the server is collecting hellos"))
    progress.finish()
    assert len(stream.getvalue().splitlines()) == 50


def test_the_summary_has_late_messages_in_one_line() -> None:
    plan, log = eventful()
    metrics = RunMetrics(plan)
    for now, report in log:
        metrics.on_report(now, report)
    for number in range(3):
        metrics.on_reject("server", f"p{number:02d}", BEFORE_RESTART)
    metrics.on_reject("server", "p07", EVIL)
    whole = summarise(run="r", scenario=plan, metrics=metrics, insecure=False, seconds=1.0, files={})
    text = printed(whole, terminal=False)
    assert "server ignored 3 late messages of p00, p01, p02: meant for the server before" in text
    assert text.count(" rejected a message of p") == 1


def test_json_progress() -> None:
    stream = io.StringIO()
    progress = JsonProgress(stream)
    follow(progress)
    progress.summary(summary())
    events = [json.loads(line) for line in stream.getvalue().splitlines()]
    assert events[0] == {
        "event": "start",
        "header": ["run r1: demo", "end: after 4 rounds"],
        "explanation": ["run r1", "  demo: of the display", "end", "  after 4 rounds"],
        "rounds": 4,
        "done": 0,
    }
    assert sum(event["event"] == "round_done" for event in events) == 4
    assert events[-3] == {"event": "reject", "by": "server", "culprit": "p07", "reason": EVIL}
    assert events[-1]["event"] == "summary"
    assert "samples" not in stream.getvalue()


def test_a_closed_pipe_does_not_end_the_run(tmp_path: Path) -> None:
    stream = (tmp_path / "log").open("w")
    stream.close()
    follow(PlainProgress(stream))
    follow(JsonProgress(stream))


def test_the_display_fits_the_surroundings() -> None:
    tty = Console(file=io.StringIO(), force_terminal=True, width=80, _environ={"TERM": "xterm"})
    dumb = Console(file=io.StringIO(), force_terminal=True, width=80, _environ={"TERM": "dumb"})
    pipe = Console(file=io.StringIO())
    assert isinstance(progress_for(tty), LiveProgress)
    assert isinstance(progress_for(dumb), PlainProgress)
    assert isinstance(progress_for(pipe), PlainProgress)
    assert isinstance(progress_for(tty, as_json=True), JsonProgress)


def test_live_progress_cleans_up() -> None:
    stream = io.StringIO()
    console = Console(file=stream, force_terminal=True, width=80, _environ={"TERM": "xterm"})
    follow(LiveProgress(console))
    text = stream.getvalue()
    assert "demo" in text
    assert text.count("\x1b[?25l") == text.count("\x1b[?25h") == 1  # the cursor is shown again
    assert "\x1b[2J" not in text


def scenes() -> list[DisplayState]:
    _, log = eventful()
    scene, seen = DisplayState(rounds=4), []
    for now, report in log:
        scene = scene.after(now, report)
        seen.append(scene)
    return seen


@pytest.mark.parametrize("ascii_only", [True, False])
def test_every_scene_can_be_drawn(ascii_only: bool) -> None:
    for scene in [DisplayState(rounds=1), *scenes(), scenes()[-1].refusing("server", EVIL, EVIL)]:
        stream = io.StringIO()
        console = Console(file=stream, force_terminal=True, color_system=None, width=80)
        console.print(draw(scene, 1.0, 2.0, width=80, ascii_only=ascii_only))
        lines = stream.getvalue().splitlines()
        assert {len(line) for line in lines} == {80}
        assert "\x1b" not in stream.getvalue()


def test_the_last_scene() -> None:
    scene = scenes()[-1]
    assert (scene.done, scene.total_opened, len(scene.accuracies)) == (4, 15, 4)
    assert set(scene.standings.values()) == {"counted"}
    middle = next(s for s in scenes() if s.round == 1 and s.done == 2)
    assert [party for party, standing in middle.standings.items() if standing == "dropped"] == ["p03"]


def test_the_servers_own_data_are_a_step_only_where_they_are_asked() -> None:
    def shown(step: str) -> str:
        stream = io.StringIO()
        console = Console(file=stream, width=100, force_terminal=True, color_system=None)
        console.print(draw(DisplayState(rounds=1).after(0.0, StepReached(0, step)), 0.0, 0.0))
        return stream.getvalue()

    assert "open → own data → test" in shown("consult")
    assert "open → test" in shown("release")
    stream = io.StringIO()
    PlainProgress(stream).on_report(0.0, ConsultingFailed(3, "it is not\nfinite"))
    assert stream.getvalue().startswith(
        "round 3: model not changed, the rule could not use the server's own data: it is not"
    )
    assert stream.getvalue().count("\n") == 1


def test_party_side_reports_are_told() -> None:
    scene = DisplayState(rounds=1).after(0.0, SatOut(2, "not in the survivor set"))
    assert scene.events == ("round 2: this party does not take part: not in the survivor set",)
    scene = scene.after(1.0, PartiesJoined((PartyId("p00"),), (PartyId("p01"),)))
    assert scene.events[-1] == "1 of 2 parties present; missing: p01"


def test_small_texts() -> None:
    assert [size(n) for n in (0, 999, 1500, 2_500_000, 3e12)] == [
        "0 B",
        "999 B",
        "1.5 kB",
        "2.5 MB",
        "3000.0 GB",
    ]
    assert [seconds(n) for n in (0.04, 59.9, 61, 3720)] == ["0.0 s", "59.9 s", "1 min 01 s", "1 h 02 min"]
    assert [count_of(n, "sum") for n in (0, 1, 1200)] == ["0 sums", "1 sum", "1,200 sums"]
    assert list_of(["a", "b", "c"], 2) == "a, b and 1 more"
    assert printable("x" * 300, 10) == "xxxxxxx..."


def test_curves() -> None:
    assert curve([], 10) == [""]
    assert curve([1.0, 2.0, 3.0], 10) == ["▁▄█"] or curve([1.0, 2.0, 3.0], 10) == ["▁▅█"]
    assert curve([5.0, 5.0], 10) == ["▁▁"]
    assert curve([0.0, float("nan"), 1.0], 10) == ["▁ █"]
    assert len(curve([float(n) for n in range(1000)], 40)[0]) == 40
    assert curve([float(n) for n in range(1000)], 40)[0][-1] == "█"
    assert curve([0.0, 1.0], 10, 3) == [" █", " █", "▁█"]
    assert curve([0.0, 1.0], 10, ascii_only=True)[0].isascii()


def test_a_report_of_a_lost_model_is_shown() -> None:
    done = next(report for _, report in eventful()[1] if isinstance(report, RoundDone))
    stream = io.StringIO()
    progress = PlainProgress(stream)
    progress.on_report(1.0, replace(done, loss=float("inf"), accuracy=float("nan")))
    assert "accuracy -, loss inf" in stream.getvalue()


@pytest.mark.parametrize(("loss", "destroyed"), [(2.3, False), (6.6e7, True), (float("inf"), True)])
def test_a_destroyed_model_is_called_so(loss: float, destroyed: bool) -> None:
    plain = summary()
    what = replace(plain, rounds=(*plain.rounds[:-1], replace(plain.rounds[-1], loss=loss)))
    assert ("the model is destroyed" in printed(what, terminal=False)) == destroyed
    outcome = what.to_json()["outcome"]
    assert isinstance(outcome, dict)
    assert outcome["model_destroyed"] is destroyed


def test_the_time_left_counts_the_rounds_since_a_resume() -> None:
    scene = DisplayState(rounds=20, done=12, before=12)
    assert scene.left(0.0) is None
    for round_, (begun, done) in enumerate([(100.0, 104.0), (104.0, 110.0)], start=12):
        scene = scene.after(begun, RoundStarted(round_, bytes(32)))
        scene = scene.after(done, RoundDone(round_, 0.5, 1.0, (), (), (), (), (), ()))
    assert scene.done == 14
    assert scene.left(6.0) == pytest.approx(6 * 5.0)
    assert scene.left(8.0) == pytest.approx(6 * 5.0 - 2.0)
    assert scene.left(1000.0) == 0.0
    stream = io.StringIO()
    Console(file=stream, width=100).print(draw(scene, 10.0, 8.0))
    assert "14 of 20 done   10.0 s   28 s left" in stream.getvalue()
