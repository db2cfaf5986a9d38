from __future__ import annotations

import json
import math
import tracemalloc
from contextlib import closing
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from securefl.base.errors import RunAbortedError, UsageError
from securefl.base.ids import PartyId
from securefl.protocol.kernel.effects import Reject
from securefl.protocol.round.server.stacking import ClusterSum
from securefl.protocol.round.shared.reports import (
    AnyReport,
    ClaimConfirmed,
    ClaimRefused,
    ClustersDrawn,
    DrawVoided,
    InstanceLost,
    InstanceRetried,
    ModelFinal,
    ModelStepped,
    RoundDone,
    RoundSkipped,
    RoundStarted,
    SumOpened,
    SumsWithheld,
    SurvivorsFrozen,
    ValuesMoved,
)
from securefl.runtime.report.evidence import brief_entry_of, entry_of
from securefl.runtime.report.metrics import RunMetrics
from securefl.runtime.report.outcome import RunEnd
from securefl.runtime.report.records import RefusedMessage, RoundRecord, Volume
from securefl.runtime.report.rundir import RunDirectory
from securefl.runtime.report.summary import server_view
from tests.simulation.world import scenario
from tests.unit.report.runs import eventful

P = [PartyId(f"p0{i}") for i in range(6)]


def heard() -> RunMetrics:
    plan, log = eventful()
    metrics = RunMetrics(plan)
    for now, report in log:
        metrics.on_report(now, report)
    return metrics


def test_who_was_counted_and_why_not() -> None:
    records = heard().records
    assert [len(record.counted) for record in records] == [12, 11, 11, 10]
    assert [[out.party for out in record.left_out] for record in records] == [
        [],
        ["p03"],
        ["p05"],
        ["p05", "p07"],
    ]
    assert records[1].left_out[0].reason == "silent before its masked input"
    assert {out.reason for out in records[3].left_out} == {"did not turn up"}


def test_outcome_of_a_run() -> None:
    metrics = heard()
    metrics.on_end(RunEnd(reason="4 rounds done"))
    outcome = metrics.outcome()
    assert (outcome.rounds, outcome.survivors, outcome.clusters_lost) == (4, 10, 0)
    assert outcome.opened_sums == 4 + 4 + 4 + 3
    assert outcome.accuracy == 4.0
    assert (outcome.aborted, outcome.epsilon, outcome.reason) == (False, None, "4 rounds done")


def test_every_round_is_a_row_when_it_ends() -> None:
    plan, log = eventful()
    rows: list[str] = []
    metrics = RunMetrics(plan, lambda row: rows.append(json.dumps(row, allow_nan=False)))
    for now, report in log:
        metrics.on_report(now, report)
        assert len(rows) == len(metrics.records)
    assert [json.loads(row)["round"] for row in rows] == [0, 1, 2, 3]
    assert json.loads(rows[2])["survivors"] == [f"p{i:02d}" for i in range(12) if i != 5]


def test_with_its_file_at_hand_no_round_stays_in_memory_and_the_end_is_the_same(tmp_path: Path) -> None:
    plan, log = eventful()
    directory = RunDirectory(tmp_path)
    rows = directory.metrics()
    metrics = RunMetrics(plan, rows.append, reread=directory.each_record)
    for now, report in log:
        metrics.on_report(now, report)
        assert not metrics._records
    rows.close()
    kept = heard()
    for one in (kept, metrics):
        one.on_end(RunEnd(reason="4 rounds done"))
    directory.metrics_file.unlink()
    assert [record.row() for record in metrics.records] == [record.row() for record in kept.records]
    assert metrics.outcome() == kept.outcome()
    assert metrics.refusals() == kept.refusals()


def test_what_verifiers_said_of_a_round_is_in_the_next_row_and_known_to_the_next_server() -> None:
    plan, log = eventful()
    rows: list[dict[str, Any]] = []
    metrics = RunMetrics(plan, lambda row: rows.append(dict(row)))
    ended = 0
    for now, report in log:
        metrics.on_report(now, report)
        if isinstance(report, RoundDone):
            told = ClaimRefused(ended, "nobody did") if ended == 1 else ClaimConfirmed(ended, bytes(32), 4)
            metrics.on_report(now, told)
            ended += 1
    said = [row.get("claims") for row in rows]
    assert said[:3] == [None, [{"round": 0, "reason": ""}], [{"round": 1, "reason": "nobody did"}]]
    records = [RoundRecord.from_row(row) for row in rows]
    assert [record.row() for record in records] == rows
    later = RunMetrics(plan, earlier=records)
    assert later.claims == {0: "", 1: "nobody did", 2: ""}
    # The server says again what was confirmed last, which may be in no row.
    later.on_report(0.0, ClaimConfirmed(3, bytes(32), 4))
    assert later.claims == metrics.claims


def test_rounds_of_earlier_servers_are_read_one_after_the_other(tmp_path: Path) -> None:
    """Whoever goes on after very many rounds has none of them in memory, and not at a time either."""
    directory, rounds = RunDirectory(tmp_path), 2000
    row = heard().records[2].row()
    with closing(directory.metrics()) as rows:
        for round_ in range(rounds):
            rows.append({**row, "round": round_})
    tracemalloc.start()
    try:
        with closing(directory.more_metrics()) as rows:
            again = RunMetrics(
                scenario(12), rows.append, earlier=directory.each_record(), reread=directory.each_record
            )
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < directory.metrics_file.stat().st_size / 2
    assert [again.was_done(round_) for round_ in (0, rounds - 1, rounds)] == [True, True, False]
    assert [record.round for record in again.records] == list(range(rounds))


def test_a_row_that_could_not_be_written_counts_all_the_same(tmp_path: Path) -> None:
    plan, log = eventful()
    directory = RunDirectory(tmp_path)
    rows = directory.metrics()
    written: list[object] = []

    def append(row: Any) -> None:
        if len(written) == 2:
            raise RunAbortedError("disk full")
        written.append(row)
        rows.append(row)

    metrics = RunMetrics(plan, append, reread=directory.each_record)

    def follow() -> None:
        for now, report in log:
            metrics.on_report(now, report)

    with pytest.raises(RunAbortedError, match="disk full"):
        follow()
    metrics.on_end(RunEnd(reason="disk full", aborted=True))
    assert [record.round for record in metrics.records] == [0, 1, 2]


def test_rows_that_are_gone_are_an_abort_and_no_wrong_summary(tmp_path: Path) -> None:
    directory = RunDirectory(tmp_path)
    metrics = RunMetrics(scenario(6), reread=directory.each_record)
    with pytest.raises(RunAbortedError, match=r"metrics\.jsonl: cannot be read"):
        metrics.on_end(RunEnd(reason="done"))


def test_parties_of_a_roster_have_their_own_names() -> None:
    names = [PartyId(name) for name in ("north", "south", "west")]
    metrics = RunMetrics(scenario(6), parties=names)
    metrics.on_report(0.0, RoundDone(0, None, None, (), (), (), (), (), ()))
    assert [out.party for out in metrics.records[0].left_out] == names


@pytest.mark.parametrize(
    ("norms", "refused", "fruitless"),
    [
        ((1.0, 1.0), (), 0),
        ((None, 1.0), (), 0),
        ((1.0, None), (), 1),
        ((None, None), (), 2),
        # Nobody confirmed the step: its model is not that of the run.
        ((1.0, 1.0), (1,), 1),
        ((1.0, 1.0), (0,), 0),
        ((), (), 0),
    ],
)
def test_last_rounds_without_a_model_are_counted(
    norms: tuple[float | None, ...], refused: tuple[int, ...], fruitless: int
) -> None:
    metrics = RunMetrics(scenario(6))
    for number, norm in enumerate(norms):
        metrics.on_report(0.0, ModelStepped(number, (), (), norm))
        metrics.on_report(0.0, RoundDone(number, None, None, (), (), (), (), (), ()))
    for number in refused:
        metrics.on_report(0.0, ClaimRefused(number, "not confirmed"))
    metrics.on_end(RunEnd(reason="done"))
    assert metrics.outcome().rounds_without_update == fruitless


def test_steps_add_up_to_the_round() -> None:
    for record in heard().records:
        steps = {step: spent for step, spent in record.seconds.items() if step != "total"}
        assert set(steps) == {"hello", "reveal", "training", "release", "evaluate"}
        assert sum(steps.values()) == pytest.approx(record.seconds["total"])
    slow = heard().records[1]
    assert slow.seconds["training"] > 8


def test_traffic_counts_for_the_round_in_which_it_flowed() -> None:
    plan, log = eventful()
    metrics = RunMetrics(plan)
    for now, report in log:
        if isinstance(report, RoundStarted):
            metrics.on_traffic("p00", "up", 2, 100 + report.round)
            metrics.on_traffic("p00", "up", 1, 50)
            metrics.on_traffic("p01", "down", 1, 7)
        metrics.on_report(now, report)
    metrics.on_traffic("p00", "down", 1, 9)
    assert [record.traffic["p00"]["up"] for record in metrics.records] == [
        Volume(3, 150 + number) for number in range(4)
    ]
    assert metrics.traffic() == {
        "p00": {"up": Volume(12, 606), "down": Volume(1, 9)},
        "p01": {"down": Volume(4, 28)},
    }


def test_refusals_are_counted_but_not_those_of_liars() -> None:
    metrics = RunMetrics(scenario(6), dishonest=["server"])
    for _ in range(3):
        metrics.on_reject("p00", "server", "bad certificate")
    metrics.on_reject("server", "p00", "out of turn")
    assert metrics.refusals() == {
        RefusedMessage("p00", "server", "bad certificate"): 3,
        RefusedMessage("server", "p00", "out of turn"): 1,
    }
    assert metrics.outcome().refusals == 3


def test_a_flood_of_different_refusals_is_bounded_and_counted() -> None:
    metrics = RunMetrics(scenario(6))
    for number in range(5000):
        metrics.on_reject("server", "p00", f"garbage {number}")
    assert len(metrics.refusals()) <= 1001
    assert metrics.outcome().refusals == 5000


def drive(*reports: AnyReport) -> RunMetrics:
    metrics = RunMetrics(scenario(6))
    for number, report in enumerate(reports):
        metrics.on_report(float(number), report)
    return metrics


def opened(cluster: int, *counted: int, members: tuple[PartyId, ...]) -> SumOpened:
    alive = tuple(P[i] for i in counted)
    return SumOpened(0, ClusterSum(0, cluster, members, alive, np.zeros(2, dtype=np.uint32)))


LEFT, RIGHT = tuple(P[:3]), tuple(P[3:])
DONE = RoundDone(
    round=0,
    accuracy=0.5,
    loss=float("inf"),
    participants=tuple(P),
    survivors=tuple(P),
    opened=((0, 0),),
    lost=((0, 1),),
    kept=((0, 0),),
    rejected=(),
)


def test_members_of_a_sum_lost_after_the_freeze_are_not_counted() -> None:
    metrics = drive(
        ClustersDrawn(0, b"", ((LEFT, RIGHT),)),
        SurvivorsFrozen(0, tuple(P), ()),
        InstanceLost(0, 0, 1, "1 member released shares, 2 are needed"),
        opened(0, 0, 1, 2, members=LEFT),
        ModelStepped(0, ((0, 0),), (), 1.0),
        DONE,
    )
    (record,) = metrics.records
    assert record.counted == LEFT
    assert [out.party for out in record.left_out] == list(RIGHT)
    assert "1 member released" in record.left_out[0].reason
    assert metrics.outcome().survivors == 3
    assert metrics.outcome().clusters_lost == 1
    assert record.row()["loss"] is None


def test_what_the_ledger_keeps_closed_is_said() -> None:
    """Whoever fell silent is in sums that stay closed too, and is left out for being silent."""
    metrics = drive(
        ClustersDrawn(0, b"", ((LEFT, RIGHT), (RIGHT, LEFT))),
        SurvivorsFrozen(0, tuple(P[:5]), (P[5],)),
        SumsWithheld(0, (1,), ((P[0],),), "p00, its update follows from the sums"),
        opened(0, 0, 1, 2, members=LEFT),
        opened(1, 3, 4, members=RIGHT),
        ModelStepped(0, ((0, 0),), (), 1.0),
        replace(DONE, opened=((0, 0), (0, 1)), lost=((1, 0), (1, 1))),
    )
    (record,) = metrics.records
    closed = "kept closed by the leakage ledger: p00, its update follows from the sums"
    assert record.lost == {(1, 0): closed, (1, 1): closed}
    assert dict(record.left_out) == {P[5]: "silent before its masked input"}
    assert server_view(metrics.records).closed == 2


def test_a_round_of_which_all_stays_closed_says_why() -> None:
    metrics = drive(
        ClustersDrawn(0, b"", ((LEFT, RIGHT),)),
        SurvivorsFrozen(0, tuple(P[:5]), (P[5],)),
        SumsWithheld(0, (0,), (tuple(P),), "p00, leverage 0.5, above 0.3"),
        replace(DONE, survivors=(), opened=(), lost=((0, 0), (0, 1))),
    )
    reasons = dict(metrics.records[0].left_out)
    why = "all its sums were kept closed by the leakage ledger: p00, leverage 0.5, above 0.3"
    assert reasons == dict.fromkeys(P[:5], why) | {P[5]: "silent before its masked input"}


def test_nobody_is_called_silent_in_a_round_that_was_skipped() -> None:
    why = "the server was started again in it"
    metrics = drive(
        RoundSkipped(0, why), InstanceLost(0, 0, 0, why), replace(DONE, opened=(), lost=((0, 0),))
    )
    assert dict(metrics.records[0].left_out) == dict.fromkeys(P, f"the round was skipped: {why}")


def test_excluded_and_refused_members_are_told_apart() -> None:
    metrics = RunMetrics(scenario(6))
    metrics.on_report(0.0, ClustersDrawn(0, b"", ((LEFT, RIGHT),)))
    metrics.on_report(1.0, InstanceRetried(0, 0, 0, 1, (P[0],)))
    metrics.on_reject("server", "p01", "its share does not fit")
    metrics.on_report(2.0, opened(0, 2, members=LEFT))
    metrics.on_report(3.0, opened(1, 3, 4, members=RIGHT))
    metrics.on_report(4.0, replace(DONE, lost=(), opened=((0, 0), (0, 1))))
    (record,) = metrics.records
    assert dict(record.left_out) == {
        "p00": "left out when its sum started over",
        "p01": "refused: its share does not fit",
        "p05": "silent before its masked input",
    }
    assert record.retries == 1


def test_a_round_without_a_new_model_is_not_a_round() -> None:
    metrics = drive(ModelStepped(0, (), (), None), replace(DONE, opened=(), lost=((0, 0), (0, 1))))
    outcome = metrics.outcome()
    assert (outcome.rounds, outcome.survivors, outcome.clusters_lost, outcome.accuracy) == (0, None, 2, 0.5)


def test_a_backdoors_success_is_kept_where_there_is_one() -> None:
    metrics = drive(
        ModelStepped(0, ((0, 0),), (), 1.0), replace(DONE, loss=1.0, lost=(), backdoor_success=0.75)
    )
    (record,) = metrics.records
    assert record.row()["backdoor_success"] == 0.75
    assert RoundRecord.from_row(json.loads(json.dumps(record.row()))).backdoor_success == 0.75
    outcome = metrics.outcome()
    assert outcome.measure("backdoor_success") == 0.75
    (honest,) = drive(ModelStepped(0, ((0, 0),), (), 1.0), replace(DONE, lost=())).records
    assert "backdoor_success" not in honest.row()


def test_an_abort_keeps_what_was_opened() -> None:
    metrics = drive(opened(0, 0, 1, 2, members=LEFT))
    metrics.on_end(RunEnd(reason="too few parties", aborted=True))
    outcome = metrics.outcome()
    assert (outcome.aborted, outcome.opened_sums, outcome.accuracy) == (True, 1, None)


def test_withheld_nonces_are_named() -> None:
    metrics = drive(DrawVoided(0, 0, (P[5],)), replace(DONE, participants=tuple(P[:5]), lost=()))
    assert ("p05", "withheld its nonce") in metrics.records[0].left_out
    assert metrics.records[0].redraws == 1


def test_nobody_is_missed_where_parties_are_sampled() -> None:
    metrics = RunMetrics(scenario(6, participation__count="3"))
    metrics.on_report(0.0, opened(0, 0, 1, 2, members=LEFT))
    metrics.on_report(1.0, replace(DONE, participants=LEFT, lost=()))
    assert metrics.records[0].left_out == ()


def test_all_reports_become_entries() -> None:
    _, log = eventful()
    kinds = set()
    for _, report in log:
        kind, fields = entry_of(report, "r1")
        json.dumps(fields, allow_nan=False)
        kinds.add(kind)
    assert {"parties_joined", "round_started", "clusters_drawn", "sum_opened", "model_final"} <= kinds


def test_entries_hold_announced_values_by_name() -> None:
    _, fields = entry_of(ValuesMoved(2, {"clip": 0.5}, {"clip": math.inf}), "r1")
    assert fields == {"round": 2, "values": {"clip": 0.5}, "following": {"clip": None}}


def test_entries_hold_vectors_by_digest() -> None:
    kind, fields = entry_of(opened(0, 0, 1, members=LEFT), "r1")
    assert kind == "sum_opened"
    assert isinstance(fields["opened"], dict)
    assert fields["opened"]["survivors"] == ["p00", "p01"]
    assert fields["opened"]["ring"]["samples"] == [0, 0]
    _, brief = brief_entry_of(ModelFinal(3, np.ones(9, dtype=np.float32)))
    assert set(brief["params"]) == {"digest", "length"}  # type: ignore[arg-type]
    assert entry_of(RoundStarted(0, b"\x01\xff"), "r1")[1]["model_digest"] == "01ff"
    assert entry_of(DONE, "r1")[1]["loss"] is None


@pytest.mark.parametrize(
    "secret",
    [b"key", {"a": 1}, Reject("a", "b"), RoundStarted, ClusterSum(0, 0, (), (), np.zeros(1, np.uint32))],
)
def test_nothing_but_reports_is_written_down(secret: object) -> None:
    with pytest.raises(UsageError):
        entry_of(secret, "r1")  # type: ignore[arg-type] # what a mistake would hand over


def test_a_report_with_something_strange_inside_is_refused() -> None:
    with pytest.raises(UsageError, match="object"):
        entry_of(RoundStarted(0, object()), "r1")  # type: ignore[arg-type]


def test_times_in_the_log_never_run_backwards() -> None:
    _, log = eventful()
    assert all(first <= second for (first, _), (second, _) in pairwise(log))
