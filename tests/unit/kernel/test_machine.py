from __future__ import annotations

from dataclasses import FrozenInstanceError

import numpy as np
import pytest

from securefl.base.errors import PeerError, UsageError
from securefl.base.ids import PartyId
from securefl.protocol.kernel.effects import Evaluate, Finished, Reject, Train, WakeAt
from securefl.protocol.kernel.events import Place, Received, Trained
from securefl.protocol.kernel.machine import guard


def test_guarded_passes_results_through() -> None:
    assert guard(lambda: ("next", (WakeAt(1.0), Finished("done"))), "before") == (
        "next",
        (WakeAt(1.0), Finished("done")),
    )


def test_guarded_keeps_the_phase_when_a_peer_is_wrong() -> None:
    phase = object()

    def step() -> tuple[object, tuple[WakeAt, ...]]:
        raise PeerError("p1", "lies")

    after, effects = guard(step, phase)
    assert after is phase
    assert effects == (Reject("p1", "lies"),)


@pytest.mark.parametrize("error", [UsageError("ours"), KeyError("ours"), AssertionError("ours")])
def test_guarded_hides_no_bug_of_ours(error: Exception) -> None:
    def step() -> tuple[int, tuple[WakeAt, ...]]:
        raise error

    with pytest.raises(type(error)):
        guard(step, 0)


def test_places_of_a_round_have_no_instance() -> None:
    assert Place(4) == Place(4, -1, -1, 0)
    assert Place(4, attempt=2) == (4, -1, -1, 2)


def test_events_and_effects_are_values() -> None:
    with pytest.raises(FrozenInstanceError):
        setattr(WakeAt(1.0), "when", 2.0)  # noqa: B010 - mypy would refuse the assignment
    assert Reject("a", "b") == Reject("a", "b")


def test_no_vector_and_no_frame_in_repr() -> None:
    params = np.full(3, 12345, dtype=np.float32)
    wide = params.astype(np.float64)
    for item in (Train(1, 0, params, wide), Evaluate(1, params), Trained(0.0, 1, 0, wide)):
        assert "12345" not in repr(item)
    assert "frame" not in repr(Received(0.0, PartyId("a"), Place(1), "text", b"frame"))
