"""One run at an agent with a process of the test, and damaged or half-written files of the register."""

from __future__ import annotations

import asyncio
import os
import time
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from securefl.base.errors import ConfigError
from securefl.base.ids import SERVER, PartyId
from securefl.runtime import provision
from securefl.runtime.agents import live_run
from securefl.runtime.agents.board import PART
from securefl.runtime.agents.child_process import RunProcess
from securefl.runtime.agents.engine import MAX_RESTARTS, PersonDecision
from securefl.runtime.agents.evaluation import SubmissionVerdict
from securefl.runtime.agents.live_run import LiveRun
from securefl.runtime.agents.register import KnownRun, Register, RunRecord
from securefl.runtime.provision.signed import sha256
from tests.unit.agents.samples import NOW, history, notice, order


class Process:
    """Process that has ended with a code as soon as it is started."""

    def __init__(self, exit_code: int | None) -> None:
        self.exit_code = exit_code
        self.sent: list[int] = []

    async def wait(self) -> None:
        return

    def send(self, number: int) -> None:
        self.sent.append(number)


def machine(**fields: Any) -> Any:
    evaluator = SimpleNamespace(evaluate=lambda known, policy: SubmissionVerdict(), words=lambda *_: [])
    kit = SimpleNamespace(check=lambda now: None, folder=Path(), role="party")
    given = {
        "name": PartyId("p00"), "leads": False, "history": history(), "policy": None, "policy_text": b"",
        "evaluator": evaluator, "kit": kit, "reason_to_rest": lambda: "",
    }  # fmt: skip
    return SimpleNamespace(**given | fields)


@pytest.fixture
def known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> KnownRun:
    monkeypatch.setattr(provision, "utc_now", lambda: NOW)
    return Register(tmp_path, history()).add(order())


def begun(known: KnownRun, of: Any) -> LiveRun:
    live = LiveRun(known, of, lambda: None)
    live.notices[SERVER] = notice("server", "running")
    return live


def test_a_process_that_always_aborts_at_once_fails(known: KnownRun, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its exit counts although it may not be started again at once."""
    started: list[Process] = []

    async def start(*_: object) -> Process:
        started.append(Process(3))
        return started[-1]

    monkeypatch.setattr(RunProcess, "start", start)
    monkeypatch.setattr(live_run, "_AGAIN", 0.01)

    async def work() -> None:
        live = begun(known, machine())
        while not known.ended and len(started) < 3 * MAX_RESTARTS:
            await live.advance(free=True)
            await asyncio.sleep(0)

    asyncio.run(work())
    assert known.record.state == "failed"
    assert len(started) == MAX_RESTARTS + 1


@pytest.mark.parametrize("name", ["decision.json", "stop.json"])
def test_a_run_rests_while_a_decision_is_damaged(name: str, known: KnownRun) -> None:
    (known.folder / name).write_bytes(b"{")
    asyncio.run(begun(known, machine()).advance(free=True))
    assert known.record.state == "received"
    assert name in known.record.reason or "stop order" in known.record.reason
    (known.folder / name).unlink()
    asyncio.run(LiveRun(known, machine(), lambda: None).advance(free=True))
    assert Register(known.folder.parents[1], history()).runs["one"].record.state == "accepted"


def test_a_folder_whose_writing_was_interrupted_is_ignored(known: KnownRun, tmp_path: Path) -> None:
    (known.folder / "submission.json").unlink()
    assert Register(tmp_path, history()).runs == {}
    (known.folder / "record.json").unlink()
    register = Register(tmp_path, history())
    assert register.runs == {}
    assert register.add(order()).record.state == "received"
    assert list(Register(tmp_path, history()).runs) == ["one"]


def test_a_run_without_its_submission_is_no_new_one(known: KnownRun, tmp_path: Path) -> None:
    """It would be taken a second time."""
    asyncio.run(LiveRun(known, machine(), lambda: None).advance(free=True))
    (known.folder / "submission.json").unlink()
    with pytest.raises(ConfigError, match="has no submission"):
        Register(tmp_path, history())


def test_the_register_is_read_under_its_lock(known: KnownRun, tmp_path: Path) -> None:
    """Another agent may have written until it left."""
    late = Register(tmp_path, history())
    asyncio.run(LiveRun(known, machine(), lambda: None).advance(free=True))
    with late.lock():
        assert late.runs["one"].record.state == "accepted"
        with pytest.raises(ConfigError, match="another agent"), Register(tmp_path, history()).lock():
            raise AssertionError


def test_only_the_owner_of_the_kit_decides(
    known: KnownRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The agent could not read the decision of another user, such as root."""
    monkeypatch.setattr(os, "geteuid", lambda: tmp_path.stat().st_uid + 1)
    with pytest.raises(ConfigError, match="belongs to the user"):
        known.decide(PersonDecision("approve"))
    assert not (known.folder / "decision.json").exists()
    with pytest.raises(ConfigError, match="belongs to the user"), Register(tmp_path, history()).lock():
        raise AssertionError


def test_notices_of_a_restored_folder_are_newer(known: KnownRun, tmp_path: Path) -> None:
    asyncio.run(LiveRun(known, machine(), lambda: None).advance(free=True))
    first = known.record.number
    (known.folder / "record.json").unlink()
    again = Register(tmp_path / "other", history()).add(order())
    later = NOW + timedelta(seconds=5)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(provision, "utc_now", lambda: later)
        asyncio.run(LiveRun(again, machine(), lambda: None).advance(free=True))
    assert again.record.number > first


def test_an_ended_run_frees_its_weights(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(provision, "utc_now", lambda: NOW + timedelta(hours=2))
    asked = order(weights_digest=provision.sha256(b"weights"), weights_bytes=7)
    known = Register(tmp_path, history()).add(asked)
    live = LiveRun(known, machine(), lambda: None)
    live.take_part(0, b"weights")
    path = known.weights
    assert path is not None
    assert path.read_bytes() == b"weights"
    asyncio.run(live.advance(free=True))
    assert known.record.state == "expired"
    assert not path.exists()
    live.take_part(0, b"weights")
    assert not path.exists()


def test_a_servers_run_that_ended_unwatched_is_not_started_again(known: KnownRun, tmp_path: Path) -> None:
    out = tmp_path / "runs" / "one"
    out.mkdir(parents=True)
    kit = SimpleNamespace(check=lambda now: None, folder=tmp_path, role="server")
    of = machine(name=SERVER, leads=True, kit=kit)
    known.save(RunRecord(submission=known.order.digest, state="running", number=1))
    (out / "summary.json").write_text('{"exit_code": 1}')
    checkpoint = out / "server.checkpoint"
    checkpoint.touch()
    live = LiveRun(known, of, lambda: None)
    assert live._view(free=True).child == "none"
    checkpoint.unlink()
    assert live._view(free=True).child == 1
    assert asyncio.run(live.advance(free=True))
    assert known.record.state == "done"
    # A party's process asks the broker itself.
    assert LiveRun(known, machine(kit=kit), lambda: None)._view(free=True).child == "none"


def test_a_server_that_said_goodbye_is_not_started_again(
    known: KnownRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its parties keep to the goodbye of this id; the first cause is the reason for all."""
    out = tmp_path / "runs" / "one"
    out.mkdir(parents=True)
    started: list[Process] = []

    async def start(*_: object) -> Process:
        started.append(Process(3))
        cause = "2 of 3 parties joined within 60 s"
        (out / "summary.json").write_text(f'{{"exit_code": 3, "reason": "{cause}"}}')
        return started[-1]

    monkeypatch.setattr(RunProcess, "start", start)
    monkeypatch.setattr(live_run, "_AGAIN", 0.0)
    kit = SimpleNamespace(check=lambda now: None, folder=tmp_path, role="server")
    live = LiveRun(known, machine(name=SERVER, leads=True, kit=kit), lambda: None)

    async def work() -> None:
        while not known.ended and len(started) < MAX_RESTARTS:
            await live.advance(free=True)
            await asyncio.sleep(0)

    # With a checkpoint a process resumes the run.
    (out / "server.checkpoint").touch()
    asyncio.run(work())
    assert (known.record.state, len(started)) == ("running", MAX_RESTARTS)
    (out / "server.checkpoint").unlink()
    started.clear()
    asyncio.run(work())
    assert (known.record.state, len(started)) == ("failed", 0)
    assert known.record.reason == "2 of 3 parties joined within 60 s"


def test_missing_first_weights_ask_for_a_new_connection(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 1_000.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    weights = b"x" * (PART + 1)
    asked = order(weights_digest=sha256(weights), weights_bytes=len(weights))
    known = Register(tmp_path, history()).add(asked)
    live = LiveRun(known, machine(), lambda: None)
    assert not live.lacks_weights(since=now)
    now += 61
    assert live.lacks_weights(since=1_000.0)
    assert not live.lacks_weights(since=now)
    live.take_part(0, weights[:PART])
    assert not live.lacks_weights(since=1_000.0)
    now += 61
    assert live.lacks_weights(since=1_000.0)
    live.take_part(1, weights[PART:])
    now += 61
    assert not live.lacks_weights(since=1_000.0)
