"""The heap of a process: what was there is set aside, and garbage that comes is found soon."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator
from contextlib import contextmanager

from securefl.runtime.launch.heap import settled


class Knot:
    """Garbage that only a collection finds."""

    def __init__(self) -> None:
        self.itself = self


@contextmanager
def thawed() -> Iterator[None]:
    """As in a process of its own; these tests' has frozen what it imported."""
    gc.unfreeze()
    try:
        yield
    finally:
        gc.freeze()


def test_what_is_there_is_set_aside_and_given_back() -> None:
    before = gc.get_threshold()
    with thawed():
        with settled():
            assert gc.get_freeze_count() > 10_000
            assert gc.get_threshold()[0] == min(before[0], 700)
            assert gc.get_threshold()[1:] < before[1:]
        assert gc.get_freeze_count() == 0
    assert gc.get_threshold() == before


def test_what_somebody_else_has_set_aside_stays_so() -> None:
    gc.freeze()
    with settled():
        pass
    assert gc.get_freeze_count() > 0


def test_garbage_that_grew_old_is_found_after_a_few_thousand_objects() -> None:
    """Beside half a million others it is after a hundred thousand."""
    with settled():
        knot = Knot()
        gone = weakref.ref(knot)
        gc.collect()
        del knot
        kept = [[number] for number in range(30_000)]
        assert gone() is None
        assert len(kept) == 30_000
