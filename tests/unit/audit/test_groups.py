"""Audits of runs with task groups, open and hidden: as they should be, and as they should not."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest

from securefl.base.ids import PartyId
from securefl.lab.audit.finding import Finding, Severity
from securefl.lab.audit.load import load, load_truth
from securefl.lab.audit.report import AuditReport
from securefl.lab.audit.run import audit
from securefl.lab.audit.slots import slots_of
from securefl.lab.privacy_attacks.laboratory.experiments import attack_chapters
from securefl.methods.clustering.assignment import Assignment
from securefl.methods.encoding.ring import from_ring
from securefl.protocol.messages.rounds import SEATS
from securefl.protocol.round.party import shares as party_shares
from securefl.protocol.round.party import sums as party_sums
from securefl.protocol.round.party.upload import EncodedUpdate
from securefl.protocol.round.server import opening
from securefl.protocol.round.shared import draw
from securefl.protocol.round.shared.groups import draw_inside_groups
from securefl.protocol.round.shared.plan import RunPlan
from securefl.protocol.round.shared.slots import slot_uploads
from tests.recorded.masks import judge_masks
from tests.recorded.restepping import restepped
from tests.seen import patch_seen
from tests.simulation.test_task_groups import HIDDEN, OPEN, learn, lying, members_in, one_odd, parity
from tests.simulation.world import World, scenario
from tests.unit.audit.runs import record

SHORT = {"rounds": "2", "groups__warmup": "1"}


def audited(out: Path, colluders: tuple[str, ...] = ()) -> AuditReport:
    recorded = load(out, colluders)
    return audit(recorded, load_truth(out, recorded))


def nets(out: Path) -> tuple[Finding, ...]:
    """Return the findings of the nets that repeat machines and test masks."""
    recorded = load(out)
    truth = load_truth(out, recorded)
    return (*restepped(recorded, truth), *judge_masks(recorded, truth))


def of(report: AuditReport, name: str) -> tuple[Finding, ...]:
    (chapter,) = [one for one in report.chapters if one.audit == name]
    return chapter.findings


def breaches(report: AuditReport, name: str) -> list[str]:
    return [one.claim for one in of(report, name) if one.severity is Severity.BREACH]


def said(findings: tuple[Finding, ...], part: str) -> Finding:
    (found,) = [one for one in findings if part in one.claim]
    return found


@pytest.fixture(scope="module")
def opened(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The warm-up's clusters are all of model 0; then two groups with two clusters each."""
    out = tmp_path_factory.mktemp("groups") / "open"
    record(out, scenario(8, **SHORT, **OPEN), length=16, lab=True, choose=parity)
    return out


@pytest.fixture(scope="module")
def hidden(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """p03 alone chooses model 1, so that its slot stays closed."""
    out = tmp_path_factory.mktemp("groups") / "hidden"
    record(out, scenario(8, **SHORT, **HIDDEN), length=16, lab=True, choose=one_odd)
    return out


@pytest.mark.parametrize("mode", ["opened", "hidden"])
def test_every_chapter_covers_a_run_with_groups(mode: str, request: pytest.FixtureRequest) -> None:
    report = audited(request.getfixturevalue(mode))
    for chapter in report.chapters:
        severities = {one.severity for one in chapter.findings}
        assert max(severities) < Severity.WARNING, chapter.findings
        assert Severity.HOLDS in severities or chapter.audit == "budget"
    assert "models of 2 rounds follow from the opened sums" in said(of(report, "replay"), "models of").claim
    again = said(nets(request.getfixturevalue(mode)), "stepped again from the seed")
    assert again.claim.startswith("9 machines" if mode == "opened" else "1 machine (server)")


def test_what_is_not_known_of_hidden_groups_is_said(hidden: Path) -> None:
    report = audited(hidden)
    slots = said(of(report, "exposure"), "opened slots of hidden groups have f + k_anonymity = 2 members")
    assert "The smallest has 3 of 4 survivors. 1 slot with fewer members stayed closed" in slots.claim
    assert (
        "1 of 2 cases all members" in said(of(report, "exposure"), "Counts reveal the sizes of groups").claim
    )
    assert "which model it chose is hidden" in said(nets(hidden), "No party was stepped again").claim
    assert "None of 4 opened slots" in of(report, "reconstruction")[0].claim
    assert said(nets(hidden), "the counts of hidden groups").severity is Severity.NOTE
    (chapter,) = attack_chapters(load(hidden), None, ["membership"], None, lambda _line: None)
    assert "this run has task groups" in chapter.findings[0].claim


def test_a_simulation_of_hidden_groups_is_judged_by_its_rows(hidden: Path) -> None:
    recorded = replace(load(hidden), transcripts={})
    claim = said(of(audit(recorded), "exposure"), "opened slots of hidden groups have").claim
    assert "All 4" in claim
    first = recorded.records[0]
    alone = replace(first, sums=tuple(one._replace(inside=1) for one in first.sums))
    found = breaches(audit(replace(recorded, records=(alone, *recorded.records[1:]))), "exposure")
    assert all("opened with one member" in claim for claim in found)
    assert len(found) == len(first.sums)
    older = replace(first, sums=tuple(one._replace(inside=None) for one in first.sums))
    unsaid = audit(replace(recorded, records=(older, *recorded.records[1:])))
    assert said(of(unsaid, "exposure"), "an earlier version").severity is Severity.NOTE


def test_the_summary_says_how_many_are_in_a_slot_and_not_in_its_cluster(hidden: Path) -> None:
    view = load(hidden).summary["server_view"]
    assert view["sums_by_size"] == {"3": 1, "4": 3}
    assert view["smallest_sum"] == 3


def test_colluders_in_a_slot_are_reckoned_with(hidden: Path) -> None:
    """Three chose model 0 beside p03; with two of them the server would know the third's update."""
    slots = slots_of(load(hidden))
    (members,) = {one.opening.survivors for one in slots if "p03" in one.opening.survivors}
    two = tuple(party for party in members if party != "p03")[:2]
    warned = said(of(audited(hidden, two), "exposure"), "may hide fewer than k_anonymity = 2")
    assert warned.severity is Severity.WARNING
    assert set(warned.parties) == set(members) - set(two)


def test_a_slot_of_one_that_was_opened_is_a_breach(tmp_path: Path) -> None:
    with ExitStack() as careless:
        for module in (party_shares, opening):
            careless.enter_context(patch_seen(module, "least_in_slot", lambda _plan, _limits: 1))
        out = tmp_path / "careless"
        record(out, scenario(8, **SHORT, **HIDDEN), length=16, lab=True, choose=one_odd)
    report = audited(out)
    (claim,) = breaches(report, "exposure")
    assert "The slot of model 1 in round 1, cluster" in claim
    assert "opened with one member: it is the update of one of" in claim
    assert len([c for c in breaches(report, "unmasking") if "had received no count of 2 or more" in c]) == 4
    assert any("the exact updates of p03 from" in c for c in breaches(report, "reconstruction"))
    assert any("server did not do what its machine does" in one.claim for one in nets(out))


def test_counts_that_a_server_made_up_are_seen(tmp_path: Path) -> None:
    """It tells 2 and 2 where 3 and 1 were opened: all members find that they may release the slot of one."""

    def moved(seats: tuple[int, ...]) -> tuple[int, ...]:
        first = [seat for seat in seats if seat < SEATS]
        return (*first[:2], SEATS, seats[-1]) if len(first) == 3 else seats

    def prepare(world: World) -> None:
        lying(world, moved)

    out = tmp_path / "liar"
    record(out, scenario(8, **SHORT, **HIDDEN), length=16, lab=True, choose=one_odd, prepare=prepare)
    report = audited(out)
    (split,) = breaches(report, "views")
    assert "2 versions of the counts of hidden groups" in split
    assert any("opened with one member" in claim for claim in breaches(report, "exposure"))


def test_other_seats_with_the_same_counts_are_seen(tmp_path: Path) -> None:
    """The server moves one member within its slot: whoever finds its own seat would believe it."""

    def prepare(world: World) -> None:
        lying(world, lambda seats: tuple(sorted((seats[0] ^ 1, *seats[1:]))))

    out = tmp_path / "seats"
    record(out, scenario(4, rounds="1", **HIDDEN), length=16, lab=True, choose=one_odd, prepare=prepare)
    assert any("2 versions of the counts of hidden groups" in c for c in breaches(audited(out), "views"))


def test_a_member_that_counted_itself_elsewhere_is_seen_with_whole_vectors_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """p00 counts itself with p03, who is alone, and puts its update into the other slot."""

    def elsewhere(plan: RunPlan, upload: EncodedUpdate, seat: int) -> tuple[EncodedUpdate, ...]:
        counts, *slots = slot_uploads(plan, upload, seat)
        if members_in(float(from_ring(upload.ring)[0]) / 2.0**plan.scenario.encoding.scale_bits) == {"p00"}:
            slots.reverse()
        return counts, *slots

    def with_p00(party: PartyId, _round: int) -> int:
        return int(party in {"p00", "p03"})

    monkeypatch.setattr(party_sums, "slot_uploads", elsewhere)
    out = tmp_path / "elsewhere"
    record(out, scenario(4, rounds="1", **HIDDEN), length=16, lab=True, choose=with_p00, train=learn)
    report = audited(out)
    assert "All 2 opened slots" in said(of(report, "exposure"), "opened slots of hidden groups have").claim
    assert any("the exact updates of p03 from" in c for c in breaches(report, "reconstruction"))
    assert any(
        "is not the sum of the updates of 2 of its 4 survivors" in c for c in breaches(report, "replay")
    )
    assert not breaches(audit(load(out)), "exposure")


def test_clusters_across_open_groups_are_a_breach(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All machines alike draw p00 and p01 as if each had told the other's group."""

    def crossed(
        plan: RunPlan, seed: bytes, present: tuple[PartyId, ...], groups: Mapping[PartyId, int]
    ) -> Assignment:
        one, other = PartyId("p00"), PartyId("p01")
        return draw_inside_groups(plan, seed, present, {**groups, one: groups[other], other: groups[one]})

    with monkeypatch.context() as careless:
        careless.setattr(draw, "draw_inside_groups", crossed)
        out = tmp_path / "crossed"
        record(out, scenario(8, **SHORT, **OPEN), length=16, lab=True, choose=parity)
    assert "The clusters of 1 round do not follow" in breaches(audited(out), "replay")[0]
