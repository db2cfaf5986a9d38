"""Whole runs in one event loop: the shells of a server and its parties, and what befalls them."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import threading
import time
from collections.abc import Awaitable, Callable
from contextlib import ExitStack
from types import SimpleNamespace
from typing import TypeGuard
from unittest.mock import patch

import numpy as np
import pytest

from securefl.base.arrays import F32
from securefl.base.crypto.identity import Identity
from securefl.base.entropy import InsecureSeededEntropy
from securefl.base.errors import ConfigError, RunAbortedError
from securefl.base.ids import SERVER, PartyId
from securefl.protocol.kernel.effects import Aborted, Finished, Send
from securefl.protocol.kernel.events import Received
from securefl.protocol.kernel.machine import Event
from securefl.protocol.messages.control import Goodbye
from securefl.protocol.messages.masking import MaskedInput
from securefl.protocol.messages.rounds import Hello, Invite, ModelAnnounce, Release
from securefl.protocol.messages.union import AnyMessage
from securefl.protocol.round.shared.reports import NothingLearned
from securefl.protocol.wire import topics
from securefl.protocol.wire.envelope import peek
from securefl.runtime.misbehaviour.seam import Action, Crash, Presence, ResendLast, SendRaw
from tests.simulation.world import scenario
from tests.unit.process.federation import RUN, Federation, Role, add_one, everybody, names
from tests.unit.process.hurried import HurriedLoop
from tests.unit.transport.faults import Direction, Fault, FaultKind

STEPS = ("join", "hello", "reveal", "keys", "shares", "training", "certify", "release")
WAITING = {f"deadlines__{step}": "30" for step in STEPS}
"""For runs in which somebody is waited for in vain. It takes no time, but work does, and machines stall."""


def play(body: Callable[[], Awaitable[None]]) -> None:
    """Run ``body``, and fail if it leaves a task behind or asyncio complains about anything.

    Nobody waits for a deadline: when all wait for one, it is there.
    """
    complaints: list[object] = []

    async def watched() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: complaints.append(context))
        await body()
        assert asyncio.all_tasks() == {asyncio.current_task()}

    with asyncio.Runner(loop_factory=HurriedLoop) as runner, ExitStack() as patches:
        loop = runner.get_loop()
        assert isinstance(loop, HurriedLoop)
        patches.enter_context(loop.waiting_for_threads())
        clock = SimpleNamespace(monotonic=loop.time)
        # One that still read the other clock would set deadlines that have passed.
        for module in [*sys.modules.values()]:
            if module.__name__.startswith("securefl.") and getattr(module, "time", None) is time:
                patches.enter_context(patch.object(module, "time", clock))
        runner.run(watched())
    assert not complaints


def test_a_small_federation_runs_to_its_end() -> None:
    async def body() -> None:
        plan = scenario(6, rounds="2")
        federation = Federation(plan)
        ended = await federation.run()
        assert names(ended, Finished) == everybody(plan)
        assert [len(done.survivors) for done in federation.rounds()] == [6, 6]
        last = federation.rounds()[-1]
        assert last.accuracy == pytest.approx(0.002), "each of two rounds adds the mean update, 1"
        for name in federation.members:
            assert federation.witness(name).refusals == []

    play(body)


def test_an_active_servers_rounds_are_certified() -> None:
    async def body() -> None:
        plan = scenario(8, size="4", threshold="3", min_survivors="3", server="active")
        federation = Federation(plan)
        assert names(await federation.run(), Finished) == everybody(plan)
        assert len(federation.rounds()[0].survivors) == 8

    play(body)


def test_every_frame_twice_changes_nothing() -> None:
    async def body() -> None:
        plan = scenario(6)
        twice = tuple(Fault(FaultKind.DUPLICATE, direction, nth=None) for direction in Direction)
        federation = Federation(plan, {name: Role(faults=twice) for name in everybody(plan)})
        assert names(await federation.run(), Finished) == everybody(plan)
        assert len(federation.rounds()[0].survivors) == 6
        assert federation.rounds()[0].accuracy == pytest.approx(0.001)

    play(body)


def test_a_spoilt_masked_input_costs_its_sender_the_round_only() -> None:
    async def body() -> None:
        plan = scenario(6, rounds="2", **WAITING)
        hit = threading.Event()

        def spoil(
            event: Event[AnyMessage], _phase: object, effects: tuple[Action, ...]
        ) -> tuple[Action, ...]:
            if hit.is_set() or not any(_sends(effect, MaskedInput) for effect in effects):
                return effects
            hit.set()
            return tuple(
                SendRaw(effect.to, b"\xff" * 500) if _sends(effect, MaskedInput) else effect
                for effect in effects
            )

        federation = Federation(plan, {"p00": Role(seam=spoil)})
        assert names(await federation.run(), Finished) == everybody(plan)
        first, second = federation.rounds()
        assert "p00" not in first.survivors
        assert len(first.survivors) == 5
        assert len(second.survivors) == 6
        assert "p00" in {culprit for culprit, _ in federation.witness().refusals}

    play(body)


def test_corrupt_frames_are_refused_and_the_run_goes_on() -> None:
    async def body() -> None:
        plan = scenario(6, **WAITING)
        # The first frames of p00 arrive damaged, each in another place: its joining and its hello.
        damaged = tuple(
            Fault(FaultKind.CORRUPT, topics=topics.up(RUN, PartyId("p00")), nth=n, amount=n * 40)
            for n in range(9)
        )
        federation = Federation(plan, {"p00": Role(faults=damaged)})
        ended = await federation.run()
        assert names(ended, Finished) == everybody(plan)
        culprits = {culprit for culprit, _ in federation.witness().refusals}
        assert culprits
        assert culprits <= {"p00", "broker"}
        assert all("p00" not in done.survivors for done in federation.rounds())

    play(body)


class _FullDisk:
    """A journal that takes ``entries`` and then no more."""

    def __init__(self, entries: int) -> None:
        self._left = entries

    def note(self, round_: int, step: str) -> None:
        self._left -= 1
        if self._left < 0:
            raise RunAbortedError("journal: no space left on device")


@pytest.mark.parametrize(("entries", "withheld"), [(0, MaskedInput), (1, Release)])
def test_what_cannot_be_journalled_never_leaves(entries: int, withheld: type[AnyMessage]) -> None:
    async def body() -> None:
        plan = scenario(6, rounds="2", **WAITING)
        federation = Federation(plan, {"p03": Role(journal=_FullDisk(entries))})
        ended = await federation.run()
        failure = ended["p03"]
        assert isinstance(failure, RunAbortedError)
        assert "no space left" in str(failure)
        assert not any(_sends(send, withheld) for send in federation.witness("p03").outward)
        assert names(ended, Finished) == everybody(plan, but={"p03"})
        assert "p03" not in federation.rounds()[1].survivors

    play(body)


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (ConfigError("data", "is damaged"), "data: is damaged"),
        (ZeroDivisionError("a model's own"), "ZeroDivisionError: a model's own"),
        (MemoryError(), "MemoryError"),
    ],
)
def test_a_party_that_cannot_train_sends_zeros_and_keeps_the_reason(error: Exception, reason: str) -> None:
    """A process that ended, or was silent, would tell everybody on which data its model fails."""

    def refuse(round_: int, work: int, params: F32) -> F32:
        if round_ == 0:
            raise error
        return add_one(round_, work, params)

    async def body() -> None:
        plan = scenario(6, rounds="2", **WAITING)
        federation = Federation(plan, {"p02": Role(train=refuse)})
        assert names(await federation.run(), Finished) == everybody(plan)
        notes = [fact for fact in federation.witness("p02").facts if isinstance(fact, NothingLearned)]
        assert notes == [NothingLearned(0, 0, reason)]
        assert all("p02" in done.survivors for done in federation.rounds())
        others = (federation.witness(name) for name in everybody(plan, but={"p02"}))
        assert not any(isinstance(fact, NothingLearned) for other in others for fact in other.facts)

    play(body)


def test_an_update_of_the_wrong_length_counts_as_zeros_and_its_party_keeps_the_reason() -> None:
    """Where the length follows from the data, an end of the process would be an answer about them."""

    async def body() -> None:
        plan = scenario(6, **WAITING)
        federation = Federation(
            plan, {"p02": Role(train=lambda _round, _work, params: np.stack([params, params]))}
        )
        assert names(await federation.run(), Finished) == everybody(plan)
        notes = [fact for fact in federation.witness("p02").facts if isinstance(fact, NothingLearned)]
        assert notes == [NothingLearned(0, 0, "training ended in an update of another shape or type")]
        (done,) = federation.rounds()
        assert "p02" in done.survivors
        assert done.accuracy == pytest.approx(0.001 * 5 / 6), "five of six add one"

    play(body)


def test_stopping_the_server_says_goodbye_to_all() -> None:
    async def body() -> None:
        plan = scenario(6, rounds="1000")
        federation = Federation(plan)
        server = federation.members[SERVER].shell
        running = asyncio.create_task(federation.run())
        while not federation.rounds():
            await asyncio.sleep(0)
        server.stop("stopped by SIGTERM")
        ended = await running
        assert names(ended, Aborted) == everybody(plan)
        assert all(isinstance(e, Aborted) and e.reason == "stopped by SIGTERM" for e in ended.values())
        assert federation.witness().kinds()[-1] == "Goodbye"

    play(body)


def test_a_server_that_fails_says_goodbye_too() -> None:
    async def body() -> None:
        plan = scenario(6, rounds="3")
        federation = Federation(plan)
        server = federation.members[SERVER]

        def report(now: float, item: object) -> None:
            if type(item).__name__ == "RoundDone":
                raise RunAbortedError("transcripts/server.jsonl: cannot be written: no space left on device")

        server.witness.report = report  # type: ignore[method-assign]
        ended = await federation.run()
        assert isinstance(ended[SERVER], RunAbortedError)
        parties = {name: ended[name] for name in everybody(plan, but={SERVER})}
        assert all(isinstance(e, Aborted) and "no space left" in e.reason for e in parties.values())

    play(body)


def test_a_connection_that_ends_aborts_its_party_alone() -> None:
    async def body() -> None:
        plan = scenario(6, rounds="2", **WAITING)
        federation = Federation(plan)
        running = asyncio.create_task(federation.run())
        while not federation.rounds():
            await asyncio.sleep(0)
        federation.hub.kill(f"{RUN}-p05")
        ended = await running
        lost = ended["p05"]
        assert isinstance(lost, Aborted)
        assert "closed" in lost.reason
        assert names(ended, Finished) == everybody(plan, but={"p05"})

    play(body)


def test_a_second_process_of_a_party_takes_its_place_and_the_run_goes_on() -> None:
    async def body() -> None:
        plan = scenario(6, rounds="3", **WAITING)
        federation = Federation(plan)
        twin = federation.member(PartyId("p01"), restart="again")
        ended = await federation.run(twin)
        first = ended["p01"]
        assert isinstance(first, Aborted)
        assert "closed" in first.reason
        assert isinstance(ended["+0"], Finished)
        assert names(ended, Finished) == {*everybody(plan, but={"p01"}), "+0"}
        assert len(federation.rounds()[-1].survivors) == 6
        assert all(len(set(done.survivors)) == len(done.survivors) for done in federation.rounds())

    play(body)


def test_an_impersonated_party_is_refused_and_never_counted() -> None:
    async def body() -> None:
        plan = scenario(6, **WAITING)
        forger = Identity.generate(PartyId("p04"), InsecureSeededEntropy(99))
        federation = Federation(plan, {"p04": Role(identity=forger)})
        assert SERVER in names(await federation.run(), Finished)
        assert federation.witness().refusals
        assert federation.witness().inward
        assert all("p04" not in done.survivors for done in federation.rounds())

    play(body)


def test_a_party_with_another_scenario_is_told_and_the_others_go_on() -> None:
    async def body() -> None:
        # The server does not wait for it either: a day would be a hang.
        patient = {**WAITING, "deadlines__join": "86400"}
        plan = scenario(6, **patient)
        other = scenario(6, rounds="7", **patient)
        federation = Federation(plan, {"p00": Role(scenario=other)})
        ended = await federation.run()
        stranger = ended["p00"]
        assert isinstance(stranger, Aborted)
        assert "differs from the server's" in stranger.reason
        assert names(ended, Finished) == everybody(plan, but={"p00"})

    play(body)


def test_a_masked_input_of_the_wrong_length_is_refused() -> None:
    def shorten(event: Event[AnyMessage], _phase: object, effects: tuple[Action, ...]) -> tuple[Action, ...]:
        return tuple(
            Send(e.to, e.place, MaskedInput(vector=e.message.vector[:-4]))
            if isinstance(e, Send) and isinstance(e.message, MaskedInput)
            else e
            for e in effects
        )

    async def body() -> None:
        plan = scenario(6, **WAITING)
        federation = Federation(plan, {"p01": Role(seam=shorten)})
        assert names(await federation.run(), Finished) == everybody(plan)
        assert any(who == "p01" and "bytes" in why for who, why in federation.witness().refusals)
        assert "p01" not in federation.rounds()[0].survivors
        assert len(federation.rounds()[0].survivors) == 5

    play(body)


def test_oversized_and_malformed_frames_are_refused_without_harm() -> None:
    def flood(event: Event[AnyMessage], _phase: object, effects: tuple[Action, ...]) -> tuple[Action, ...]:
        if isinstance(event, Received) and isinstance(event.message, ModelAnnounce):
            return (*effects, *(SendRaw(SERVER, b"\x00" * size) for size in (0, 1, 600_000, 5_000_000)))
        return effects

    async def body() -> None:
        plan = scenario(6)
        federation = Federation(plan, {"p01": Role(seam=flood)})
        assert names(await federation.run(), Finished) == everybody(plan)
        assert len([who for who, _ in federation.witness().refusals if who == "p01"]) == 4
        assert len(federation.rounds()[0].survivors) == 6

    play(body)


def test_a_party_that_never_comes_is_waited_for_until_the_deadline_only() -> None:
    async def body() -> None:
        plan = scenario(6, **WAITING)
        silent = (Fault(FaultKind.DROP, nth=None),)
        federation = Federation(plan, {"p00": Role(faults=silent)})
        assert SERVER in names(await federation.run(), Finished)
        assert all("p00" not in done.survivors for done in federation.rounds())

    play(body)


def test_too_few_parties_abort_the_run_with_a_reason_for_all() -> None:
    async def body() -> None:
        plan = scenario(6, **WAITING)
        silent = (Fault(FaultKind.DROP, nth=None),)
        federation = Federation(plan, {f"p0{i}": Role(faults=silent) for i in range(4)})
        ended = await federation.run()
        assert names(ended, Aborted) == everybody(plan)
        server = ended[SERVER]
        assert isinstance(server, Aborted)
        assert "2 of 6 parties joined within 30 s" in server.reason

    play(body)


def test_what_no_honest_process_does_is_performed() -> None:
    done = threading.Event()

    def misbehave(
        event: Event[AnyMessage], _phase: object, effects: tuple[Action, ...]
    ) -> tuple[Action, ...]:
        if done.is_set() or not any(_sends(effect, Hello) for effect in effects):
            return effects
        done.set()
        return (
            *effects,
            SendRaw(SERVER, b"garbage"),
            ResendLast(2),
            Presence(present=False),
            Presence(present=True),
        )

    async def body() -> None:
        plan = scenario(6)
        federation = Federation(plan, {"p00": Role(seam=misbehave)})
        assert names(await federation.run(), Finished) == everybody(plan)
        up = topics.up(RUN, PartyId("p00"))
        seen = federation.tap._inbox
        frames = [frame.payload for frame in seen if frame.topic == up]
        assert b"garbage" in frames
        at = frames.index(b"garbage")
        assert frames[at + 1 : at + 3] == frames[at - 2 : at], "the last two again, byte for byte"
        status = [f.payload for f in seen if f.topic == topics.status(RUN, PartyId("p00"))]
        first, gone, again = status
        assert gone == b"gone"
        assert [peek(frame, "p00").header.kind for frame in (first, again)] == ["Here", "Here"]
        assert first != again, "what is said again is new, not a replay"
        assert len(federation.rounds()[0].survivors) == 6, "repeating oneself harms nobody"

    play(body)


def test_a_crash_lets_leave_what_was_sent_and_performs_nothing_after(monkeypatch: pytest.MonkeyPatch) -> None:
    class Killed(BaseException):
        pass

    calls: list[tuple[int, int]] = []

    def kill(pid: int, number: int) -> None:
        calls.append((pid, number))
        raise Killed

    monkeypatch.setattr("securefl.runtime.process.publisher.os.kill", kill)

    def crash(event: Event[AnyMessage], _phase: object, effects: tuple[Action, ...]) -> tuple[Action, ...]:
        if isinstance(event, Received) and isinstance(event.message, Invite):
            return (*effects, Crash(), SendRaw(SERVER, b"after death"))
        return effects

    async def body() -> None:
        plan = scenario(6, **WAITING)
        federation = Federation(plan, {"p00": Role(seam=crash)})
        ended = await federation.run()
        assert isinstance(ended["p00"], Killed)
        assert calls == [(os.getpid(), signal.SIGKILL)]
        frames = [f.payload for f in federation.tap._inbox if f.topic == topics.up(RUN, PartyId("p00"))]
        assert len(frames) == 3, "two joins, one of them to the roll call, and the hello"
        assert SERVER in names(ended, Finished)

    play(body)


def _sends(effect: Action, kind: type[AnyMessage]) -> TypeGuard[Send[AnyMessage]]:
    return isinstance(effect, Send) and isinstance(effect.message, kind)


def test_a_partys_early_end_is_a_hint_to_the_server() -> None:
    async def body() -> None:
        # Without the hint, the server would wait a day for the masked input.
        plan = scenario(6, rounds="1", deadlines__training="86400", deadlines__keys="86400")
        federation = Federation(plan, {"p03": Role(journal=_FullDisk(0))})
        ended = await federation.run()
        assert names(ended, Finished) == everybody(plan, but={"p03"})
        assert "p03" not in federation.rounds()[0].survivors

    play(body)


def test_goodbyes_reach_the_machine_as_sent() -> None:
    async def body() -> None:
        plan = scenario(6)
        federation = Federation(plan)
        await federation.run()
        heard = [m for m in federation.witness("p00").inward if isinstance(m, Goodbye)]
        assert len(heard) == 1
        assert not heard[0].aborted

    play(body)


def test_whoever_joins_after_the_end_is_told_how_the_run_ended() -> None:
    async def body() -> None:
        federation = Federation(scenario(6))
        first = await federation.run()
        late = federation.member(PartyId("p00"), restart="again")
        try:
            assert await late.shell.run() == first["p00"]
        finally:
            await late.transport.close()

    play(body)


def test_a_waiting_process_says_for_whom() -> None:
    """The server for the party that is not there, a party for the server; both ever more rarely."""

    async def body() -> None:
        federation = Federation(scenario(6, **{**WAITING, "deadlines__join": "100"}))
        absent = federation.members.pop(PartyId("p05"))
        await absent.transport.close()
        ended = await federation.run()
        assert ended[SERVER] == Finished("1 round done")
        joining = [whom for whom in federation.witness().waited if whom == ("p05",)]
        assert joining[:3] == [("p05",)] * 3, "after 10, 30 and 70 seconds"
        for name in federation.members.keys() - {SERVER}:
            assert set(federation.witness(name).waited) == {("server",)}

    play(body)


def test_no_process_reminds_of_inputs_that_leave_at_an_agreed_time() -> None:
    """No party is late, and no party waits for the server: each holds its own input (`make realistic`)."""

    async def body() -> None:
        federation = Federation(scenario(6, rounds="2", deadlines__submit="45", deadlines__training="90"))
        ended = await federation.run()
        assert ended[SERVER] == Finished("2 rounds done")
        assert [name for name in ended if federation.witness(name).waited] == []

    play(body)


def test_a_server_reminds_of_a_party_whose_input_is_late() -> None:
    async def body() -> None:
        def withhold(
            _event: Event[AnyMessage], _phase: object, effects: tuple[Action, ...]
        ) -> tuple[Action, ...]:
            return tuple(effect for effect in effects if not _sends(effect, MaskedInput))

        plan = scenario(6, **{**WAITING, "deadlines__submit": "45", "deadlines__training": "90"})
        federation = Federation(plan, {"p05": Role(seam=withhold)})
        await federation.run()
        assert set(federation.witness().waited) == {("p05",)}

    play(body)
