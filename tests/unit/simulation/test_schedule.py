"""Schedules of runs whose server was killed: a later process ends the round of an earlier one."""

from __future__ import annotations

from securefl.base.ids import PartyId
from securefl.runtime import transcript
from securefl.runtime.simulation import Schedule, schedule_of
from securefl.runtime.transcript import JsonValue

NAMES = ("p00", "p01", "p02", "p03")
HALVES: JsonValue = [[["p00", "p01"], ["p02", "p03"]]]
CROSSED: JsonValue = [[["p00", "p02"], ["p01", "p03"]]]


def entry(kind: str, **fields: JsonValue) -> transcript.Entry:
    return transcript.Entry(0, kind, {"round": 1, **fields})


def drawn(clusters: JsonValue = HALVES, seed: int = 1) -> tuple[transcript.Entry, ...]:
    """Entries of a round up to its step, in which p03 has dropped out."""
    return (
        entry("clusters_drawn", seed=f"{seed:064x}", atom_seed="", clusters=clusters, resting=[]),
        entry("survivors_frozen", survivors=list(NAMES[:3])),
    )


def done(*, lost: bool = False) -> transcript.Entry:
    opened: JsonValue = [] if lost else [[0, 0]]
    missing: JsonValue = [[0, 0], [0, 1]] if lost else []
    return entry(
        "round_done", participants=list(NAMES), survivors=list(NAMES[:3]), opened=opened, lost=missing
    )


def scheduled(*processes: tuple[transcript.Entry, ...]) -> Schedule:
    return schedule_of("run", processes)


def test_a_round_that_another_process_ends_has_the_clusters_of_the_first() -> None:
    whole = scheduled((*drawn(), done()))
    assert whole.of(1).drawn is not None
    assert scheduled(drawn(), (done(),)) == whole
    # A process that was killed before it ended the round adds nothing.
    assert scheduled(drawn(), (entry("round_started"),), (done(),)) == whole


def test_a_round_that_was_drawn_again_has_the_later_clusters() -> None:
    whole = scheduled((*drawn(CROSSED, seed=2), done()))
    assert scheduled(drawn(), (*drawn(CROSSED, seed=2), done())) == whole
    assert scheduled(drawn(), drawn(CROSSED, seed=2), (done(),)) == whole


def test_a_round_that_a_restart_made_void_has_its_drawn_parties_only() -> None:
    fate = scheduled(drawn(), (done(lost=True),)).of(1)
    assert fate.left_open == frozenset(map(PartyId, NAMES))
    assert (fate.drawn, fate.present, fate.opened) == (None, frozenset(), frozenset())
