"""The chaos suite itself: every kind of fault once, and each of its checks notices what it is for."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

from securefl.base.crypto.keyfiles import read_identity
from securefl.base.ids import PartyId
from securefl.runtime.account.entries import Update, hash_of, line_of, read_lines
from securefl.runtime.process.ground_truth import upload_file
from securefl.runtime.transcript.chain import TranscriptWriter, read_transcript
from securefl.runtime.transport.broker import find_mosquitto
from tests.chaos.checks import judge
from tests.chaos.conductor import Witnessed, conduct
from tests.chaos.faults import (
    KINDS,
    ClockJump,
    DoubleStart,
    FullDisk,
    HalfOpen,
    Kill,
    Partition,
    Reset,
    Slow,
    Stall,
    Terminate,
    When,
)
from tests.chaos.federation import federation
from tests.chaos.records import Case
from tests.chaos.running import run_case
from tests.chaos.setups import SETUPS

pytestmark = [
    pytest.mark.live,
    pytest.mark.skipif(find_mosquitto() is None, reason="mosquitto is not installed"),
]

CASES = {
    "processes": Case(
        "masks",
        "mosquitto",
        persistent=False,
        training=0.05,
        faults=(
            DoubleStart(when=When("p02", "Hello", 0), who="p02", copied=True),
            Kill(when=When("p01", "MaskedInput", 1, before=True), who="p01", back=0.3, twice=True),
            Stall(when=When("p03", "Receipt", 1), who="server", seconds=1.0),
            ClockJump(when=When("p04", "Release", 1), who="p04", seconds=-86_400),
            FullDisk(when=When("p05", "Release", 2, before=True), who="p05", seconds=0.3),
        ),
    ),
    "links": Case(
        "crypten",
        "embedded",
        persistent=False,
        training=0.05,
        faults=(
            Reset(when=When("server", "Reveals", 0), who=("server", *SETUPS["crypten"].field.parties)),
            Slow(when=When("server", "Announce", 1), who="server", seconds=0.5, rate=50_000, late=0.05),
            Partition(when=When("p01", "KeyAdvert", 2), who=("p01", "p02"), seconds=1.0),
            HalfOpen(when=When("p03", "Release", 1), who="p03", way="both"),
        ),
    ),
    "brokers": Case(
        "masks-active",
        "mosquitto",
        persistent=True,
        training=0.05,
        faults=(
            Kill(when=When("p00", "MaskedInput", 0), who="broker", back=0.5),
            Terminate(when=When("p06", "Endorse", 1), who="p06", back=0.2),
            DoubleStart(when=When("server", "Freeze", 1), who="server"),
            Kill(when=When("p07", "Release", 2), who="p07"),
        ),
    ),
}


def test_every_kind_of_fault_is_among_them() -> None:
    assert {type(fault) for case in CASES.values() for fault in case.faults} == set(KINDS)


@pytest.mark.parametrize("name", CASES)
def test_a_run_survives_its_faults(name: str) -> None:
    record = run_case(0, CASES[name])
    assert record.broken == ()
    assert [CASES[name].faults[place] for place in record.struck] == list(CASES[name].faults)
    assert record.rounds == 5
    assert record.sums > 0


# What the checks notice: a run without any fault, and what it has left doctored afterwards.


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Witnessed:
    witnessed = conduct(tmp_path_factory.mktemp("chaos") / "run", replace(SETUPS["masks"], training=0.0), ())
    assert judge(witnessed).broken == ()
    shutil.rmtree(witnessed.folder / "collected")
    return witnessed


@pytest.fixture
def copy(sound: Witnessed, tmp_path: Path) -> Witnessed:
    """The same run in another folder, to be doctored."""
    pipes = shutil.ignore_patterns("said-*")
    shutil.copytree(sound.folder, tmp_path / "copy", ignore=pipes)
    moved = [
        replace(one, out=tmp_path / "copy" / one.out.relative_to(sound.folder), may_end=set(one.may_end))
        for one in sound.started
    ]
    return replace(sound, folder=tmp_path / "copy", started=moved, frames=[*sound.frames])


def broken(witnessed: Witnessed) -> set[str]:
    shutil.rmtree(witnessed.folder / "collected", ignore_errors=True)
    return {one.check for one in judge(witnessed).broken}


def rewrite(path: Path, change: Callable[[str, dict[str, Any]], dict[str, Any]]) -> None:
    """Write a transcript anew, each entry changed, with a chain that holds; no summary says otherwise."""
    old = read_transcript(path)
    path.unlink()
    (path.parents[1] / "summary.json").unlink(missing_ok=True)
    with TranscriptWriter(path, old.header) as writer:
        for entry in old.entries:
            writer.append(entry.kind, change(entry.kind, dict(entry.fields)))


def test_nothing_is_wrong_with_the_copy(copy: Witnessed) -> None:
    assert broken(copy) == set()


def test_a_sum_of_something_else_is_noticed(copy: Witnessed) -> None:
    path = upload_file(copy.folder / "p03" / "out", PartyId("p03"), 2)
    values = np.load(path)
    values[7] += 1
    np.save(path, values)
    assert "sums" in broken(copy)


def test_a_sum_without_ground_truth_is_noticed(copy: Witnessed) -> None:
    upload_file(copy.folder / "p03" / "out", PartyId("p03"), 2).unlink()
    assert broken(copy) == {"sums"}


def test_a_difference_of_one_party_is_noticed(copy: Witnessed) -> None:
    """p00 says that it has given its shares for a sum without one of those for whom the others have."""

    def fewer(kind: str, fields: dict[str, Any]) -> dict[str, Any]:
        if kind == "shares_released" and fields["round"] == 1:
            fields["seeds_of"] = [members[:-1] for members in fields["seeds_of"]]
        return fields

    rewrite(copy.folder / "p00" / "out" / "transcripts" / "p00.jsonl", fewer)
    assert "exposed" in broken(copy)


def test_a_run_that_was_given_up_is_noticed(copy: Witnessed) -> None:
    def aborted(kind: str, fields: dict[str, Any]) -> dict[str, Any]:
        return fields | {"aborted": True} if kind == "outcome" else fields

    rewrite(copy.folder / "server" / "out" / "transcripts" / "server.jsonl", aborted)
    assert broken(copy) == {"finished"}


def test_a_round_that_is_missing_is_noticed(copy: Witnessed) -> None:
    def before(kind: str, fields: dict[str, Any]) -> dict[str, Any]:
        return fields | {"round": 3} if kind == "round_done" and fields["round"] == 4 else fields

    rewrite(copy.folder / "server" / "out" / "transcripts" / "server.jsonl", before)
    assert "finished" in broken(copy)


def test_a_round_without_a_model_that_no_fault_explains_is_noticed(copy: Witnessed) -> None:
    def void(kind: str, fields: dict[str, Any]) -> dict[str, Any]:
        return fields | {"update_norm": None} if kind == "model_stepped" and fields["round"] == 2 else fields

    rewrite(copy.folder / "server" / "out" / "transcripts" / "server.jsonl", void)
    assert "finished" in broken(copy)
    when = When("server", "Reveals", 2)
    killed = replace(copy, faults=(Kill(when=when, who="server", back=1.0),), struck={0: 1.0})
    assert "finished" not in broken(killed)


def test_an_exit_code_that_says_nothing_of_a_last_round_without_a_model_is_noticed(copy: Witnessed) -> None:
    def void(kind: str, fields: dict[str, Any]) -> dict[str, Any]:
        return fields | {"update_norm": None} if kind == "model_stepped" and fields["round"] == 4 else fields

    rewrite(copy.folder / "server" / "out" / "transcripts" / "server.jsonl", void)
    assert "ends" in broken(copy)


@pytest.mark.parametrize("kind", ["MaskedInput", "Release"])
def test_whoever_sends_twice_is_noticed(kind: str, copy: Witnessed) -> None:
    first = next(seen for seen in copy.frames if seen.kind == kind)
    # Sent again it has the same bytes, and is no second one.
    copy.frames.append(first)
    assert broken(copy) == set()
    if kind == "Release":
        # The same box, sealed once, goes to another server that opens the same sums.
        copy.frames.append(first._replace(digest=bytes(31)))
        assert broken(copy) == set()
    copy.frames.append(first._replace(session=bytes(8), digest=bytes(32), said=bytes(32)))
    assert broken(copy) == {"twice"}


def test_whoever_submits_after_its_release_is_noticed(copy: Witnessed) -> None:
    first = next(seen for seen in copy.frames if seen.kind == "MaskedInput")
    copy.frames.append(first._replace(attempt=1, digest=bytes(32)))
    assert broken(copy) == {"twice"}


@pytest.mark.parametrize("word", ["submitted", "released"])
def test_a_journal_that_lacks_a_line_is_noticed(word: str, copy: Witnessed) -> None:
    path = copy.folder / "p02" / "out" / "p02.journal"
    lines = path.read_text().splitlines(keepends=True)
    assert any(word in line for line in lines)
    path.write_text("".join(line for line in lines if word not in line))
    assert broken(copy) == {"twice"}
    path.write_text("".join([*lines, *lines]))
    assert broken(copy) == {"twice"}


def test_an_account_with_a_round_twice_is_noticed(copy: Witnessed) -> None:
    path = copy.folder / "p02" / "p02.account"
    lines = path.read_bytes().splitlines(keepends=True)
    entries, _ = read_lines("", lines)
    again = next(entry for entry in entries if isinstance(entry, Update))
    path.write_bytes(b"".join([*lines, line_of(again, hash_of(lines[-1]))]))
    assert broken(copy) == {"twice"}


def test_a_budget_that_was_exceeded_is_noticed(copy: Witnessed) -> None:
    scenario = copy.folder / "scenario.toml"
    settled = SETUPS["privacy-spent"]
    settled.write(scenario)
    text = scenario.read_text()
    assert "releases = 3" in text
    scenario.write_text(text.replace("parties = 8", "parties = 7").replace("size = 4", "size = 3"))
    assert "budget" in broken(copy)


@pytest.mark.parametrize("form", [bytes, lambda key: key.hex().encode()])
def test_a_key_that_is_left_is_noticed(form: Callable[[bytes], bytes], copy: Witnessed) -> None:
    key = read_identity(copy.folder / "p01" / "p01.key").sealing_key
    (copy.folder / "p01" / "tmp" / "core").write_bytes(b"..." + form(key) + b"...")
    assert broken(copy) == {"keys"}


def test_ends_that_are_not_right_are_noticed(copy: Witnessed) -> None:
    copy.started[2].may_end = {3}
    assert broken(copy) == {"ends"}
    copy.started[2].may_end = {0}
    assert broken(copy) == set()
    assert broken(replace(copy, hanging=copy.started[3:4])) == {"ends"}
    assert broken(replace(copy, orphans=["1 sleep 600"])) == {"ends"}


@pytest.mark.parametrize("words", ["Traceback (most recent call last):", "aborted by nobody"])
def test_words_that_do_not_fit_the_end_are_noticed(words: str, copy: Witnessed) -> None:
    class Said:
        def text(self) -> str:
            return f"done: 5 rounds done\n{words}\n"

    copy.started[3] = replace(copy.started[3], said=cast("Any", Said()))
    assert broken(copy) == {"ends"}


def test_a_damaged_transcript_is_noticed(copy: Witnessed) -> None:
    path = copy.folder / "p01" / "out" / "transcripts" / "p01.jsonl"
    path.write_bytes(path.read_bytes().replace(b'"round":1', b'"round":2', 1))
    assert broken(copy) == {"audit"}


@pytest.fixture
def sleeper() -> Iterator[list[subprocess.Popen[bytes]]]:
    started: list[subprocess.Popen[bytes]] = []
    yield started
    for one in started:
        one.kill()
        one.wait()


def test_who_is_left_behind_is_found_and_ended(
    tmp_path: Path, sleeper: list[subprocess.Popen[bytes]]
) -> None:
    with federation(tmp_path, SETUPS["masks"], lambda _seen: None) as made:
        sleeper.append(subprocess.Popen(["sleep", "600"], cwd=tmp_path / "p00"))
        hanging, orphans = made.end()
    assert hanging == []
    (orphan,) = orphans
    assert "sleep 600" in orphan
    assert sleeper[0].wait(10) == -9
