"""``deadlines.submit``: nothing that leaves a party tells how long its training took."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from securefl.base.errors import ConfigError
from securefl.base.ids import PartyId
from securefl.methods.feasibility.limits import check
from securefl.protocol.kernel.effects import Report, Send
from securefl.protocol.kernel.events import DeadlinePassed
from securefl.protocol.messages.masking import KeyAdvert, MaskedInput
from securefl.protocol.round.shared.reports import NothingLearned, RoundDone, RunEffect
from securefl.scenario import Privacy
from tests.simulation.world import Node, World, scenario

P1 = PartyId("p01")
NEVER = 200.0
Left = list[tuple[float, str, int]]


def run(seconds: float, **sets: str) -> tuple[World, Left]:
    """All that leaves p01 whose training takes so long: when, what and of which round."""
    left: Left = []
    world = World(scenario(6, **{"rounds": "2"} | sets))
    world.working[P1] = seconds

    def note(node: Node, _was: object, event: Any, _is: object, effects: tuple[RunEffect, ...]) -> None:
        # Not the cluster: from the second round on it follows from a model, and so from zeros that were sent.
        for effect in effects if node.name == P1 else ():
            if isinstance(effect, Send):
                left.append((event.now, type(effect.message).__name__, effect.place.round))

    world.observers.append(note)
    world.run()
    return world, left


KINDS = [
    {},
    {"reclusterings": "2"},
    {"reclusterings": "2", "clustering__new_work": "true"},
    {"secure_sum__kind": "crypten", "threshold": "3", "min_survivors": "3"},
    {"server": "active", "threshold": "4", "min_survivors": "5", "size": "6"},
]


@pytest.mark.parametrize("sets", KINDS, ids=["masking", "reclustered", "new-work", "crypten", "active"])
def test_what_leaves_and_when_is_the_same_however_long_training_takes(sets: dict[str, str]) -> None:
    submit = {"deadlines__submit": "30", "deadlines__training": "60"}
    world, quick = run(1.0, **sets, **submit)
    for seconds in (9.0, NEVER):
        other, left = run(seconds, **sets, **submit)
        assert left == quick
        assert [done.survivors for done in other.reports(RoundDone)] == [
            done.survivors for done in world.reports(RoundDone)
        ]
    assert all(len(done.survivors) == 6 for done in world.reports(RoundDone))


@pytest.mark.parametrize("sets", KINDS, ids=["masking", "reclustered", "new-work", "crypten", "active"])
def test_what_is_done_before_the_first_input_leaves_is_the_same(sets: dict[str, str]) -> None:
    """Entries are synced to disk, which takes time: a late party has no more to do than one in time."""

    def done(seconds: float) -> list[list[str]]:
        steps: list[list[str]] = []
        world = World(scenario(6, **{"rounds": "2"} | sets, deadlines__submit="30", deadlines__training="60"))
        world.working[P1] = seconds

        def note(node: Node, _was: object, event: Any, _is: object, effects: tuple[RunEffect, ...]) -> None:
            if node.name == P1 and isinstance(event, DeadlinePassed):
                # Why zeros are sent is the party's own to know.
                steps.append([type(e).__name__ for e in effects if e not in learned(effects)])

        def learned(effects: tuple[RunEffect, ...]) -> list[RunEffect]:
            return [e for e in effects if isinstance(e, Report) and isinstance(e.item, NothingLearned)]

        world.observers.append(note)
        world.run()
        return steps

    quick = done(1.0)
    assert len(quick) == 2, "one in each round"
    assert {"Enter", "Journal", "Send"} <= set(quick[0])
    assert done(NEVER) == quick


def test_without_it_the_time_of_an_input_is_the_time_of_training() -> None:
    _, quick = run(1.0)
    _, slow = run(9.0)
    times = [[at for at, kind, _ in left if kind == MaskedInput.__name__] for left in (quick, slow)]
    assert times[1][0] - times[0][0] == pytest.approx(8.0, abs=0.5)


@pytest.mark.parametrize("sets", KINDS, ids=["masking", "reclustered", "new-work", "crypten", "active"])
def test_a_training_that_never_ends_leaves_the_same_messages_without_it(sets: dict[str, str]) -> None:
    """Zeros stand for it after nine tenths of ``deadlines.training``: silence would answer the server."""
    world, quick = run(1.0, **sets, deadlines__training="60")
    other, left = run(NEVER, **sets, deadlines__training="60")
    assert [message[1:] for message in left] == [message[1:] for message in quick]
    assert all(len(done.survivors) == 6 for done in other.reports(RoundDone))
    assert len(other.reports(RoundDone)) == len(world.reports(RoundDone)) == 2
    reasons = {note.reason for note in other.reports(NothingLearned, P1)}
    assert reasons == {"training has not ended in time"}
    first = {kind: at for at, kind, round_ in reversed(left) if round_ == 0}
    if MaskedInput.__name__ in first:
        assert 53 < first[MaskedInput.__name__] - first[KeyAdvert.__name__] < 55


@pytest.mark.parametrize(
    ("unit", "submit", "leaves", "late"),
    [
        ("none", None, None, 54.0),
        ("none", 7.0, 7.0, 7.0),
        ("party", None, 54.0, 54.0),
        ("record", None, 54.0, 54.0),
        ("party", 7.0, 7.0, 7.0),
    ],
)
def test_privacy_hides_times_by_default(
    unit: str, submit: float | None, leaves: float | None, late: float
) -> None:
    made = scenario(6, deadlines__training="60")
    replace = msgspec.structs.replace
    made = replace(made, deadlines=replace(made.deadlines, submit=submit), privacy=Privacy(unit=unit))  # type: ignore[arg-type]
    assert made.submit_seconds == leaves
    assert made.training_seconds == late


def test_a_training_that_has_not_ended_sends_zeros_and_its_party_knows() -> None:
    world, _ = run(NEVER, deadlines__submit="30", deadlines__training="60")
    reasons = [note.reason for note in world.reports(NothingLearned, P1)]
    assert reasons == ["training had not ended by deadlines.submit"] * 2
    assert [done.accuracy for done in world.reports(RoundDone)] == pytest.approx([5 / 6, 10 / 6], abs=1e-3)


def test_inputs_that_would_leave_too_late_are_refused() -> None:
    with pytest.raises(ConfigError, match="parties send updates after 60 s, and the server waits 60 s"):
        check(scenario(6, deadlines__submit="60", deadlines__training="60"))
