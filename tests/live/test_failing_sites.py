"""Every way in which a site may fail, in its party's process and in one of its own, over a broker.

The round goes on with zeros in the place of its update, the next one trains again where it can,
one line in the site's own log says why, and nobody else can tell it from a site that trained.
"""

from __future__ import annotations

import json
import os
import re
import select
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file

from securefl.training.models.tensors import write_tensors
from tests.live.federated import LIMIT, PATIENT, Run, run_program

pytestmark = pytest.mark.live

SITES = """
import asyncio, ctypes, os, signal, sys, threading
from pathlib import Path
import numpy as np
import securefl
from securefl.base.errors import UsageError

HERE = Path(__file__).parent

class Good:
    samples = 5
    def __init__(self, name):
        self.name = name
    def parameters(self):
        return {"a.w": np.zeros((2, 3), np.float32), "b": np.zeros((), np.float32)}
    def fit(self, parameters, context):
        after = {n: a + 1 for n, a in parameters.items()}
        return self.broken(after) if context.number == 1 else (after, 5, {})
    def broken(self, after):
        return after, 5, {}

def hangs(self, after): threading.Event().wait()
def raises(self, after): raise KeyError("no such patient")
def not_finite(self, after): return after | {"b": np.float32("nan")}, 5, {}
def other_name(self, after): return after | {"c": np.ones(2)}, 5, {}
def other_shape(self, after): return after | {"b": np.zeros(4)}, 5, {}
def other_dtype(self, after): return after | {"b": np.int32(4)}, 5, {}
def too_many(self, after): return after, 6, {}
def exits(self, after): sys.exit("done for today")

def eats(self, after):
    held = []
    while True:
        held.append(np.ones(1 << 22))
def dies(self, after): os._exit(9)
def leaves(self, after):
    child = os.fork()
    if not child:
        while True:
            signal.pause()
    (HERE / "left").write_text(str(child))
    return after, 5, {}
def babbles(self, after):
    for number in range(1, 64):
        try:
            os.write(number, b"\\xff patient ")
        except OSError:
            pass
    return after, 5, {}
def closes(self, after):
    os.closerange(0, 64)
    return after, 5, {}

# Classes with a meaning of their own to the library, to generators, to event loops and to threads.
class Panic(BaseException): pass
def misuses(self, after): raise UsageError("whatever")
def misjudges(self, after): return securefl.score_histogram(np.array([np.nan]), np.array([1])), 5, {}
def stops(self, after): next(iter([]))
def cancels(self, after): raise asyncio.CancelledError
def interrupts(self, after): raise KeyboardInterrupt
def closes_generator(self, after): raise GeneratorExit
def panics(self, after): raise Panic("lost")

# The interpreter's lock is held in C, or the process ends by a signal of its own.
def holds(self, after): ctypes.PyDLL(None).sleep(3600)
def crashes(self, after): ctypes.string_at(0)

BY_CLASS = [misuses, misjudges, stops, cancels, interrupts, closes_generator, panics]
EITHER = [None, hangs, raises, not_finite, other_name, other_shape, other_dtype, too_many, exits] + BY_CLASS
APART = EITHER + [eats, dies, leaves, babbles, closes, holds, crashes]

def cast(name):
    broken = APART[int(name[1:])]
    return (type(broken.__name__, (Good,), {"broken": broken}) if broken else Good)(name)
"""
SCENARIO = """
name = "failing-sites"
parties = {parties}
[model]
type = "weights"
file = "{file}"
[clustering]
size = {parties}
[secure_sum]
threshold = 2
min_survivors = 2
[deadlines]
submit = 15
[stop]
rounds = 3
"""
REASONS = {
    "p01": "",
    "p02": "KeyError: 'no such patient'",
    "p03": "fit returned b with numbers that are not finite",
    "p04": "fit returned c, which the model does not have",
    "p05": "fit returned b of shape (4,), expected ()",
    "p06": "fit returned b of dtype int32, expected floating-point numbers",
    "p07": "fit trained on 6 samples, and the party has declared 5: its weight would be wrong",
    "p08": "exits with 'done for today' in place of returning",
    "p09": "UsageError: whatever",
    "p10": "UsageError: ",
    "p11": "StopIteration",
    "p12": "CancelledError",
    "p13": "KeyboardInterrupt",
    "p14": "GeneratorExit",
    "p15": "Panic: lost",
}
PLACE = re.compile(r"\w+\.py:\d+ in \w+: ")
RAISING = {"p02", *(f"p{number:02d}" for number in range(9, 17))}
"""Parties whose code raises: the line has its place."""
OF_APART = REASONS | {
    "p01": "its process took too long and was killed",
    "p16": "MemoryError",
    "p17": "its process ended (exit code 9)",
    "p19": "its process wrote what is no reply",
    "p20": "its process ended (exit code 1)",
    "p21": "its process took too long and was killed",
    "p22": "its process ended (signal 11)",
}


def ran(folder: Path, parties: int, *arguments: str) -> Run:
    (folder / "ward_that_fails.py").write_text(SITES)
    arrays: dict[str, Any] = {"a.w": np.zeros((2, 3)), "b": np.zeros(())}
    write_tensors(folder / "initial.safetensors", arrays)
    scenario = folder / "failing.toml"
    scenario.write_text(SCENARIO.format(parties=parties, file=folder / "initial.safetensors"))
    ended = run_program(scenario, folder / "run", "--site", "ward_that_fails:cast", *PATIENT, *arguments)
    assert ended.exit_code == 0, ended.stderr
    return ended


def noted(ended: Run, party: str) -> list[dict[str, Any]]:
    lines = (ended.directory.path / f"{party}.site.jsonl").read_text().splitlines()
    return [json.loads(line) for line in lines]


def check(ended: Run, parties: int, reasons: dict[str, str], gone: dict[str, set[int]]) -> None:
    """``gone``: rounds in which a site does not train; in others each adds 1 to every number."""
    names = [f"p{number:02d}" for number in range(parties)]
    assert [row["survivors"] for row in ended.rows] == [names] * 3, "everybody is counted in every round"
    for party in names:
        entries = [entry for entry in noted(ended, party) if "printed" not in entry]
        failed = {entry["round"]: entry["error"] for entry in entries if "error" in entry}
        trained = [entry["round"] for entry in entries if "samples" in entry]
        assert trained == [number for number in range(3) if number not in gone.get(party, set())], party
        if reasons.get(party):
            assert PLACE.sub("", failed[1]).startswith(reasons[party]), party
            assert bool(PLACE.match(failed[1])) == (party in RAISING), failed[1]
            assert "\n" not in failed[1]
    shares = [sum(number not in gone.get(party, set()) for party in names) / parties for number in range(3)]
    model = load_file(ended.directory.path / "model.safetensors")
    np.testing.assert_allclose(model["a.w"], np.full((2, 3), sum(shares)), atol=1e-3)
    np.testing.assert_allclose(model["b"], sum(shares), atol=1e-3)
    check_nothing_is_told(ended, names)


def check_nothing_is_told(ended: Run, names: list[str]) -> None:
    """All parties have sent the same kinds of messages, each of the same sizes; nobody else has a reason."""
    sent = {party: Counter(map(str, of_rounds(ended, party))) for party in names}
    assert len({tuple(sorted(one.items())) for one in sent.values()}) == 1
    for file in ended.directory.transcript_folder.glob("*"):
        if not file.name.startswith("p"):
            assert b"patient" not in file.read_bytes()
            assert b"finite" not in file.read_bytes()


def of_rounds(ended: Run, party: str) -> list[Any]:
    entries: list[dict[str, Any]] = [dict(entry.fields) for entry in ended.transcript(party).of_kind("sent")]
    return [(one["message"], one["place"]) for one in entries if one["place"][0] >= 0]


def test_in_the_partys_process(tmp_path: Path) -> None:
    """Who hangs holds its thread for good: it sends zeros in the next round, too."""
    ended = ran(tmp_path, 16)
    check(ended, 16, REASONS, {party: {1, 2} if party == "p01" else {1} for party in REASONS})


def test_in_a_process_of_its_own(tmp_path: Path) -> None:
    """All train again in the round after, and no process is left."""
    ended = ran(tmp_path, 23, "--site-python", sys.executable, "--site-memory", "1500")
    check(ended, 23, OF_APART, {party: {1} for party in OF_APART})
    printed = "".join(entry.get("printed", "") for entry in noted(ended, "p19"))
    assert "patient" in printed, "standard output is the site's to write to"
    check_ended(int((tmp_path / "left").read_text()))


def check_ended(process: int) -> None:
    try:
        descriptor = os.pidfd_open(process)
    except ProcessLookupError:
        return
    ended, _, _ = select.select([descriptor], [], [], LIMIT)
    os.close(descriptor)
    assert ended
