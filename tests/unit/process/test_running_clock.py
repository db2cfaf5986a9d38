"""A clock that stands still while its process does."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from securefl.runtime.process.running_clock import RunningClock

GRACE = 3.0


class Source:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def test_a_standstill_does_not_count_and_time_goes_on_after_a_grace() -> None:
    source = Source()
    clock = RunningClock(2.5, source)
    source.now += 2.5
    assert clock() == 102.5, "a busy moment"
    source.now += 30.0
    assert clock() == 102.5
    for _ in range(3):
        source.now += GRACE / 3
        assert clock() == 102.5, "frames that came meanwhile are read first"
    source.now += 1.0
    assert clock() == 103.5
    assert clock.lost == 30.0 + GRACE


@given(st.lists(st.floats(0, 60), max_size=30))
def test_it_never_goes_back_nor_faster_than_the_source(steps: list[float]) -> None:
    source = Source()
    clock = RunningClock(2.5, source)
    before = clock()
    for step in steps:
        source.now += step
        shown = clock()
        assert before <= shown <= before + step
        before = shown
    assert before <= source.now
