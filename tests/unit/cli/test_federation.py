"""What a launcher says of processes that end before their run does."""

from __future__ import annotations

import io
import re
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from securefl.base.errors import ConfigError
from securefl.base.ids import SERVER, PartyId, RunId
from securefl.protocol.kernel.effects import Finished
from securefl.protocol.round import PartiesJoined
from securefl.runtime.launch.federation import LocalRun
from securefl.runtime.launch.options import RunOptions
from securefl.runtime.process.children import Children, Died, Fatal, Said
from securefl.runtime.report.metrics import RunMetrics
from securefl.runtime.report.progress import progress_for
from securefl.runtime.report.rundir import RunDirectory
from securefl.runtime.report.witness import Ending, Fact
from tests.simulation.world import scenario


class News(Children):
    """Children that are none: prepared news, one at a time."""

    def __init__(self, *news: Said | Died) -> None:
        self._news = list(news)

    @property
    def running(self) -> bool:
        return bool(self._news)

    def wait(self, timeout: float | None = None) -> list[Said | Died]:
        return [self._news.pop(0)]


def told(folder: Path, *news: Said | Died) -> str:
    shown = io.StringIO()
    plan = scenario(6)
    federation = LocalRun(
        plan,
        RunOptions(run=RunId("r1")),
        RunDirectory(folder),
        RunMetrics(plan, lambda _row: None),
        progress_for(Console(file=shown, width=120), as_json=False),
    )
    federation._follow(News(*news))
    return shown.getvalue()


P00 = PartyId("p00")


@pytest.mark.parametrize(
    ("died", "line"),
    [
        (Died(P00, -9), "p00 died (signal 9); it counts as dropped out"),
        (Died(P00, 1), "p00 died (exit code 1); it counts as dropped out"),
        (Died(PartyId("observer"), 1), "observer died (exit code 1)\n"),
    ],
)
def test_a_process_that_could_not_say_why_it_ended_is_told_of(died: Died, line: str, tmp_path: Path) -> None:
    assert line in told(tmp_path, died)


@pytest.mark.parametrize(
    "news",
    [
        (Died(P00, 0),),
        (Said(P00, Fatal("disk full", refused=False)), Died(P00, 3)),
        (Said(SERVER, Ending(Finished("1 round done"))), Died(P00, -15)),
    ],
)
def test_an_end_that_is_explained_is_not_told_twice(news: tuple[Said | Died, ...], tmp_path: Path) -> None:
    assert "died" not in told(tmp_path, *news)


SHAPE = Fatal("--site w:W: p00: of shape (1, 4), expected (1, 3) (train)", refused=True, field="--site w:W")


def test_a_site_that_cannot_take_part_ends_the_run_before_it_begins(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=re.escape(SHAPE.reason)) as error:
        told(tmp_path, Said(P00, SHAPE), Died(P00, 2))
    assert str(error.value) == SHAPE.reason
    assert error.value.path == "--site w:W"


@pytest.mark.parametrize(
    "news",
    [
        (Said(P00, replace(SHAPE, field="privacy.budget")),),
        (Said(P00, replace(SHAPE, refused=False)),),
        (Said(SERVER, Fact(0.0, PartiesJoined((), (P00,)))), Said(P00, SHAPE)),
    ],
)
def test_other_refusals_and_later_ones_cost_a_party_only(news: tuple[Said, ...], tmp_path: Path) -> None:
    assert SHAPE.reason in told(tmp_path, *news)
