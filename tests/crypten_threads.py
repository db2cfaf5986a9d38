"""Threads of CrypTen computations: which there are, and an end to those that earlier tests left behind."""

from __future__ import annotations

import gc
import threading

from securefl.protocol.secure_sum.crypten.session import reap


def crypten_threads() -> list[str]:
    """Names of the threads of computations that have not ended."""
    return [t.name for t in threading.enumerate() if t.name.startswith("crypten-")]


def end_abandoned() -> None:
    """End the computations of sessions that nobody refers to but other garbage.

    Tests that count threads begin with it: when a session of another test is collected is left to chance.
    """
    gc.collect()
    reap()
