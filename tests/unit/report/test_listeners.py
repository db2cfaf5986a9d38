"""Every report that a machine makes reaches a person: a line, the display, the rows or a file."""

from __future__ import annotations

import importlib
import io
import pkgutil
from typing import Any

import numpy as np
import pytest

from securefl.base.ids import PartyId
from securefl.cli.run_end import plain_news
from securefl.protocol.round.server.stacking import ClusterSum
from securefl.protocol.round.shared import reports
from securefl.protocol.round.shared.reports import AnyReport, Versions
from securefl.runtime.launch.following import Following
from securefl.runtime.report.live import DisplayState
from securefl.runtime.report.metrics import RunMetrics
from securefl.runtime.report.progress import PlainProgress
from securefl.runtime.report.witness import Fact
from securefl.scenario.load import parse_scenario
from tests.looped import looped

P0, P1 = PartyId("p00"), PartyId("p01")
BOTH = (P0, P1)
VECTOR = np.zeros(2, np.float32)
SUM = ClusterSum(0, 0, members=BOTH, survivors=BOTH, ring=np.zeros(2, np.uint32))
VERSIONS = Versions("3.11", "2.0", "0.2")
SERVERS: dict[type[Any], AnyReport] = {
    type(one): one
    for one in (
        reports.PartiesJoined((P0,), (P1,)),
        reports.LateJoin(1, (P0,), ((P1, 0),)),
        reports.VersionsDiffer(VERSIONS, ((P0, Versions("3.12", "2.0", "0.2")),)),
        reports.ConnectionLost(),
        reports.ConnectionBack(2, kept=True),
        reports.RoundStarted(1, bytes(32)),
        reports.StepReached(0, "training"),
        reports.QuorumAwaited(0, "1 of 2 parties", 9.0),
        reports.DrawVoided(0, 0, (P1,)),
        reports.RoundSkipped(0, "1 of 2 parties"),
        reports.ClustersDrawn(0, bytes(32), ((BOTH,),)),
        reports.InstanceRetried(0, 0, 0, 1, (P1,)),
        reports.InstanceLost(0, 0, 0, "too few survivors"),
        reports.UpdatesValidated(0, 0, 0, 0, (P0,), (P1,), 3),
        reports.SurvivorsFrozen(0, (P0,), (P1,)),
        reports.SumsWithheld(0, (0,), (BOTH,), "two of a kind"),
        reports.SlotsCounted(0, 0, (2, 0), (0,), (0, 1)),
        reports.SumOpened(0, SUM),
        reports.SumChecked(0, 0, 0, ok=False, p_value=1e-9, reason="too long", e_values=()),
        reports.ConsultingFailed(0, "no data"),
        reports.ModelStepped(0, ((0, 0),), (), 1.0),
        reports.StepRestored(0, 1.0),
        reports.ClipMoved(0, 0.1, 0.62, 0.0976),
        reports.MetricUnused(0, "scores.auc", "its deviation by noise is 0.2, and stop.min_gain is 0.01"),
        reports.RoundDone(0, None, None, BOTH, BOTH, ((0, 0),), (), ((0, 0),), ()),
        reports.ClaimConfirmed(0, bytes(32), 2),
        reports.ClaimRefused(0, "too few attests"),
        reports.EpochLed(1, 0),
        reports.RunPaused("stopped by SIGTERM"),
    )
}
PARTIES: dict[type[Any], AnyReport] = {
    type(one): one
    for one in (
        reports.ConnectionLost(),
        reports.ConnectionBack(2, kept=True),
        reports.SumsWithheld(0, (0,), (BOTH,), "two of a kind"),
        reports.ModelKept(0, VECTOR),
        reports.UpdateEncoded(0, 0, 3),
        reports.NothingLearned(0, 0, "no data"),
        reports.SharesReleased(0, ((0, 0),)),
        reports.SatOut(0, "left out of the draw"),
        reports.LoopStoodStill(0, 45.0),
        reports.EpochFollowed(1),
    )
}
FILES = {reports.ModelFinal, reports.ModelKept, reports.LinkFollowed}
"""Reports of which the listener writes a model file."""
AUDITED = {reports.ModelSent, reports.Repeated, reports.TriplesDealt, reports.ValuesMoved}
"""Reports of a step that went as planned: transcripts have them, for ``securefl audit``."""


def printed(capsys: pytest.CaptureFixture[str]) -> str:
    return "".join(capsys.readouterr())


def kinds() -> list[type[AnyReport]]:
    """All report classes of the product, wherever their modules are."""
    names = (f"{reports.__name__}.{module.name}" for module in pkgutil.iter_modules(reports.__path__))
    found = [vars(importlib.import_module(name)).items() for name in names]
    classes = {one for items in found for _, one in items if isinstance(one, type)}
    return [one for one in classes if issubclass(one, AnyReport) and one is not AnyReport]


def test_every_class_has_a_listener() -> None:
    assert {*SERVERS, *PARTIES, *FILES, *AUDITED} == {*kinds()}
    assert not AUDITED & {*SERVERS, *PARTIES, *FILES}


def _rows(report: AnyReport) -> object:
    """Rows and outcome of a run in which the server reported this in its first round."""
    rows: list[Any] = []
    metrics = RunMetrics(parse_scenario('name = "x"\nparties = 2\nclustering.size = 2'), rows.append)
    ending = reports.RoundDone(0, None, None, BOTH, (), (), (), (), ())
    metrics.on_report(0.0, reports.RoundStarted(0, bytes(32)))
    for one in (report, ending):
        metrics.on_report(0.0, one)
    return [*rows, metrics.outcome(), metrics.missing]


def _line(report: AnyReport) -> str:
    stream = io.StringIO()
    PlainProgress(stream).on_report(0.0, report)
    return stream.getvalue()


@looped("report", SERVERS.values())
def test_what_the_server_reports_is_shown(report: AnyReport) -> None:
    shown = DisplayState(3)
    nothing = reports.ModelSent(0, 0)
    assert not _line(nothing), "otherwise the comparison means nothing"
    assert shown.after(0.0, nothing) == shown
    seen = (
        _line(report) != _line(nothing)
        or shown.after(0.0, report) != shown
        or _rows(report) != _rows(nothing)
    )
    assert seen


@pytest.mark.parametrize("report", PARTIES.values(), ids=lambda one: type(one).__name__)
def test_what_a_party_reports_is_in_its_own_log(
    report: AnyReport, capsys: pytest.CaptureFixture[str]
) -> None:
    plain_news("p00")(Fact(0.0, report))
    assert printed(capsys).startswith("p00: ")


def test_an_update_within_the_range_is_no_news(capsys: pytest.CaptureFixture[str]) -> None:
    plain_news("p00")(Fact(0.0, reports.UpdateEncoded(0, 0, 0)))
    assert not printed(capsys)


@pytest.mark.parametrize("own", [reports.UpdateEncoded(0, 0, 3), reports.NothingLearned(0, 0, "no data")])
@pytest.mark.parametrize("known", [True, False])
def test_a_local_run_shows_what_it_may_know_of_trainings(own: AnyReport, known: bool) -> None:
    stream = io.StringIO()
    metrics = RunMetrics(parse_scenario('name = "x"\nparties = 2\nclustering.size = 2'), dishonest=[P1])
    following = Following(metrics, PlainProgress(stream), BOTH, trainings=known, updates=known)
    following.take(P0, Fact(0.0, own))
    assert stream.getvalue().startswith("p00: round 0: ") == known
    beyond = {P0: 3} if known and isinstance(own, reports.UpdateEncoded) else {}
    assert following.beyond(0) == beyond
    assert following.beyond(1) == dict.fromkeys(beyond, 0)


def test_an_attacker_has_no_line() -> None:
    stream = io.StringIO()
    metrics = RunMetrics(parse_scenario('name = "x"\nparties = 2\nclustering.size = 2'), dishonest=[P1])
    following = Following(metrics, PlainProgress(stream), BOTH, trainings=True, updates=True)
    following.take(P1, Fact(0.0, reports.UpdateEncoded(0, 0, 3)))
    assert not stream.getvalue()
    assert following.beyond(0) == {}
