"""CrypTen computations that take turns in one process: right results, own globals, no thread left behind."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

import numpy as np
import pytest

from securefl.base.entropy import InsecureSeededEntropy
from securefl.base.errors import PeerError, UsageError
from securefl.base.ids import PartyId
from securefl.protocol.secure_sum.crypten.communicator import MAX_AHEAD, Incoming, Mailbox
from securefl.protocol.secure_sum.crypten.library import Library, load
from securefl.protocol.secure_sum.crypten.session import Awaiting, Done, Failed, Session, reap
from securefl.protocol.secure_sum.crypten.world import World
from securefl.protocol.secure_sum.crypten.zeros import ZeroShares
from tests.crypten_threads import crypten_threads, end_abandoned

NAMES = tuple(PartyId(f"p{i}") for i in range(5))
ResultT = TypeVar("ResultT")


def pair_keys(me: int, size: int) -> dict[int, bytes]:
    """A key for each two members, the same at both."""
    root = InsecureSeededEntropy(7)
    return {o: root.child("pair", *sorted((me, o))).draw(32) for o in range(size) if o != me}


def world(rank: int, size: int, provider: Any = None) -> World:
    return World(NAMES[:size], rank, ZeroShares(rank, pair_keys(rank, size)), provider)


def _as(program: Callable[[Library, int], ResultT], rank: int, library: Library) -> ResultT:
    return program(library, rank)


def run(
    size: int,
    program: Callable[[Library, int], ResultT],
    provider: Any = None,
) -> list[ResultT]:
    """Drive all members to their results, in turns."""
    sessions = [Session(world(rank, size, provider), partial(_as, program, rank)) for rank in range(size)]
    inboxes: list[list[Incoming]] = [[] for _ in range(size)]
    results: dict[int, ResultT] = {}
    for _ in range(500):
        for rank in range(size):
            if rank in results:
                continue
            incoming, inboxes[rank] = inboxes[rank], []
            progress = sessions[rank].resume(incoming)
            assert not isinstance(progress, Failed)
            for out in progress.outbound:
                inboxes[out.to].append(Incoming(rank, out.number, out.payload))
            if isinstance(progress, Done):
                results[rank] = progress.result
        if len(results) == size:
            return [results[r] for r in range(size)]
    raise AssertionError("the computation does not end")


@pytest.fixture(autouse=True)
def _alone() -> None:
    end_abandoned()


@pytest.mark.parametrize("size", [2, 3, 5])
def test_each_member_learns_the_sum_of_all_inputs(size: int) -> None:
    top = 2**63 - 1

    def program(library: Library, rank: int) -> list[int]:
        shape = (3,)
        torch = library.torch
        own = torch.tensor([rank + 1, -(2**62), top], dtype=torch.long)
        shared = [
            library.arithmetic.from_shares(
                library.arithmetic.PRZS(shape).share + (own if o == rank else 0), precision=0
            )
            for o in range(size)
        ]
        total = shared[0]
        for one in shared[1:]:
            total = total + one
        return [int(v) for v in total.reveal()]

    expected = [size * (size + 1) // 2, -size * 2**62, size * top]
    wrapped = [(v + 2**63) % 2**64 - 2**63 for v in expected]
    assert run(size, program) == [wrapped] * size
    assert crypten_threads() == []


@pytest.mark.parametrize("size", [2, 3])
def test_binary_shares_and_every_collective(size: int) -> None:
    def program(library: Library, rank: int) -> list[Any]:
        torch, comm = library.torch, library.communicator.get()
        secret = torch.tensor([5, -1]) if rank == 1 else torch.zeros(2, dtype=torch.long)
        binary = library.binary(secret, src=1)
        gathered = comm.gather(torch.tensor([rank]), 0)
        spread = comm.scatter([torch.tensor([10 * r]) for r in range(size)], 0)
        comm.barrier()
        told = comm.broadcast(torch.tensor([rank + 40]), 1)
        everyone = comm.all_gather(torch.tensor([rank]))
        return [
            binary.reveal().tolist(),
            [t.item() for t in gathered] if rank == 0 else None,
            spread.item(),
            told.item(),
            [t.item() for t in everyone],
        ]

    results = run(size, program)
    ranks = list(range(size))
    for rank in ranks:
        assert results[rank] == [[5, -1], ranks if rank == 0 else None, 10 * rank, 41, ranks]


def test_sessions_keep_their_own_configuration_and_leave_none() -> None:
    library = load()
    before = (library.crypten.cfg.encoder.precision_bits, dict(library.crypten.generators))
    communicator = library.communicator.get

    def program(library: Library, rank: int) -> int:
        with library.crypten.cfg.temp_override({"encoder.precision_bits": 20 + rank}):
            library.communicator.get().barrier()
            assert library.communicator.get().get_rank() == rank
            return int(library.crypten.cfg.encoder.precision_bits)

    assert run(3, program) == [20, 21, 22]
    assert (library.crypten.cfg.encoder.precision_bits, dict(library.crypten.generators)) == before
    assert library.communicator.get is communicator


def waiting(rank: int = 0) -> Session[Any]:
    """A session that waits for a share of one word of everybody."""

    def program(library: Library) -> Any:
        with library.crypten.cfg.temp_override({"encoder.precision_bits": 3}):
            return library.communicator.get().all_reduce(library.torch.tensor([rank])).item()

    session = Session(world(rank, 3), program)
    assert isinstance(session.resume(), Awaiting)
    return session


def test_closing_ends_the_thread_and_touches_no_globals() -> None:
    session = waiting()
    assert len(crypten_threads()) == 1
    session.close()
    session.close()
    assert crypten_threads() == []
    assert session.finished
    assert load().crypten.cfg.encoder.precision_bits == 16
    with pytest.raises(UsageError, match="finished"):
        session.resume()


def test_a_session_that_was_never_started_closes() -> None:
    Session(world(0, 2), lambda _library: None).close()
    assert crypten_threads() == []


def test_forgotten_sessions_are_ended_at_the_next_turn() -> None:
    session = waiting()
    del session
    end_abandoned()
    assert crypten_threads() == []


def test_a_share_of_the_wrong_length_names_its_sender() -> None:
    progress = waiting().resume([Incoming(2, 0, b"12345678"), Incoming(1, 0, b"1234567")])
    assert isinstance(progress, Failed)
    assert progress.error.culprit == "p1"
    assert "7 bytes, expected 8" in progress.error.reason
    assert crypten_threads() == []


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        (Incoming(0, 0, b""), "not another member"),
        (Incoming(3, 0, b""), "not another member"),
        (Incoming(-1, 0, b""), "not another member"),
        (Incoming(1, MAX_AHEAD, b""), "too early, expected one below"),
        (Incoming(1, 3, b""), "again"),
        (Incoming(1, -1, b""), "again"),
    ],
)
def test_undeliverable_messages_change_nothing(message: Incoming, reason: str) -> None:
    session = waiting()
    session.resume([Incoming(1, 3, b"later")])
    with pytest.raises(PeerError, match=reason):
        session.resume([message])
    words = [np.array([n], dtype="<i8").tobytes() for n in (5, 7)]
    progress = session.resume([Incoming(2, 0, words[1]), Incoming(1, 0, words[0])])
    assert isinstance(progress, Done)
    assert progress.result == 12


def test_a_world_of_one_is_refused() -> None:
    with pytest.raises(UsageError, match="must be at least 2, found 1"):
        World(NAMES[:1], 0, ZeroShares(0, pair_keys(0, 2)))


@pytest.mark.parametrize("draw", ["rand", "triple", "object"])
def test_crypten_draws_nothing_itself(draw: str) -> None:
    def program(library: Library, rank: int) -> None:
        if draw == "rand":
            library.arithmetic.PRSS((2,))
        elif draw == "triple":
            library.mpc.get_default_provider().square((2,))
        else:
            library.communicator.get().broadcast_obj([1], 0)

    with pytest.raises(UsageError, match=r"own random generators|provider|unpickling"):
        run(2, program)
    reap()
    assert crypten_threads() == []


def test_a_bug_in_a_program_is_raised_where_it_was_resumed() -> None:
    def program(_library: Library) -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        Session(world(0, 2), program).resume()
    assert crypten_threads() == []


def test_messages_are_delivered_together_or_not_at_all() -> None:
    """One box may hold several; a bad one among them must not leave the others behind."""
    mailbox = Mailbox([PartyId("a"), PartyId("b")], 0)
    mailbox.deliver([Incoming(1, 0, b"0")])
    for bad in (Incoming(1, 0, b"again"), Incoming(1, 2, b"twice"), Incoming(1, MAX_AHEAD, b"early")):
        with pytest.raises(PeerError, match="b: sends message"):
            mailbox.deliver([Incoming(1, 1, b"1"), Incoming(1, 2, b"2"), bad])
    mailbox.deliver([Incoming(1, 1, b"1"), Incoming(1, 2, b"2")])
    assert [mailbox.take(1) for _ in range(4)] == [b"0", b"1", b"2", None]
