"""Schedules of runs whose server was killed: a later process ends the round of an earlier one."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from securefl.base.ids import PartyId
from securefl.runtime import transcript
from securefl.runtime.simulation import Schedule, schedule_of
from securefl.runtime.transcript import JsonValue

NAMES = ("p00", "p01", "p02", "p03")
HALVES: JsonValue = [[["p00", "p01"], ["p02", "p03"]]]
CROSSED: JsonValue = [[["p00", "p02"], ["p01", "p03"]]]


def entry(kind: str, **fields: JsonValue) -> transcript.Entry:
    return transcript.Entry(0, kind, {"round": 1, **fields})


def draw_entries(clusters: JsonValue = HALVES, seed: int = 1) -> tuple[transcript.Entry, ...]:
    """Entries of a round up to its step, in which p03 has dropped out."""
    return (
        entry("clusters_drawn", seed=f"{seed:064x}", atom_seed="", clusters=clusters, resting=[]),
        entry("survivors_frozen", survivors=list(NAMES[:3])),
    )


def end_entry(opened: Sequence[int] = (0,), participants: Sequence[str] = NAMES) -> transcript.Entry:
    """End of a round that opened these of two clusters, and lost the others."""
    lost = [number for number in (0, 1) if number not in opened and participants]
    return entry(
        "round_done",
        participants=list(participants),
        survivors=list(NAMES[:3]) if opened else [],
        opened=[[0, number] for number in opened],
        lost=[[0, number] for number in lost],
    )


SKIPPED = entry("round_skipped", reason="the server was started again in it")


def schedule(*processes: tuple[transcript.Entry, ...]) -> Schedule:
    return schedule_of("run", processes)


@pytest.mark.parametrize("opened", [(0,), (0, 1), ()])
def test_a_round_that_another_process_ends_has_the_clusters_of_the_first(opened: tuple[int, ...]) -> None:
    """Whatever sums were lost in it."""
    whole = schedule((*draw_entries(), end_entry(opened)))
    assert whole.of(1).drawn is not None
    assert whole.of(1).left_open is None
    assert schedule(draw_entries(), (end_entry(opened),)) == whole
    # A process that was killed before it ended the round adds nothing.
    assert schedule(draw_entries(), (entry("round_started"),), (end_entry(opened),)) == whole


def test_a_round_that_was_drawn_again_has_the_later_clusters() -> None:
    whole = schedule((*draw_entries(CROSSED, seed=2), end_entry()))
    assert schedule(draw_entries(), (*draw_entries(CROSSED, seed=2), end_entry())) == whole
    assert schedule(draw_entries(), draw_entries(CROSSED, seed=2), (end_entry(),)) == whole


def test_a_round_that_a_restart_made_void_has_its_drawn_parties_only() -> None:
    void = schedule(draw_entries(), (SKIPPED, end_entry(())))
    assert void.of(1).left_open == frozenset(map(PartyId, NAMES))
    assert (void.of(1).drawn, void.of(1).present, void.of(1).opened) == (None, frozenset(), frozenset())
    # The process that skipped it was killed before its end.
    assert schedule(draw_entries(), (SKIPPED,), (end_entry(()),)) == void


def test_a_draw_that_was_not_announced_binds_nobody() -> None:
    """The server was killed between the draw and its journal."""
    fate = schedule(draw_entries(), (SKIPPED, end_entry((), participants=()))).of(1)
    assert (fate.left_open, fate.drawn) == (frozenset(), None)
