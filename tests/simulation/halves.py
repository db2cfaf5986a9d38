"""One federation in two processes, perhaps of two versions of Python: server here, parties there.

Each process has the whole :class:`World`, made from the same case, and steps only the machines of its half.
Frames for the other half cross a pipe. One virtual clock orders both: this side asks the other when its next
event is due, and lets the earlier one take a step.

``python -m tests.simulation.halves`` is the other side.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any, Literal, Self

import msgspec

from securefl.base.ids import SERVER, PartyId
from securefl.protocol.round.shared.reports import (
    ClaimConfirmed,
    ClaimRefused,
    LinkFollowed,
    ModelFinal,
    RoundDone,
    RoundSkipped,
)
from tests.simulation.lying import distinct
from tests.simulation.world import MAX_STEPS, Revival, World, scenario

ROOT = Path(__file__).parents[2]
LENGTH = 16
Side = Literal["server", "parties"]


class Case(msgspec.Struct, frozen=True):
    """A federation: the arguments of :func:`scenario`."""

    parties: int
    settings: dict[str, str]

    def samples(self, party: PartyId) -> int:
        """Sample counts whose weights are no fractions of powers of two."""
        return 3 + 7 * int(party[1:])


class Frame(msgspec.Struct, frozen=True):
    """A frame on its way to the other half."""

    at: float
    to: str
    data: bytes


class Turn(msgspec.Struct, frozen=True):
    """A request to the other side: take the frames, and then a step if ``steps``."""

    frames: list[Frame] = []
    steps: bool = False
    ends: bool = False


class State(msgspec.Struct, frozen=True):
    """The answer: frames for this side, and when the next event is due there."""

    frames: list[Frame]
    due: float | None


class Start(msgspec.Struct, frozen=True):
    """The first request."""

    case: Case
    side: Side


class Results(msgspec.Struct, frozen=True):
    """Results of one half, as far as they can be compared."""

    python: tuple[int, ...]
    outcomes: dict[str, str]
    """Type of outcome by node."""
    rejects: list[tuple[str, str]]
    confirmed: list[int]
    void: list[tuple[int, str]]
    """Rounds whose step was not confirmed, or that had no clusters, and why."""
    opened: list[tuple[int, int]]
    """Rounds that are done, and the number of sums that opened in each."""
    models: dict[int, bytes]
    """The server's model of each round, as announced."""
    final: bytes
    links: dict[str, list[tuple[int, bytes]]]
    """Rounds and roots by party that follows them."""
    trained: dict[str, list[tuple[int, bytes]]]
    """Rounds and models by party that trains on them."""


class Half(World):
    """The machines of one side, or of both; frames for the other are in :attr:`crossing`."""

    def __init__(self, case: Case, side: Side | Literal["both"]) -> None:
        self.trained: dict[str, list[tuple[int, bytes]]] = {}
        self.crossing: list[Frame] = []
        self._side = side

        def train(party: PartyId, round_: int, params: Any) -> Any:
            self.trained.setdefault(party, []).append((round_, params.tobytes()))
            return distinct(party, round_, params)

        made = scenario(case.parties, **case.settings)
        super().__init__(made, length=LENGTH, train=train, samples=case.samples)

    def is_here(self, name: str) -> bool:
        """True if the node belongs to this half."""
        return self._side in {"both", "server" if name == SERVER else "parties"}

    def begin(self) -> None:
        """Start the machines of this half."""
        for node in self.nodes.values():
            if self.is_here(node.name):
                node.phase, effects = node.machine.start(self.now)
                self._perform(node, effects)

    def _schedule(self, delay: float, to: PartyId, event: Any) -> None:
        if isinstance(event, Revival) or self.is_here(to):
            super()._schedule(delay, to, event)
        else:
            self.crossing.append(Frame(self.now + delay, to, event))

    @property
    def due(self) -> float | None:
        """The time of the next event; None if there is none."""
        wakes = [node.wake for node in self.nodes.values() if node.alive and node.wake is not None]
        return min([*wakes, *(due.at for due in self._queue[:1])], default=None)

    def turn(self, asked: Turn) -> State:
        """Take the frames, and a step if there is to be one."""
        for frame in asked.frames:
            super()._schedule(frame.at - self.now, PartyId(frame.to), frame.data)
        if asked.steps:
            self._advance()
        crossing, self.crossing = self.crossing, []
        return State(crossing, self.due)

    def results(self) -> Results:
        """Results of this half's nodes."""
        here = {name: node for name, node in self.nodes.items() if self.is_here(name)}
        final = self.reports(ModelFinal)
        return Results(
            python=tuple(sys.version_info[:3]),
            outcomes={name: type(node.outcome).__name__ for name, node in here.items()},
            rejects=[(name, one.reason) for name, node in here.items() for one in node.rejects],
            confirmed=[one.round for one in self.reports(ClaimConfirmed)],
            void=[
                *((one.round, one.reason) for one in self.reports(ClaimRefused)),
                *((one.round, one.reason) for one in self.reports(RoundSkipped)),
            ],
            opened=[(one.round, len(one.opened)) for one in self.reports(RoundDone)],
            models={round_: model.tobytes() for round_, model in self.models.items()},
            final=final[-1].params.tobytes() if final else b"",
            links={
                name: [(one.round, one.root) for one in self.reports(LinkFollowed, name)]
                for name in here
                if name != SERVER
            },
            trained=self.trained,
        )


def _write(pipe: IO[bytes], message: msgspec.Struct) -> None:
    data = msgspec.msgpack.encode(message)
    pipe.write(len(data).to_bytes(4, "big") + data)
    pipe.flush()


def _read(pipe: IO[bytes]) -> bytes:
    length = int.from_bytes(pipe.read(4), "big")
    data = pipe.read(length)
    if len(data) != length or not length:
        raise EOFError("the other half has ended")
    return data


class Other:
    """The other side, in a process of its own."""

    def __init__(self, python: Path, case: Case, side: Side) -> None:
        """Start it with this interpreter."""
        command = [str(python), "-m", "tests.simulation.halves"]
        self._process = subprocess.Popen(
            command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        self.state = self._ask(Start(case, side))

    def _ask(self, message: msgspec.Struct) -> State:
        return msgspec.msgpack.decode(self._answer(message), type=State)

    def _answer(self, message: msgspec.Struct) -> bytes:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            _write(self._process.stdin, message)
            return _read(self._process.stdout)
        except (EOFError, BrokenPipeError) as error:
            assert self._process.stderr is not None
            raise AssertionError(self._process.stderr.read().decode()) from error

    def turn(self, frames: Sequence[Frame], *, steps: bool) -> list[Frame]:
        """Hand over frames, let it take a step if ``steps``, and return its frames for this side."""
        self.state = self._ask(Turn(list(frames), steps))
        return self.state.frames

    def results(self) -> Results:
        """End it."""
        return msgspec.msgpack.decode(self._answer(Turn(ends=True)), type=Results)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for pipe in (self._process.stdin, self._process.stdout, self._process.stderr):
            assert pipe is not None
            pipe.close()
        self._process.kill()
        self._process.wait()


def run_halves(case: Case, here: Side, python: Path) -> tuple[Results, Results]:
    """Run ``here`` in this process and the other side with ``python``; return the server's results first."""
    there: Side = "parties" if here == "server" else "server"
    half = Half(case, here)
    with Other(python, case, there) as other:
        half.begin()
        back = half.turn(Turn(other.state.frames))
        for _ in range(MAX_STEPS):
            if back.frames:
                back = half.turn(Turn(other.turn(back.frames, steps=False)))
                continue
            due = other.state.due
            if back.due is None and due is None:
                break
            if due is None or (back.due is not None and back.due <= due):
                back = half.turn(Turn(steps=True))
            else:
                back = half.turn(Turn(other.turn([], steps=True)))
        else:
            raise AssertionError("the run does not end: a hang")
        results = half.results(), other.results()
    return results if here == "server" else results[::-1]


def main() -> None:
    """Be the other side: answer on stdout what is asked on stdin."""
    pipe, answers = sys.stdin.buffer, sys.stdout.buffer
    start = msgspec.msgpack.decode(_read(pipe), type=Start)
    half = Half(start.case, start.side)
    half.begin()
    _write(answers, half.turn(Turn()))
    while True:
        asked = msgspec.msgpack.decode(_read(pipe), type=Turn)
        if asked.ends:
            _write(answers, half.results())
            return
        _write(answers, half.turn(asked))


if __name__ == "__main__":
    main()
