"""The heap of a process: what was there is set aside, and garbage that comes is found soon."""

from __future__ import annotations

import ctypes
import gc
import os
import subprocess
import sys
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from securefl.runtime.launch.process import freeze_garbage


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
        with freeze_garbage():
            assert gc.get_freeze_count() > 10_000
            assert gc.get_threshold()[0] == min(before[0], 700)
            assert gc.get_threshold()[1:] < before[1:]
        assert gc.get_freeze_count() == 0
    assert gc.get_threshold() == before


def test_what_somebody_else_has_set_aside_stays_so() -> None:
    gc.freeze()
    with freeze_garbage():
        pass
    assert gc.get_freeze_count() > 0


def test_garbage_that_grew_old_is_found_after_a_few_thousand_objects() -> None:
    """Beside half a million others it is after a hundred thousand."""
    with freeze_garbage():
        knot = Knot()
        gone = weakref.ref(knot)
        gc.collect()
        del knot
        kept = [[number] for number in range(30_000)]
        assert gone() is None
        assert len(kept) == 30_000


ARENAS = """
import ctypes, sys, threading
from securefl.runtime.launch.process import limit_arenas

if sys.argv[1] == "limited":
    limit_arenas()
libc, meeting = ctypes.CDLL(None), threading.Barrier(4)
libc.malloc.restype = ctypes.c_void_p

def allocate():
    libc.malloc(1000)
    meeting.wait()

threads = [threading.Thread(target=allocate) for _ in range(4)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
libc.fopen.restype = ctypes.c_void_p
file = ctypes.c_void_p(libc.fopen(sys.argv[2].encode(), b"w"))
libc.malloc_info(0, file)
libc.fclose(file)
"""


def arenas(how: str, folder: Path, **variables: str) -> int:
    """The number of arenas of a process with four threads that allocate at a time."""
    file = folder / "arenas.xml"
    subprocess.run([sys.executable, "-c", ARENAS, how, file], check=True, env=os.environ | variables)
    return file.read_text().count("<heap nr=")


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "malloc_info"), reason="glibc only")
def test_threads_allocate_from_one_arena(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MALLOC_ARENA_MAX", raising=False)
    assert arenas("as by default", tmp_path) > 1
    assert arenas("limited", tmp_path) == 1
    assert arenas("limited", tmp_path, MALLOC_ARENA_MAX="3") > 1
