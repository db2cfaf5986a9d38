from __future__ import annotations

from securefl.runtime.process.standstill import FIRST_SECONDS, LONGEST_SECONDS, Vigil


def test_waiting_is_said_ever_more_rarely_and_anew_with_each_step() -> None:
    vigil = Vigil(100.0)
    said: list[float] = []
    while len(said) < 8:
        said.append(vigil.due - 100)
        vigil.put_off(vigil.due)
    assert said[:5] == [10, 30, 70, 150, 310]
    assert said[-1] - said[-2] == LONGEST_SECONDS
    vigil.begin(2_000.0, int)
    assert vigil.due == 2_000 + FIRST_SECONDS
    vigil.put_off(vigil.due)
    vigil.begin(2_015.0, int)
    assert vigil.seconds(2_040.0) == 40, "it is the same step"
    vigil.begin(2_050.0, str)
    assert (vigil.seconds(2_060.0), vigil.due) == (10, 2_060)


def test_an_agreed_time_puts_the_first_reminder_off() -> None:
    vigil = Vigil(0.0)
    vigil.begin(100.0, int)
    vigil.begin(101.0, int, agreed=30.0)
    assert (vigil.seconds(105.0), vigil.due) == (4, 131 + FIRST_SECONDS)
    vigil.begin(120.0, int, agreed=30.0)
    assert vigil.due == 131 + FIRST_SECONDS
    vigil.begin(140.0, str)
    assert vigil.due == 140 + FIRST_SECONDS
