"""Checkpoints of a server: whole or absent, and refused in one line where they cannot be believed."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from securefl.base.errors import ConfigError, RunAbortedError, UsageError
from securefl.base.files import write_whole
from securefl.base.ids import RunId
from securefl.protocol.kernel import ANNOUNCED, Keep
from securefl.protocol.round.server.phases import BestOfRun, Checkpoint
from securefl.runtime.process.checkpoint import (
    CHECKPOINT,
    VERSION,
    CheckpointFile,
    checkpoint_bytes,
    checkpoint_from,
)
from securefl.runtime.process.journal import FileJournal
from securefl.runtime.process.server_process import JOURNAL, _read_resumed
from tests.simulation.world import World, scenario

HEAD = b"securefl server checkpoint\n"


@cache
def ended() -> World:
    return World(scenario(6, rounds="2"), length=4).run()


def content() -> bytes:
    written = ended().server.kept
    assert written is not None
    return written


@cache
def certified() -> bytes:
    """Of a server that is about to ask for shares."""
    world, kept = World(scenario(6, rounds="2"), length=4), list[bytes]()

    def observe(_n: object, _b: object, _e: object, _a: object, effects: tuple[object, ...]) -> None:
        states = [one.state for one in effects if isinstance(one, Keep)]
        kept.extend(
            checkpoint_bytes(world.plan, state)
            for state in states
            if isinstance(state, Checkpoint) and state.certified is not None
        )

    world.observers.append(observe)
    world.run()
    return kept[0]


def sealed(body: bytes) -> bytes:
    return HEAD + hashlib.sha256(body).digest() + body


def changed(change: Callable[[dict[str, Any]], None]) -> bytes:
    file = msgspec.msgpack.decode(content()[len(HEAD) + 32 :])
    change(file)
    return sealed(msgspec.msgpack.encode(file))


def part(name: str, value: object) -> bytes:
    return changed(lambda file: file["parts"].update({name: msgspec.msgpack.encode(value)}))


def refusal(written: bytes) -> str:
    with pytest.raises(ConfigError) as caught:
        checkpoint_from(written, ended().plan, "out/server.checkpoint")
    said = str(caught.value)
    assert said.startswith("out/server.checkpoint: ")
    assert "\n" not in said
    return said


@pytest.mark.parametrize(
    ("written", "reason"),
    [
        pytest.param(lambda: b"", "is not a checkpoint of a server", id="empty"),
        pytest.param(lambda: b"PK" + content(), "is not a checkpoint of a server", id="another file"),
        pytest.param(lambda: content()[:-1], "its digest does not match", id="cut"),
        pytest.param(lambda: content() + b"\0", "its digest does not match", id="longer"),
        pytest.param(
            lambda: content()[:-9] + bytes([content()[-9] ^ 1]) + content()[-8:],
            "its digest does not match",
            id="one bit",
        ),
        pytest.param(lambda: sealed(b"\xc1"), "is a damaged checkpoint", id="no MessagePack"),
        pytest.param(lambda: sealed(msgspec.msgpack.encode([1])), "is a damaged checkpoint", id="no map"),
        pytest.param(
            lambda: changed(lambda file: file.update(version=VERSION + 1)),
            f"is a checkpoint of version {VERSION + 1}, this securefl reads up to {VERSION}",
            id="later version",
        ),
        pytest.param(
            lambda: changed(lambda file: file.update(of=bytes(32))),
            "belongs to another run, scenario, roster or model",
            id="another run",
        ),
        pytest.param(
            lambda: part("forecast", 1), "holds 'forecast', which this securefl does not know", id="new part"
        ),
        pytest.param(
            lambda: changed(lambda file: file["parts"].pop("params")), "it lacks params", id="no model"
        ),
        pytest.param(
            lambda: changed(lambda file: file["parts"].pop("epoch")), "it lacks epoch", id="no epoch"
        ),
        pytest.param(lambda: part("round", "three"), "round: Expected `int`", id="text for a number"),
        pytest.param(lambda: part("lone_rounds", -1), "lone_rounds is -1", id="a negative number"),
        pytest.param(
            lambda: part("params", {"dtype": "<f8", "shape": [4], "data": bytes(32)}),
            "params: an array of float64 in place of float32",
            id="another type",
        ),
        pytest.param(
            lambda: part("params", {"dtype": "<f4", "shape": [3], "data": bytes(12)}),
            "params is not an array (4,)",
            id="another length",
        ),
        pytest.param(lambda: part("params", {"dtype": "<f4"}), "is a damaged checkpoint", id="half an array"),
    ],
)
def test_what_cannot_be_believed_is_refused(written: Callable[[], bytes], reason: str) -> None:
    assert reason in refusal(written())


def test_a_part_that_is_missing_is_as_in_a_new_run() -> None:
    written = changed(lambda file: file["parts"].pop("lone_rounds"))
    assert checkpoint_from(written, ended().plan, "x").standing.quorum.skipped_in_a_row == 0


def test_of_another_run_id_it_is_another_ones() -> None:
    plan = replace(ended().plan, run=RunId("another"))
    with pytest.raises(ConfigError, match="another run"):
        checkpoint_from(content(), plan, "x")


def test_numbers_that_are_not_finite_and_a_best_model_survive() -> None:
    state = checkpoint_from(content(), ended().plan, "x")
    best = BestOfRun(3, float("-inf"), np.array([np.nan, 1, 2, 3], dtype=np.float32))
    kept = Checkpoint(
        7, replace(state.standing, epoch=7, progress=replace(state.standing.progress, best=best)), state.done
    )
    again = checkpoint_from(checkpoint_bytes(ended().plan, kept), ended().plan, "x")
    assert again.epoch == 7
    assert again.standing.progress.best is not None
    assert again.standing.progress.best.value == float("-inf")
    assert again.standing.progress.best.params.tobytes() == best.params.tobytes()


class TestFile:
    @pytest.fixture
    def file(self, tmp_path: Path) -> CheckpointFile:
        return CheckpointFile(tmp_path, ended().plan)

    def test_it_is_replaced_as_a_whole(self, file: CheckpointFile, tmp_path: Path) -> None:
        assert file.read() is None
        first = checkpoint_from(content(), ended().plan, "x")
        file.keep(first)
        file.keep(replace(first, epoch=9))
        assert [path.name for path in tmp_path.iterdir()] == [CHECKPOINT]
        read = file.read()
        assert read is not None
        assert read.epoch == 9
        file.remove()
        assert file.read() is None

    def test_a_full_disk_leaves_the_one_before(
        self, file: CheckpointFile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        first = checkpoint_from(content(), ended().plan, "x")
        file.keep(first)

        def full(_handle: int) -> None:
            raise OSError(28, "No space left on device")

        monkeypatch.setattr("os.fsync", full)
        with pytest.raises(RunAbortedError, match=r"No space left on device \(the last checkpoint stays"):
            file.keep(replace(first, epoch=9))
        monkeypatch.undo()
        assert [path.name for path in tmp_path.iterdir()] == [CHECKPOINT]
        read = file.read()
        assert read is not None
        assert read.epoch == first.epoch

    def test_it_keeps_nothing_else(self, file: CheckpointFile) -> None:
        with pytest.raises(UsageError, match="must be a Checkpoint, found str"):
            file.keep("state")

    def test_one_that_cannot_be_read_is_named(self, file: CheckpointFile) -> None:
        file.path.mkdir()
        with pytest.raises(ConfigError, match="cannot be read: Is a directory"):
            file.read()


def test_it_is_on_disk_before_it_has_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    order: list[str] = []
    real = Path.replace

    def replaced(self: Path, target: Path) -> Path:
        order.append("named")
        return real(self, target)

    monkeypatch.setattr("os.fsync", lambda _handle: order.append("synced"))
    monkeypatch.setattr(Path, "replace", replaced)
    write_whole(tmp_path / "file", b"content", durable=True)
    assert order == ["synced", "named", "synced"]


def recertified(name: str, change: Callable[[Any], object]) -> bytes:
    file = msgspec.msgpack.decode(certified()[len(HEAD) + 32 :])
    file["parts"][name] = msgspec.msgpack.encode(
        change(msgspec.msgpack.decode(file["parts"][name], strict=False))
    )
    return sealed(msgspec.msgpack.encode(file))


@pytest.mark.parametrize("change", [lambda _raw: b"", lambda raw: raw[:-1], lambda raw: raw * 2])
def test_totals_of_another_length_are_refused(change: Callable[[bytes], bytes]) -> None:
    def other(state: Any) -> Any:
        return state | {"totals": {key: change(raw) for key, raw in state["totals"].items()}}

    assert "is a damaged checkpoint: certified: " in refusal(recertified("certified", other))


@pytest.mark.parametrize("name", ["totals", "instances"])
def test_a_sum_that_lacks_something_is_refused(name: str) -> None:
    def without(found: dict[Any, Any]) -> dict[Any, Any]:
        return dict(list(found.items())[1:])

    if name == "instances":
        written = recertified("instances", without)
    else:
        written = recertified("certified", lambda state: state | {name: without(state[name])})
    assert "it lacks what is added up of a sum, or has it of another one" in refusal(written)


def test_a_bomb_is_refused() -> None:
    file = msgspec.msgpack.decode(content()[len(HEAD) + 32 :])
    file["parts"]["trust"] = b"\x81\xa1a" * 50_000 + b"\xc0"
    assert "is a damaged checkpoint: trust: " in refusal(sealed(msgspec.msgpack.encode(file)))


@pytest.mark.parametrize(
    ("kept", "drawn", "reason"),
    [
        (False, 0, "is missing, and server.journal says that round 0 of this run was drawn"),
        (True, 3, "ends before round 2, and server.journal says that round 3 of this run was drawn"),
        (True, 2, None),
    ],
)
def test_a_journal_tells_that_a_checkpoint_is_an_older_copy(
    tmp_path: Path, kept: bool, drawn: int, reason: str | None
) -> None:
    """Here round 1 was done, so that round 2 may have been announced."""
    file = CheckpointFile(tmp_path, ended().plan)
    if kept:
        file.path.write_bytes(content())
    journal = FileJournal(tmp_path / JOURNAL, RunId("test"))
    journal.note(drawn, ANNOUNCED)
    known = FileJournal(tmp_path / JOURNAL, RunId("test"))
    if reason is None:
        resumed = _read_resumed(file, known)
        assert resumed is not None
        assert resumed.announced == drawn
        return
    with pytest.raises(ConfigError) as caught:
        _read_resumed(file, known)
    assert reason in str(caught.value)
