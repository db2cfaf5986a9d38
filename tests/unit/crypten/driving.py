"""Driving all members of a computation to their results, in one process."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

import numpy as np

from securefl.base.arrays import U64
from securefl.base.entropy import InsecureSeededEntropy
from securefl.base.ids import PartyId
from securefl.protocol.secure_sum.crypten.communicator import Incoming
from securefl.protocol.secure_sum.crypten.session import Done, Failed, Session
from securefl.protocol.secure_sum.crypten.world import World
from securefl.protocol.secure_sum.validated.check import check_zeros
from securefl.protocol.secure_sum.validated.dealing import Request, Tuples, deal

CONTEXT = b"c" * 32
ResultT = TypeVar("ResultT")
Spy = Callable[[int, bytes], bytes]


def shared(values: Sequence[int], members: int, seed: int) -> U64:
    """Additive shares of integers modulo 2^64, u64 ``(members, n)``."""
    generator = np.random.default_rng(seed)
    shares = generator.integers(0, 2**64 - 1, (members, len(values)), np.uint64, endpoint=True)
    shares[0] -= shares.sum(0, dtype=np.uint64) - np.array([v % 2**64 for v in values], np.uint64)
    return shares


def worlds(members: int, requests: Sequence[Request], seed: int) -> list[tuple[World, Tuples]]:
    """Everybody's world and dealt tuples, for one computation."""
    root = InsecureSeededEntropy(seed)
    deals = deal(CONTEXT, members, requests, root)
    names, everybody = [PartyId(f"p{rank}") for rank in range(members)], tuple(range(members))
    made = []
    for rank in everybody:
        keys = {o: root.child("pair", *sorted((rank, o))).draw(32) for o in everybody if o != rank}
        world = World(names, rank, check_zeros(keys, everybody, rank))
        made.append((world, Tuples(deals[rank], rank, CONTEXT, requests, "dealer")))
    return made


def drive(
    made: Sequence[Session[ResultT]], spy: Spy = lambda _sender, payload: payload
) -> tuple[list[ResultT], int]:
    """Run all to their results; also how many times they waited for each other."""
    inboxes: list[list[Incoming]] = [[] for _ in made]
    results: dict[int, ResultT] = {}
    for turn in range(200):
        waiting, inboxes = inboxes, [[] for _ in made]
        for rank, session in enumerate(made):
            if rank in results:
                continue
            progress = session.resume(waiting[rank])
            if isinstance(progress, Failed):
                raise progress.error
            for out in progress.outbound:
                inboxes[out.to].append(Incoming(rank, out.number, spy(rank, out.payload)))
            if isinstance(progress, Done):
                results[rank] = progress.result
        if len(results) == len(made):
            return [results[rank] for rank in range(len(made))], turn
    raise AssertionError("the computation does not end")
