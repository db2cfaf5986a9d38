"""One evaluator that turns the public verdict into a bit of its choice about an honest update (ADR 0042).

It moves one projection p of the update, in its own share of the words that go into the comparison, so that
the range check passes exactly where p >= c. Everything else it does by the protocol, and nobody can tell.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np

from securefl.base.arrays import U64
from securefl.base.ids import PartyId
from securefl.methods.privacy.norm_check import NormTest, norm_test
from securefl.protocol.secure_sum.crypten.library import Library, load
from securefl.protocol.secure_sum.crypten.session import Session
from securefl.protocol.secure_sum.crypten.world import World
from securefl.protocol.secure_sum.crypten.zeros import ZeroShares
from securefl.protocol.secure_sum.validated.check import CryptenChecks, DealtProvider, check_session, within
from securefl.protocol.secure_sum.validated.dealing import Tuples, requests_of
from tests.contracts.test_validated_sum import LENGTH, TEST, updates
from tests.contracts.validated_sums import NAMES, ValidatedCluster
from tests.unit.crypten.driving import drive, shared, worlds

TRIALS = 30


def asking(
    world: World, projections: U64, test: NormTest, tuples: Tuples, which: int, least: int
) -> Session[bool]:
    """A check whose verdict on an honest update is whether projection ``which`` is at least ``least``."""

    def asked(library: Library) -> bool:
        def from_shares(tensor: Any, **more: Any) -> Any:
            if len(tensor) == test.projections + 1:
                tensor[which] -= (1 << test.range_bits) + least
            return library.arithmetic.from_shares(tensor, **more)

        moved = replace(library, arithmetic=SimpleNamespace(from_shares=from_shares))
        return within(moved, projections, test, world.rank)

    own = World(world.members, world.rank, world.zeros, DealtProvider(load(), tuples), world.device)
    return Session(own, asked)


def test_thirty_of_thirty_bits() -> None:
    """A projection of its choice against a bound of its choice; the honest evaluators take part unawares."""
    generator, test = np.random.default_rng(3), replace(norm_test(1000, 64, 1e-3), projections=8)
    right = asked = 0
    for trial in range(TRIALS):
        values = [round(value) for value in generator.normal(size=8) * 1000 / 3]
        which, least = int(generator.integers(8)), int(generator.integers(-300, 300))
        assert test.passes(values)
        shares, everybody = shared(values, 2, trial), worlds(2, requests_of(2, 8), trial)
        (one, dealt), (other, own) = everybody
        results, _ = drive(
            [
                check_session(one, shares[0], test, dealt),
                asking(other, shares[1], test, own, which, least),
            ]
        )
        assert results[0] == results[1]
        right += results[0] == (values[which] >= least)
        asked += values[which] >= least
    assert right == TRIALS
    assert 5 < asked < 25


class Asks:
    """The checks of one member; it asks about one owner, and keeps its shares of projections."""

    def __init__(self, owners: Sequence[PartyId], victim: PartyId | None = None) -> None:
        self._owners = owners
        self._victim = victim
        self.projections: dict[PartyId, U64] = {}

    def check(
        self,
        members: Sequence[PartyId],
        rank: int,
        zeros: ZeroShares,
        projections: U64,
        test: NormTest,
        tuples: Tuples,
    ) -> Session[bool]:
        (owner,) = set(self._owners) - set(members)
        self.projections[owner] = projections.copy()
        if owner != self._victim:
            return CryptenChecks().check(members, rank, zeros, projections, test, tuples)
        return asking(World(members, rank, zeros), projections, test, tuples, 0, 0)


def test_all_members_and_the_server_see_the_bit() -> None:
    """A cluster of real machines: p00 asks for the sign of p01's first projection; who is refused is told."""
    seen = set()
    for seed in range(4):
        cluster = ValidatedCluster(3, LENGTH, TEST, seed=seed)
        engines = {name: Asks(NAMES[:3], NAMES[1] if name == NAMES[0] else None) for name in NAMES[:3]}
        cluster.engines = engines
        cluster.finish(updates(3))
        parts = [engines[name].projections[NAMES[1]] for name in (NAMES[0], NAMES[2])]
        positive = int(np.add(*parts).view(np.int64)[0]) >= 0
        assert cluster.accepted == tuple(name for name in NAMES[:3] if positive or name != NAMES[1])
        assert cluster.accused == []
        seen.add(positive)
    assert seen == {True, False}
