"""Tests of which the fast tier runs some cases, or none; ``make slow`` runs all of them."""

from __future__ import annotations

import tomllib
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

import pytest


def read_heavy() -> dict[str, int]:
    """Return the number of cases in the fast tier by node id without a case."""
    files = tomllib.loads(Path(__file__).with_suffix(".toml").read_text())
    return {f"{file}::{test}": number for file, tests in files.items() for test, number in tests.items()}


HEAVY = read_heavy()


def mark_heavy(items: Sequence[pytest.Item], *, whole: bool) -> None:
    """Mark the cases that the fast tier leaves out as slow; ``whole`` if all files are collected.

    A test of which one case is collected, as by its id, keeps that case.

    Raises:
        pytest.UsageError: all files are collected, and a name in :data:`HEAVY` is not that of a test with
            more cases than the fast tier keeps.
    """
    cases = defaultdict[str, list[pytest.Item]](list)
    for item in items:
        name = item.nodeid.partition("[")[0]
        if name in HEAVY and not item.get_closest_marker("slow"):
            cases[name].append(item)
    stale = [name for name, number in HEAVY.items() if len(cases[name]) <= number]
    if whole and stale:
        raise pytest.UsageError(f"tests/heavy.toml: no case is left out: {', '.join(stale)}")
    for name, found in cases.items():
        for at in sorted({*range(len(found))} - kept(len(found), HEAVY[name])):
            found[at].add_marker(pytest.mark.slow)


def kept(cases: int, number: int) -> set[int]:
    """Return the places of ``number`` cases among all, spread evenly; the first is among them."""
    return {at * cases // number for at in range(number)} if number < cases else {*range(cases)}
