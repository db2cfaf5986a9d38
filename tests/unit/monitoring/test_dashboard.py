"""``docs/grafana.json`` and ``docs/monitoring.md`` against a scrape in which every metric occurs."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest

from securefl.base.ids import SERVER, PartyId
from securefl.methods.metrics import Measured
from securefl.protocol.round.shared.reports import RoundStarted
from securefl.runtime.monitoring.endpoint import monitoring
from securefl.runtime.monitoring.monitor import RunMonitor
from securefl.runtime.report.witness import Fact, PartyPresence
from tests.simulation.world import scenario
from tests.unit.monitoring.scrapes import Samples, scrape, value
from tests.unit.report.test_run_page import record

DOCS = Path(__file__).parents[3] / "docs"
DASHBOARD: dict[str, Any] = json.loads((DOCS / "grafana.json").read_text(encoding="utf-8"))
PAGE = (DOCS / "monitoring.md").read_text(encoding="utf-8")
NAME = re.compile(r"\bsecurefl_\w+")


@pytest.fixture
def samples() -> Iterator[Samples]:
    monitor = RunMonitor("r1", scenario(6))
    monitor.take(SERVER, PartyPresence(1, 1, 1))
    monitor.take(PartyId("p00"), PartyPresence(0, 0, 1))
    monitor.take(SERVER, Fact(1.0, RoundStarted(0, b"")))
    monitor.take_round(
        record(
            0,
            accuracy=0.5,
            loss=2.0,
            seconds={"training": 2.0, "total": 3.0},
            epsilon={PartyId("p00"): 1.5, PartyId("p01"): 2.5, PartyId("p02"): None},
            metrics=(Measured("scores.auc", 0.75, 0.75, 0.75, 0.7, 0.8, 2, higher=True),),
        )
    )
    with monitoring("127.0.0.1", 0, monitor) as url:
        yield scrape(url)


def queries() -> list[str]:
    return [target["expr"] for panel in DASHBOARD["panels"] for target in panel["targets"]]


def names_in(text: str) -> set[str]:
    """Names of metrics, without the label of the same name."""
    return set(NAME.findall(re.sub(r'securefl_step(?=[=}"])', "", text)))


def test_the_record_of_a_round_is_counted(samples: Samples) -> None:
    assert value(samples, "securefl_epsilon") == 2.5
    assert value(samples, "securefl_model_metric", metric="scores.auc") == 0.75
    assert value(samples, "securefl_step_seconds_sum", step="training") == 2.0
    assert value(samples, "securefl_round_seconds_bucket", le="5.0") == 1.0
    assert value(samples, "securefl_round_seconds_bucket", le="2.5") == 0.0


def test_every_metric_of_the_dashboard_is_in_a_scrape(samples: Samples) -> None:
    known = {name for name, _ in samples}
    assert len(queries()) > 20
    for query in queries():
        assert names_in(query), query
        assert names_in(query) <= known, query
    assert set(DASHBOARD["templating"]["list"][1]["definition"].split("(")[1].split(",")[:1]) <= known


def test_every_metric_is_on_the_page_and_in_the_alerts(samples: Samples) -> None:
    known = {re.sub(r"_(bucket|sum|count)$", "", name) for name, _ in samples}
    assert names_in(PAGE) == known


def test_the_dashboard_has_the_format_that_grafana_imports() -> None:
    assert {"title", "uid", "schemaVersion", "panels", "templating", "time"} <= DASHBOARD.keys()
    assert isinstance(DASHBOARD["schemaVersion"], int)
    panels = DASHBOARD["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    variables = {one["name"] for one in DASHBOARD["templating"]["list"]}
    assert variables == {"datasource", "run"}
    for panel in panels:
        assert {"title", "type", "gridPos", "targets", "fieldConfig"} <= panel.keys()
        assert panel["datasource"] == {"type": "prometheus", "uid": "${datasource}"}
        letters = [target["refId"] for target in panel["targets"]]
        assert len(set(letters)) == len(letters) > 0
    used = {name for query in queries() for name in re.findall(r"\$(\w+)", query)}
    assert used <= variables


def test_panels_do_not_overlap() -> None:
    cells = {
        panel["title"]: {
            (x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])
        }
        for panel in DASHBOARD["panels"]
        if (at := panel["gridPos"])
    }
    assert all(x < 24 for own in cells.values() for x, _ in own)
    for one, other in combinations(cells, 2):
        assert not cells[one] & cells[other], (one, other)
