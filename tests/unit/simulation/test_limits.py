"""What the header of a simulation says that a run's does not."""

from __future__ import annotations

from securefl.runtime.simulation.limits import notes
from tests.unit.scenario.samples import small


def test_what_only_messages_can_show_is_said_to_be_left_out() -> None:
    told = " ".join(
        one.whole for one in notes(small("observer=true", "behaviours=[{ kind = 'replay', count = 1 }]"))
    )
    assert "NOT SIMULATED: replay: they change no sum" in told
    assert "an observer has no frames" in told
    assert "observer" not in " ".join(one.whole for one in notes(small()))
