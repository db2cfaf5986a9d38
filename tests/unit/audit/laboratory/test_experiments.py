"""Experiments on a recorded run: each makes a chapter, and what they need is asked for."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from securefl.audit.chapter import Chapter
from securefl.audit.finding import Evidence, Severity
from securefl.audit.laboratory.about_epsilon import audit_epsilon
from securefl.audit.laboratory.about_members import audit_membership
from securefl.audit.laboratory.about_samples import audit_inversion, audit_properties
from securefl.audit.laboratory.case import Case, case_of
from securefl.audit.laboratory.experiments import EXPERIMENTS
from securefl.audit.load import load, load_truth
from securefl.audit.recorded import Recorded
from securefl.audit.replay_rounds import Model, ReplayRound
from securefl.cli.audit import _EXPERIMENTS, _experiments
from securefl.config.cast import party_names
from securefl.config.limits import check
from securefl.config.scenario import Scenario
from securefl.errors import ConfigError
from securefl.ids import RunId
from securefl.learning.split import split
from securefl.rounds.reports import ModelFinal, SumOpened
from securefl.rounds.stacking import ClusterSum
from securefl.simulation.course import Course
from securefl.simulation.federation import assemble
from tests.unit.audit.laboratory.scenarios import digits, scenario

SEED = 3
NOWHERE = Evidence("server", 0)


class Heard:
    """Sums of the first round, and the final model."""

    def __init__(self) -> None:
        self.sums: list[ClusterSum] = []
        self.final: ModelFinal | None = None

    def on_report(self, _now: float, report: object) -> None:
        if isinstance(report, SumOpened) and report.round == 0:
            self.sums.append(report.opened)
        if isinstance(report, ModelFinal):
            self.final = report

    def on_reject(self, vantage: str, culprit: str, reason: str) -> None:
        pass


def case(held: Scenario, records: int) -> Case:
    """A simulated run as if it had been recorded."""
    data = digits(records)
    federation, heard = assemble(held, RunId("0" * 32), SEED, dataset=data), Heard()
    Course(federation, (heard,)).run(federation.evaluator.evaluate)
    assert heard.final is not None
    names = party_names(held.parties)
    rows = split(data, held.data, names, SEED).parties
    one = ReplayRound(
        round=0,
        before=Model(federation.initial, "", NOWHERE),
        after=Model(heard.final.params, "", NOWHERE),
        announced="",
        clusters=(),
        resting=(),
        seed=b"",
        founding=b"",
        counts={name: len(own) for name, own in rows.items()},
        sums=tuple(heard.sums),
        excluded=frozenset(),
        kept=(),
        rejected=(),
        norm=None,
        drawn=NOWHERE,
        stepped=NOWHERE,
    )
    recorded = Recorded(
        run="0" * 32,
        scenario=held,
        limits=check(held),
        parties=names,
        transcripts={},
        records=(),
        summary={"privacy": {"epsilon": 0.1, "delta": 1e-5}},
    )
    return Case(recorded, SEED, data, rows, (one,), lambda _line: None)


def test_membership_has_two_targets_and_a_breach_where_epsilon_allows_less() -> None:
    chapter = audit_membership(case(scenario("stop.rounds=4", "training.learning_rate=0.5"), 80), shadows=8)
    assert [finding.audit for finding in chapter.findings] == ["membership"] * 2
    assert "behind the final model" in chapter.findings[0].claim
    assert "behind a sum of 2 parties" in chapter.findings[1].claim
    assert all("allows 1.1 %" in finding.claim for finding in chapter.findings)
    assert len(chapter.exhibits) == 2


@pytest.mark.parametrize(
    ("experiment", "size"), [(audit_inversion, 4), (audit_properties, 400)], ids=["inversion", "properties"]
)
def test_samples_leave_traces(experiment: Callable[[Case], Chapter], size: int) -> None:
    one_step = ("stop.rounds=1", "training.epochs=1", "training.batch_size=256")
    mixed = "data.partition={type='dirichlet', alpha=0.3}"
    held = case(scenario(*one_step, *((mixed,) if size > 4 else ())), size)
    chapter = experiment(held)
    assert {finding.severity for finding in chapter.findings} <= {Severity.WARNING, Severity.BREACH}
    assert chapter.exhibits


def test_without_privacy_there_is_no_epsilon_to_refute() -> None:
    chapter = audit_epsilon(case(scenario("stop.rounds=1"), 40))
    assert [finding.severity for finding in chapter.findings] == [Severity.NOTE]


def test_a_claim_is_put_to_the_test() -> None:
    private = (
        "training.epochs=",
        "training.learning_rate=",
        "training.batch_size=10",
        "training.dp_sgd={}",
        "weighting.mode=ignore",
        "encoding.scale_bits=13",
        "privacy={unit='record', multiplier=1.0, delta=1e-3, records=10}",
        "stop.rounds=1",
    )
    chapter = audit_epsilon(case(scenario(*private), 40), canaries=40)
    assert [finding.severity for finding in chapter.findings] == [Severity.HOLDS]
    assert "40 canaries in 1 releases" in chapter.findings[0].claim


def test_ground_truth_and_whole_vectors_are_asked_for(plain: Path) -> None:
    recorded = load(plain)
    with pytest.raises(ConfigError, match="ground truth"):
        case_of(recorded, None, None, print)
    unknown = replace(recorded, transcripts={})
    with pytest.raises(ConfigError, match="says the seed"):
        case_of(unknown, load_truth(plain, recorded), None, print)


def test_the_command_line_knows_them_all() -> None:
    assert tuple(EXPERIMENTS) == _EXPERIMENTS
    assert _experiments("canary, membership") == ["canary", "membership"]
    with pytest.raises(ConfigError, match=r"'inversions' is no experiment \(one of membership"):
        _experiments("canary,inversions")
