"""Experiments on a recorded run: each makes a chapter, and what they need is asked for."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from securefl.base.arrays import I64
from securefl.base.errors import ConfigError
from securefl.base.ids import PartyId, RunId
from securefl.cli.audit import _EXPERIMENTS, _experiments
from securefl.lab.audit.exhibits import Pictures, Table
from securefl.lab.audit.finding import Chapter, Evidence, Severity
from securefl.lab.audit.load import load, load_truth
from securefl.lab.audit.recorded import Recorded
from securefl.lab.audit.replay_rounds import AnnouncedModel, ReplayRound
from securefl.lab.privacy_attacks.laboratory.about_epsilon import audit_epsilon
from securefl.lab.privacy_attacks.laboratory.about_labels import audit_properties
from securefl.lab.privacy_attacks.laboratory.about_members import audit_membership
from securefl.lab.privacy_attacks.laboratory.about_pictures import audit_inversion, growing, sizes_up_to
from securefl.lab.privacy_attacks.laboratory.case import Case, Uploads, case_of
from securefl.lab.privacy_attacks.laboratory.experiments import EXPERIMENTS
from securefl.methods.attacks.assignment import party_names
from securefl.methods.encoding.ring import from_ring
from securefl.methods.feasibility.limits import check
from securefl.protocol.round.server.stacking import ClusterSum
from securefl.protocol.round.shared.reports import ModelFinal, SumOpened
from securefl.runtime.simulation.federation import assemble
from securefl.runtime.simulation.rounds import SimulatedRounds
from securefl.scenario.scenario import Scenario
from securefl.training.data.split import split
from tests.unit.audit.laboratory.scenarios import digits, scenario

SEED = 3
ONE_STEP = ("stop.rounds=1", "training.epochs=1", "training.batch_size=256")
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


def nothing_kept(_party: PartyId, _round: int, _work: int) -> None:
    """Ground truth that is not there."""


def encoded_alone(records: int, *overrides: str) -> Uploads:
    """What each party encodes in the first round, whatever the clusters: the sums of clusters of one."""
    fields = ("clustering.size", "secure_sum.threshold", "secure_sum.min_survivors", "secure_sum.k_anonymity")
    alone = scenario(*overrides, *(f"{field}=1" for field in fields), "leakage.mode=report")
    federation, heard = assemble(alone, RunId("0" * 32), SEED, dataset=digits(records)), Heard()
    SimulatedRounds(federation, (heard,)).run(federation.evaluator.evaluate)
    found = {one.survivors[0]: from_ring(one.ring) for one in heard.sums}
    return lambda party, round_, work: found[party] if (round_, work) == (0, 0) else None


def case(held: Scenario, records: int, uploads: Uploads = nothing_kept) -> Case:
    """A simulated run as if it had been recorded."""
    data = digits(records)
    federation, heard = assemble(held, RunId("0" * 32), SEED, dataset=data), Heard()
    SimulatedRounds(federation, (heard,)).run(federation.evaluator.evaluate)
    assert heard.final is not None
    names = party_names(held.parties)
    rows = split(data, held.data, names, SEED).parties
    one = ReplayRound(
        round=0,
        before=AnnouncedModel(federation.initial, "", NOWHERE),
        after=AnnouncedModel(heard.final.params, "", NOWHERE),
        announced="",
        clusters=(),
        resting=(),
        seed=b"",
        atom_seed=b"",
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
    return Case(recorded, SEED, data, rows, (one,), uploads, lambda _line: None)


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
    mixed = "data.partition={type='dirichlet', alpha=0.3}"
    chosen = (*ONE_STEP, *((mixed,) if size > 4 else ()))
    chapter = experiment(case(scenario(*chosen), size, encoded_alone(size, *chosen)))
    assert {finding.severity for finding in chapter.findings} <= {Severity.WARNING, Severity.BREACH}
    assert chapter.exhibits


def test_pictures_get_worse_as_members_are_added_and_only_the_opened_sum_is_judged() -> None:
    held = (*ONE_STEP, "parties=5", "clustering.size=5", "model.hidden=[8]")
    found = case(scenario(*held), 50, encoded_alone(50, *held))
    chapter = audit_inversion(found)
    assert [finding.severity for finding in chapter.findings] == [Severity.HOLDS]
    table, pictures = chapter.exhibits[-2:]
    assert isinstance(table, Table)
    assert isinstance(pictures, Pictures)
    rows = [dict(zip(table.columns, row, strict=True)) for row in table.rows]
    assert [(row["m"], row["sum"], row["samples"], row["search"]) for row in rows] == [
        (1, "hypothetical", 10, "yes"),
        (2, "hypothetical", 20, "no"),
        (5, "opened", 50, "no"),
    ]
    assert rows[0]["SSIM"] > rows[1]["SSIM"] > rows[2]["SSIM"]  # type: ignore[operator] # all are floats
    captions = [{picture.caption.split(":")[0] for picture in row} for row in pictures.rows]
    assert captions == [{"original"}, {"m = 1"}, {"m = 2"}, {"m = 5"}]
    assert "hypothetical" in table.note
    assert table.title.endswith("first m of p00, p01, p02, p03, p04")


def test_sums_of_fewer_members_are_of_the_updates_that_were_opened() -> None:
    held = (*ONE_STEP, "parties=5", "clustering.size=5", "behaviours=[{kind='scale', parties=['p00']}]")
    whole = case(scenario(*held), 20, encoded_alone(20, *held))
    (opened,) = whole.first.sums
    means = growing(whole, opened)
    # Who shows a behaviour comes last.
    assert [mean.survivors for mean in means] == [
        ("p01",),
        ("p01", "p02"),
        ("p01", "p02", "p03", "p04", "p00"),
    ]
    np.testing.assert_array_equal(means[-1].update, whole.means(whole.first)[0].update)
    one, two = (whole.uploads(PartyId(name), 0, 0) for name in ("p01", "p02"))
    assert one is not None
    assert two is not None
    unit = 2.0**whole.recorded.scenario.encoding.scale_bits
    weight = {name: whole.weights(whole.first)[name] for name in means[1].survivors}
    np.testing.assert_allclose(means[1].update, (one + two) / unit / sum(weight.values()), rtol=1e-12)


def test_updates_that_do_not_add_up_to_the_opened_sum_are_told_apart() -> None:
    kept = encoded_alone(80, *ONE_STEP)

    def altered(party: PartyId, round_: int, work: int) -> I64 | None:
        upload = kept(party, round_, work)
        return None if upload is None else upload + 1

    for uploads in (altered, nothing_kept):
        found = case(scenario(*ONE_STEP), 80, uploads)
        assert all(growing(found, opened) == () for opened in found.first.sums)
    note = audit_inversion(found).findings[-1]
    assert note.severity is Severity.NOTE
    assert "do not add up" in note.claim


def test_few_sizes_are_inverted() -> None:
    assert [sizes_up_to(members) for members in (1, 2, 3, 5, 10, 20)] == [
        (1,),
        (1, 2),
        (1, 2, 3),
        (1, 2, 5),
        (1, 3, 10),
        (1, 4, 20),
    ]


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
    assert "40 canaries in 1 release " in chapter.findings[0].claim


def test_ground_truth_and_whole_vectors_are_asked_for(plain: Path) -> None:
    recorded = load(plain)
    with pytest.raises(ConfigError, match="--attacks: experiments need recorded updates"):
        case_of(recorded, None, None, print)
    unknown = replace(recorded, transcripts={})
    with pytest.raises(ConfigError, match="no transcript states the seed"):
        case_of(unknown, load_truth(plain, recorded), None, print)


def test_the_command_line_knows_them_all() -> None:
    assert tuple(EXPERIMENTS) == _EXPERIMENTS
    assert _experiments("canary, membership") == ["canary", "membership"]
    with pytest.raises(ConfigError, match=r"'inversions' is not an experiment \(choose from membership"):
        _experiments("canary,inversions")
