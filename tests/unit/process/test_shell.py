"""One shell with a scripted machine: bugs surface, deadlines hold under a flood, the backlog is bounded."""

from __future__ import annotations

import asyncio
import itertools
import threading
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
import pytest

from securefl.base.arrays import F32, F64
from securefl.base.crypto.identity import Identity
from securefl.base.crypto.roster import Roster
from securefl.base.entropy import InsecureSeededEntropy
from securefl.base.errors import RunAbortedError, UsageError
from securefl.base.ids import EVERYONE, SERVER, PartyId
from securefl.methods.attacks.assignment import party_names
from securefl.protocol.kernel import Effect
from securefl.protocol.kernel.effects import (
    Aborted,
    AwaitSent,
    Consult,
    Evaluate,
    Finished,
    Journal,
    Reject,
    Report,
    Send,
    Train,
    WakeAt,
)
from securefl.protocol.kernel.events import (
    AllSent,
    Consulted,
    DeadlinePassed,
    Evaluated,
    Heard,
    Offline,
    Online,
    Place,
    PresenceHint,
    Received,
    Trained,
)
from securefl.protocol.kernel.machine import Event
from securefl.protocol.messages.control import Goodbye, Here, RollCall
from securefl.protocol.messages.masking import MaskedInput
from securefl.protocol.messages.union import AnyMessage
from securefl.protocol.wire import topics
from securefl.protocol.wire.envelope import MIN_FRAME
from securefl.protocol.wire.inbox import Inbox
from securefl.protocol.wire.outbox import Outbox
from securefl.runtime.process import publisher
from securefl.runtime.process import shell as shell_module
from securefl.runtime.process.ports import LocalWork
from securefl.runtime.process.shell import Shell
from securefl.runtime.transport.base import (
    ArrivedFrame,
    Carriers,
    Link,
    LostFrame,
    Transport,
    TransportClosedError,
)
from securefl.training.sgd.outcomes import Evaluation, GradientNotFiniteError
from tests.unit.process.federation import RUN, SECONDS, Notes, Recorder, goodbye

Effects = tuple[Effect[AnyMessage, Any], ...]
PARAMS = np.zeros(2, dtype=np.float32)


class Script:
    """A machine that starts with some effects and answers events by a function."""

    def __init__(
        self, first: Effects, answer: Callable[[Event[AnyMessage]], Effects] = lambda _event: ()
    ) -> None:
        self._first = first
        self._answer = answer
        self.events: list[Event[AnyMessage]] = []

    def start(self, now: float) -> tuple[int, Effects]:
        return 0, self._first

    def step(self, phase: int, event: Event[AnyMessage]) -> tuple[int, Effects]:
        self.events.append(event)
        return phase + 1, self._answer(event)


class Line:
    """A transport that a test feeds, and that can fail."""

    def __init__(self) -> None:
        self.out: list[ArrivedFrame] = []
        self.retained: list[str] = []
        self.waiting: asyncio.Queue[ArrivedFrame | Exception] = asyncio.Queue()
        self.taken = 0
        self.failure: Exception | None = None

    async def publish(self, topic: str, payload: bytes, *, retain: bool = False) -> None:
        await asyncio.sleep(0)
        if self.failure is not None:
            raise self.failure
        self.out.append(ArrivedFrame(topic, payload))
        if retain:
            self.retained.append(topic)

    async def receive(self) -> ArrivedFrame:
        item = await self.waiting.get()
        if isinstance(item, Exception):
            raise item
        self.taken += 1
        return item

    def watch(
        self,
        told: Callable[[Link], None],
        lost: Callable[[bool], Iterable[LostFrame]] = lambda _kept: (),
        carriers: Carriers | None = None,
    ) -> None:
        self.told = told
        self.lost = lost

    async def close(self) -> None:
        self.waiting.put_nowait(TransportClosedError("closed"))


def shell(script: Script, line: Transport, work: LocalWork | None = None, **more: Any) -> Shell[int]:
    root = InsecureSeededEntropy(1)
    made = {n: Identity.generate(n, root.child(n)) for n in (*party_names(3), SERVER)}
    roster = Roster(made[SERVER].public, {n: i.public for n, i in made.items() if n != SERVER})
    me = more.pop("me", SERVER)
    return Shell(
        run=RUN,
        me=me,
        machine=script,
        transport=line,
        inbox=Inbox(RUN, me, roster, max_message=10_000),
        outbox=Outbox(RUN, made[me], root.child("outbox")),
        work=work or LocalWork(),
        witness=more.pop("witness", Recorder()),
        broker_patience=0.0,
        **more,
    )


def play(one: Callable[[], Shell[int]]) -> Finished | Aborted:
    async def bounded() -> Finished | Aborted:
        async with asyncio.timeout(SECONDS):
            outcome = await one().run()
        assert asyncio.all_tasks() == {asyncio.current_task()}
        return outcome

    return asyncio.run(bounded())


HELLO: Send[AnyMessage] = Send(PartyId("p00"), Place(-1), RollCall())
DONE = Finished("done")


def test_effects_are_performed_in_order() -> None:
    notes, witness, line = Notes(), Recorder(), Line()
    script = Script((Report("a"), Journal(3, "submitted"), HELLO, Report("b"), DONE))
    assert play(lambda: shell(script, line, journal=notes, witness=witness)) == DONE
    assert witness.facts == ["a", "b"]
    assert notes.entries == [(3, "submitted")]
    assert [frame.topic for frame in line.out] == [topics.down(RUN, PartyId("p00"))]
    assert witness.frames == 1


def test_nothing_after_a_failed_journal_entry_is_performed() -> None:
    class Full:
        def note(self, round_: int, step: str) -> None:
            raise RunAbortedError("no space left")

    line, witness = Line(), Recorder()
    script = Script((Journal(0, "released"), HELLO, Report("released"), DONE))
    with pytest.raises(RunAbortedError, match="no space left"):
        play(lambda: shell(script, line, journal=Full(), witness=witness, me=PartyId("p00")))
    assert witness.facts == []
    assert line.out == [ArrivedFrame(topics.status(RUN, PartyId("p00")), b"gone")]


@pytest.mark.parametrize("failure", [ValueError("a bug"), UsageError("a bug")])
def test_bugs_in_any_task_surface(failure: Exception) -> None:
    def broken(*_arguments: object) -> Any:
        raise failure

    waiting: Effects = (WakeAt(None),)
    for script, work in (
        # Not training: what it raises may be its data's doing, and is for this party's log alone.
        (Script((Evaluate(0, PARAMS), *waiting)), LocalWork(evaluate=broken)),
        (Script((Consult(0, PARAMS, (0,)), *waiting)), LocalWork(consult=broken)),
        (Script((Evaluate(0, PARAMS),), broken), LocalWork(evaluate=lambda _params: Evaluation(0.5, 0.5))),
    ):
        with pytest.raises(type(failure), match="a bug"):
            play(lambda s=script, w=work: shell(s, Line(), w))  # type: ignore[misc]


@pytest.mark.parametrize("work", [Train(0, 0, PARAMS), Evaluate(0, PARAMS), Consult(0, PARAMS, (0,))])
def test_work_that_this_process_cannot_do_is_a_bug(work: Train | Evaluate | Consult) -> None:
    with pytest.raises(UsageError, match="was started without"):
        play(lambda: shell(Script((work,)), Line()))


def test_a_bug_in_the_transport_surfaces() -> None:
    line = Line()

    def failing() -> Shell[int]:
        line.waiting.put_nowait(ZeroDivisionError("in receive"))
        return shell(Script(()), line)

    with pytest.raises(ZeroDivisionError, match="in receive"):
        play(failing)
    silent = Line()
    silent.failure = ZeroDivisionError("in publish")
    with pytest.raises(ZeroDivisionError, match="in publish"):
        play(lambda: shell(Script((HELLO,)), silent))


@pytest.mark.parametrize("error", [TransportClosedError("closed"), RunAbortedError("out of reach")])
def test_a_lost_transport_aborts(error: Exception) -> None:
    line = Line()

    def failing() -> Shell[int]:
        line.waiting.put_nowait(error)
        return shell(Script(()), line, farewell=goodbye)

    assert play(failing) == Aborted(str(error), over=False)
    silent = Line()
    silent.failure = error
    assert play(lambda: shell(Script((HELLO,)), silent, farewell=goodbye)) == Aborted(str(error), over=False)


def test_a_deadline_comes_even_in_a_flood_of_garbage() -> None:
    line = Line()
    garbage = ArrivedFrame(topics.up(RUN, PartyId("p00")), b"garbage")

    async def flood() -> ArrivedFrame:
        await asyncio.sleep(0)
        return garbage

    line.receive = flood  # type: ignore[method-assign]
    script = Script((WakeAt(0.0),), lambda event: (DONE,) if isinstance(event, DeadlinePassed) else ())
    assert play(lambda: shell(script, line)) == DONE


def test_the_clock_sweeps_what_was_begun_by_who_fell_silent() -> None:
    """Nothing else comes, and the machine has no deadline: the shell wakes up by itself all the same."""
    line, script = Line(), Script((WakeAt(None),))
    one = shell(script, line)
    held: list[int] = []

    class Watched(Inbox):
        def sweep(self, now: float) -> None:
            before = self._held
            super().sweep(now)
            if self._held < before:
                held.extend((before, self._held))
                one.stop("swept")

    sender = Identity.generate(PartyId("p00"), InsecureSeededEntropy(1).child("p00"))
    one._inbox = Watched(RUN, SERVER, one._inbox._roster, max_message=50_000, max_age=0.05)
    message = MaskedInput(vector=bytes(20_000))
    first, *_ = Outbox(RUN, sender, InsecureSeededEntropy(2), MIN_FRAME).frames(SERVER, Place(0), message)
    line.waiting.put_nowait(ArrivedFrame(topics.up(RUN, sender.name), first))
    outcome = asyncio.run(asyncio.wait_for(one.run(), SECONDS))
    assert outcome == Aborted("swept")
    assert held[0] > 0 == held[1]


def test_frames_wait_at_the_transport_while_the_machine_is_busy() -> None:
    line = Line()

    async def body() -> None:
        for _ in range(5_000):
            line.waiting.put_nowait(ArrivedFrame(topics.up(RUN, PartyId("p00")), b"garbage"))
        busy = asyncio.Event()

        class Slow(Recorder):
            def record_refusal(self, now: float, culprit: str, reason: str, evidence: bytes = b"") -> None:
                super().record_refusal(now, culprit, reason, evidence)
                busy.set()

        witness = Slow()
        one = shell(Script(()), line, witness=witness)
        running = asyncio.create_task(one.run())
        await busy.wait()
        assert line.taken <= len(witness.refusals) + 257
        one.stop("enough")
        async with asyncio.timeout(SECONDS):
            assert await running == Aborted("enough")

    asyncio.run(body())


def test_one_training_waits_for_another() -> None:
    """A straggler may be at the last round's when the next one begins; both use the same model."""
    second = threading.Event()
    together: list[bool] = []

    def train(asked: Train) -> F64:
        if asked.round == 1:
            second.set()
        else:
            together.append(second.wait(0.1))
        return np.zeros(2)

    def answer(event: Event[AnyMessage]) -> Effects:
        return (DONE,) if isinstance(event, Trained) and event.round == 1 else ()

    script = Script((Train(0, 0, PARAMS), Train(1, 0, PARAMS)), answer)
    assert play(lambda: shell(script, Line(), LocalWork(train=train))) == DONE
    assert together == [False]


def test_a_training_whose_round_is_over_before_it_begins_is_left_out() -> None:
    begun: list[tuple[int, int]] = []

    def train(asked: Train) -> F64:
        begun.append((asked.round, asked.work))
        return np.zeros(2)

    def answer(event: Event[AnyMessage]) -> Effects:
        return (DONE,) if isinstance(event, Trained) and event.round == 2 else ()

    script = Script(tuple(Train(round_, 0, PARAMS) for round_ in range(3)), answer)
    assert play(lambda: shell(script, Line(), LocalWork(train=train))) == DONE
    assert begun == [(0, 0), (2, 0)]


def test_results_and_hints_reach_the_machine() -> None:
    line = Line()
    left = {"trained", "evaluated", "consulted", "no gradient", "gone"}

    def answer(event: Event[AnyMessage]) -> Effects:
        match event:
            case Trained(round=2, work=1, update=update, failure=""):
                assert update is not None
                assert update.tolist() == [1.0, 1.0]
                left.discard("trained")
            case Evaluated(round=3, accuracy=0.25, loss=2.0, backdoor_success=0.75):
                left.discard("evaluated")
            case Consulted(round=4, gradients=(one, two), failure=""):
                assert (one.tolist(), two.tolist()) == ([0.0, 0.0], [2.0, 2.0])
                left.discard("consulted")
            case Consulted(round=5, gradients=None, failure="not finite"):
                left.discard("no gradient")
            case PresenceHint(party="p01"):
                left.discard("gone")
        return () if left else (DONE,)

    def consult(round_: int, params: F32, asked: tuple[int, ...]) -> tuple[F64, ...]:
        if round_ == 5:
            raise GradientNotFiniteError("not finite")
        return tuple(params.astype(np.float64) + r for r in asked)

    work = LocalWork(
        train=lambda asked: asked.params.astype(np.float64) + 1,
        evaluate=lambda _p: Evaluation(0.25, 2.0, 0.75),
        consult=consult,
    )
    asks = (Train(2, 1, PARAMS), Evaluate(3, PARAMS), Consult(4, PARAMS, (0, 2)), Consult(5, PARAMS, (0,)))

    def one() -> Shell[int]:
        line.waiting.put_nowait(ArrivedFrame(topics.status(RUN, PartyId("p01")), b"gone"))
        line.waiting.put_nowait(ArrivedFrame(f"sfl/1/{RUN}/status/NOBODY", b"gone"))
        return shell(Script(asks, answer), line, work)

    assert play(one) == DONE


def saying(name: PartyId, process: int = 0) -> Iterator[bytes]:
    """What one process of this name says on each of its connections, frame by frame."""
    root = InsecureSeededEntropy(1)
    identity = Identity.generate(name, root.child(name))
    outbox = Outbox(RUN, identity, root.child("outbox", name, process))
    for connection in itertools.count(1):
        yield from outbox.frames(SERVER, Place(-1), Here(connection=connection, kept=True))


def test_nobody_but_a_party_itself_can_say_that_it_is_here() -> None:
    """Unsigned, signed by another, said before, said by an earlier process: nothing of it is heard."""
    p00, p01 = party_names(3)[:2]
    earlier, own, other = saying(p01), saying(p01, process=1), saying(p00)
    topic = topics.status(RUN, p01)
    heard = next(own)
    frames = [b"here", next(earlier), heard, heard, next(earlier), next(other), next(own)]
    line, witness = Line(), Recorder()
    script = Script((), lambda event: (DONE,) if len(script.events) == 4 else ())
    for frame in frames:
        line.waiting.put_nowait(ArrivedFrame(topic, frame))
    assert play(lambda: shell(script, line, witness=witness)) == DONE
    assert [(event.sender, event.message) for event in script.events if isinstance(event, Received)] == [
        (p01, Here(connection=1, kept=True)),
        (p01, Here(connection=1, kept=True)),
        (p00, Here(connection=1, kept=True)),
        (p01, Here(connection=2, kept=True)),
    ], "the earlier process until the present one is heard, what another says as its own"
    unsigned, replayed = witness.refusals
    assert unsigned[0] == p01
    assert replayed == ("broker", "repeats a message of an earlier session of p01")


def test_what_becomes_of_the_connection_reaches_the_machine() -> None:
    line, told, loops = Line(), list[Event[AnyMessage]](), list[asyncio.AbstractEventLoop]()

    def tell(*links: Link) -> None:
        # Steps run in threads, and transports do not.
        for link in links:
            loops[0].call_soon_threadsafe(line.told, link)

    def answer(event: Event[AnyMessage]) -> Effects:
        told.append(event)
        match len(told):
            case 1:
                tell(Link(up=True, kept=True))
            case 2:
                tell(Link(up=False), Link(up=True, kept=False))
            case 4:
                return (DONE,)
            case _:
                pass
        return ()

    def one() -> Shell[int]:
        made = shell(Script((HELLO,), answer), line)
        loops.append(asyncio.get_running_loop())
        loops[0].call_soon(lambda: line.told(Link(up=False)))
        return made

    async def started() -> Finished | Aborted:
        async with asyncio.timeout(SECONDS):
            return await one().run()

    assert asyncio.run(started()) == DONE
    assert [type(event) for event in told] == [Offline, Online, Offline, Online]
    assert [(e.connection, e.kept) for e in told if isinstance(e, Online)] == [(2, True), (3, False)]


def test_parts_of_a_message_tell_the_machine_that_their_sender_is_there() -> None:
    p01 = party_names(3)[1]
    identity = Identity.generate(p01, InsecureSeededEntropy(1).child(p01))
    outbox = Outbox(RUN, identity, InsecureSeededEntropy(2), MIN_FRAME)
    first, again, *_, last = [*outbox.frames(SERVER, Place(0, 0, 0), MaskedInput(vector=bytes(9_000)))]
    line = Line()
    script = Script((), lambda event: (DONE,) if isinstance(event, Received) else ())
    for frame in (first, first, again, last):
        line.waiting.put_nowait(ArrivedFrame(topics.up(RUN, p01), frame))
    assert play(lambda: shell(script, line)) == DONE
    assert [type(event) for event in script.events] == [Heard, Heard, Received]


def test_no_deadline_passes_before_the_machine_knows_that_the_broker_is_lost() -> None:
    line = Line()

    def answer(event: Event[AnyMessage]) -> Effects:
        match event:
            case Offline():
                asyncio.run_coroutine_threadsafe(back(), loop[0])
                return (WakeAt(None),)
            case Online():
                return (WakeAt(0.0),)
            case _:
                return (DONE,)

    loop: list[asyncio.AbstractEventLoop] = []

    async def back() -> None:
        line.told(Link(up=True, kept=True))

    script = Script((WakeAt(0.0),), answer)

    async def started() -> Finished | Aborted:
        loop.append(asyncio.get_running_loop())
        made = shell(script, line)
        running = asyncio.create_task(made.run())
        loop[0].call_soon(line_lost)
        async with asyncio.timeout(SECONDS):
            return await running

    def line_lost() -> None:
        line.told(Link(up=False))

    assert asyncio.run(started()) == DONE
    assert [type(event) for event in script.events] == [Offline, Online, DeadlinePassed]


def of_round(number: int, to: PartyId) -> Send[AnyMessage]:
    return Send(to, Place(number), RollCall())


@pytest.mark.parametrize(("kept", "cheap"), [(True, 8 * 2**20), (False, 0), (True, 0)])
def test_who_was_away_gets_the_frames_of_the_round_once_more(
    kept: bool, cheap: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its own and everybody's, on its own topic, byte for byte, and nothing of rounds before."""
    monkeypatch.setattr(publisher, "CHEAP", cheap)
    p00, p01 = party_names(3)[:2]
    line = Line()
    old, first, second = of_round(3, p00), of_round(4, p00), of_round(4, p01)
    everybody = of_round(4, EVERYONE)
    identity = Identity.generate(p00, InsecureSeededEntropy(1).child(p00))
    heres = Outbox(RUN, identity, InsecureSeededEntropy(2))

    def one() -> Shell[int]:
        for connection in (1, 2):
            here = Here(connection=connection, kept=kept)
            for frame in heres.frames(SERVER, Place(-1), here):
                line.waiting.put_nowait(ArrivedFrame(topics.status(RUN, p00), frame))
        line.waiting.put_nowait(ArrivedFrame(topics.status(RUN, p01), b"gone"))
        script = Script(
            (old, first, second, everybody), lambda e: (DONE,) if isinstance(e, PresenceHint) else ()
        )
        return shell(script, line)

    assert play(one) == DONE
    sent, again = line.out[:4], line.out[4:]
    expected = [ArrivedFrame(topics.down(RUN, p00), frame.payload) for frame in (sent[1], sent[3])]
    assert again == ([] if kept and not cheap else expected)


@pytest.mark.parametrize(("kept", "cheap"), [(False, 8 * 2**20), (True, 8 * 2**20), (False, 0)])
def test_who_says_nothing_of_a_broker_that_forgot_gets_the_round_twice_more(
    kept: bool, cheap: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may be beyond a bridge that came back after us. Who was away itself has got it already."""
    monkeypatch.setattr(publisher, "BEYOND", (0.0, 0.0))
    monkeypatch.setattr(publisher, "CHEAP", cheap)
    p00, p01 = party_names(3)[:2]
    line = Line()

    async def body() -> None:
        one = shell(Script(()), line)._publisher
        for send in (of_round(3, p01), of_round(4, p00), of_round(4, p01), of_round(4, EVERYONE)):
            await one.send(send, 0.0)
        one.note_link(Link(up=False))
        one.note_link(Link(up=True, kept=kept))
        await one.again(p00, kept=True)
        if one._repeating is not None:
            await one._repeating
        await one.drain()

    asyncio.run(body())
    _, own, others, everybodys = line.out[:4]
    asked = [own, everybodys._replace(topic=own.topic)] if cheap else []
    assert line.out[4:] == [*asked, *([others, everybodys] * 2 if cheap and not kept else [])]


class Mute(Line):
    """A broker that keeps the connection and acknowledges nothing after so many frames."""

    def __init__(self, takes: int = 0) -> None:
        super().__init__()
        self.takes = takes

    async def publish(self, topic: str, payload: bytes, *, retain: bool = False) -> None:
        if len(self.out) >= self.takes:
            await asyncio.Event().wait()
        await super().publish(topic, payload, retain=retain)


def hurry(monkeypatch: pytest.MonkeyPatch, end: float = 0.1) -> None:
    monkeypatch.setattr(shell_module, "END_SECONDS", end)
    monkeypatch.setattr(shell_module, "FAREWELL_SECONDS", 0.1)
    monkeypatch.setattr(publisher.Publisher.drain, "__defaults__", (0.1,))


@pytest.mark.parametrize(("frames", "asks"), [(40, False), (3, True)], ids=["full-window", "model"])
def test_a_broker_that_acknowledges_nothing_is_given_up(
    frames: int, asks: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The machine would never know: neither its deadlines nor the end of its sending would come."""
    monkeypatch.setattr(publisher, "STALLED_SECONDS", 0.1)
    hurry(monkeypatch)
    sends: Effects = tuple(of_round(4, party_names(3)[0]) for _ in range(frames))
    script = Script((*sends, AwaitSent(4, 0)) if asks else sends)
    with pytest.raises(RunAbortedError, match=r"the broker acknowledged no message for 0\.1 s"):
        play(lambda: shell(script, Mute(takes=2)))


@pytest.mark.parametrize(("frames", "asks"), [(40, False), (3, True)], ids=["full-window", "model"])
def test_a_broker_that_is_away_for_longer_is_not_given_up_for_it(
    frames: int, asks: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The transport has its own patience; what waits leaves when the broker is back."""
    monkeypatch.setattr(publisher, "STALLED_SECONDS", 0.05)
    hurry(monkeypatch)
    p00 = party_names(3)[0]
    sends: Effects = tuple(of_round(4, p00) for _ in range(frames))

    class Away(Line):
        def __init__(self) -> None:
            super().__init__()
            self.back = asyncio.Event()

        async def publish(self, topic: str, payload: bytes, *, retain: bool = False) -> None:
            await self.back.wait()
            await super().publish(topic, payload, retain=retain)

    def answer(event: Event[AnyMessage]) -> Effects:
        return (DONE,) if isinstance(event, AllSent if asks else Online) else ()

    async def started() -> int:
        line = Away()
        made = shell(Script((*sends, AwaitSent(4, 0)) if asks else sends, answer), line)
        running = asyncio.create_task(made.run())
        await asyncio.sleep(0)
        line.told(Link(up=False))
        # Several times as long as a broker may stall that is there.
        await asyncio.sleep(0.3)
        line.told(Link(up=True, kept=True))
        line.back.set()
        async with asyncio.timeout(SECONDS):
            assert await running == DONE
        return len(line.out)

    assert asyncio.run(started()) == frames


def test_who_is_asked_to_end_does_not_wait_for_a_broker_that_takes_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    hurry(monkeypatch, end=SECONDS)
    script = Script(tuple(of_round(4, party_names(3)[0]) for _ in range(200)))

    async def started() -> Finished | Aborted:
        made = shell(script, Mute(), farewell=goodbye)
        running = asyncio.create_task(made.run())
        await asyncio.sleep(0.1)
        made.stop("stopped")
        async with asyncio.timeout(SECONDS):
            return await running

    assert asyncio.run(started()) == Aborted("stopped")


def test_whoever_says_that_it_was_away_again_and_again_is_sent_a_round_so_often_only() -> None:
    """A short message would be answered with a model each time, and nothing else would leave."""
    p00, p01 = party_names(3)[:2]
    line = Line()
    identity = Identity.generate(p00, InsecureSeededEntropy(1).child(p00))
    heres = Outbox(RUN, identity, InsecureSeededEntropy(2))

    def one() -> Shell[int]:
        for connection in range(2, 2 + 3 * publisher.REPEATS):
            for frame in heres.frames(SERVER, Place(-1), Here(connection=connection, kept=False)):
                line.waiting.put_nowait(ArrivedFrame(topics.status(RUN, p00), frame))
        line.waiting.put_nowait(ArrivedFrame(topics.status(RUN, p01), b"gone"))
        line.waiting.put_nowait(ArrivedFrame(topics.status(RUN, p01), b"gone"))
        steps: Iterator[Effects] = iter([(of_round(5, p00),), (DONE,)])
        return shell(
            Script((of_round(4, p00),), lambda e: next(steps) if isinstance(e, PresenceHint) else ()), line
        )

    assert play(one) == DONE
    first, *again, last = line.out
    assert again == [first] * publisher.REPEATS
    assert last != first


@pytest.mark.parametrize(("kept", "cheap"), [(False, 0), (True, 8 * 2**20), (True, 0)])
def test_what_the_broker_may_have_lost_are_the_frames_of_the_round_in_their_order(
    kept: bool, cheap: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(publisher, "CHEAP", cheap)
    p00, p01 = party_names(3)[:2]
    line = Line()
    script = Script(
        (of_round(3, p00), of_round(4, p01), of_round(4, p00)),
        lambda event: (DONE,) if isinstance(event, PresenceHint) else (),
    )

    async def started() -> list[LostFrame]:
        made = shell(script, line)
        running = asyncio.create_task(made.run())
        while len(line.out) < 3:
            await asyncio.sleep(0)
        lost = list(line.lost(kept))
        line.waiting.put_nowait(ArrivedFrame(topics.status(RUN, PartyId("p01")), b"gone"))
        async with asyncio.timeout(SECONDS):
            assert await running == DONE
        return lost

    lost = asyncio.run(started())
    assert lost == ([] if kept and not cheap else [LostFrame(*frame) for frame in line.out[1:3]])


def test_a_refused_message_is_heard_again_when_it_is_sent_again_and_an_accepted_one_is_not() -> None:
    p00 = party_names(3)[0]
    (early, other) = itertools.islice(saying(p00), 2)
    line, witness = Line(), Recorder()

    def answer(_event: Event[AnyMessage]) -> Effects:
        match len(script.events):
            case 1:
                return (Reject(p00, "too early"),)
            case 3:
                return (DONE,)
            case _:
                return ()

    script = Script((), answer)
    for frame in (early, early, early, early, other):
        line.waiting.put_nowait(ArrivedFrame(topics.status(RUN, p00), frame))
    assert play(lambda: shell(script, line, witness=witness)) == DONE
    heard = [event.message for event in script.events if isinstance(event, Received)]
    assert heard == [Here(connection=number, kept=True) for number in (1, 1, 2)]


class Still(Script):
    """Its first messages change nothing, the one after them something, the last ones are refused."""

    def step(self, phase: int, event: Event[AnyMessage]) -> tuple[int, Effects]:
        _, effects = super().step(phase, event)
        return phase + (len(self.events) > 2), effects


def test_messages_that_are_refused_or_change_nothing_are_told_from_others() -> None:
    p00 = party_names(3)[0]
    heres = Outbox(RUN, Identity.generate(p00, InsecureSeededEntropy(1).child(p00)), InsecureSeededEntropy(2))
    line, witness = Line(), Recorder()
    script = Still((), lambda _e: (Reject(p00, "no", b"why"), DONE) if len(script.events) == 4 else ())

    def one() -> Shell[int]:
        for _ in range(4):
            for frame in heres.frames(SERVER, Place(-1), Here(connection=1, kept=False)):
                line.waiting.put_nowait(ArrivedFrame(topics.status(RUN, p00), frame))
        return shell(script, line, witness=witness)

    assert play(one) == DONE
    assert witness.idle == [True, True, False, True]
    assert witness.evidence == [b"why"]


def test_the_server_does_not_take_its_own_word_for_anothers() -> None:
    line, witness, script = Line(), Recorder(), Script((), lambda _event: (DONE,))
    for payload in (b"gone", b"anything"):
        line.waiting.put_nowait(ArrivedFrame(topics.status(RUN, SERVER), payload))
    line.waiting.put_nowait(ArrivedFrame(topics.status(RUN, PartyId("p01")), b"gone"))
    assert play(lambda: shell(script, line, witness=witness)) == DONE
    (event,) = script.events
    assert isinstance(event, PresenceHint)
    assert witness.refusals == []


class Slow(Line):
    """A broker that takes its time."""

    def __init__(self) -> None:
        super().__init__()
        self.there = asyncio.Event()

    async def publish(self, topic: str, payload: bytes, *, retain: bool = False) -> None:
        await self.there.wait()
        await super().publish(topic, payload, retain=retain)


END: Send[AnyMessage] = Send(EVERYONE, Place(-1), Goodbye(reason="over", aborted=False))


def test_the_end_of_a_run_is_retained_and_nothing_else_is() -> None:
    line = Line()
    to_one: Send[AnyMessage] = Send(PartyId("p00"), Place(-1), Goodbye(reason="not you", aborted=True))
    assert play(lambda: shell(Script((HELLO, to_one, END, DONE)), line)) == DONE
    assert line.retained == [topics.down(RUN, EVERYONE)]
    farewell = shell_that_breaks(line := Line())
    with pytest.raises(RunAbortedError, match="disk full"):
        play(farewell)
    assert line.retained == [topics.down(RUN, EVERYONE)]


def shell_that_breaks(line: Line) -> Callable[[], Shell[int]]:
    class Full(Recorder):
        def report(self, now: float, item: object) -> None:
            raise RunAbortedError("disk full")

    return lambda: shell(Script((Report("x"),)), line, witness=Full(), farewell=lambda _reason: (END,))


def test_while_the_end_leaves_the_machine_still_answers() -> None:
    """Whoever joins too late, for instance. Anything but messages is over."""

    def answer(_event: Event[AnyMessage]) -> Effects:
        return (HELLO, Report("too late"), DONE)

    line, witness = Slow(), Recorder()
    script = Script((END, DONE), answer)

    async def body() -> Finished | Aborted:
        running = asyncio.create_task(shell(script, line, witness=witness).run())
        while not hasattr(line, "told"):
            await asyncio.sleep(0)
        line.told(Link(up=False))
        while not script.events:
            await asyncio.sleep(0)
        line.there.set()
        return await running

    assert asyncio.run(body()) == DONE
    assert [frame.topic for frame in line.out] == [
        topics.down(RUN, EVERYONE),
        topics.down(RUN, PartyId("p00")),
    ]
    assert witness.facts == []


def test_frames_that_are_there_as_a_deadline_passes_come_before_it() -> None:
    """A slow process has its inputs: its own backlog costs nobody a round. Later frames come after it."""
    line, order = Line(), list[str]()
    wait: Effects = (WakeAt(0.0),)

    def answer(event: Event[AnyMessage]) -> Effects:
        order.append(type(event).__name__)
        return (DONE,) if isinstance(event, DeadlinePassed) else ()

    one = shell(Script(wait, answer), line)
    for party in ("p00", "p01", "p02"):
        one._events.put_nowait(PresenceHint(0.0, PartyId(party)))
    assert asyncio.run(asyncio.wait_for(one.run(), SECONDS)) == DONE
    assert order == ["PresenceHint"] * 3 + ["DeadlinePassed"]
