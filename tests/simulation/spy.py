"""What really happened inside honest parties, and what a server can compute from all it was given.

``spying()`` records secrets where the machines draw and use them. :class:`Grasp` then plays a server that
pools every released share with everything its colluders know: it subtracts every mask that it can derive and
looks for groups of masked inputs in which the others cancel. The result is exact: a group that is not found
is masked by at least one key that the server cannot derive.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from unittest.mock import patch

import numpy as np

from securefl.base.arrays import I64, Ring
from securefl.base.crypto.prg import Sign, add_masks
from securefl.base.crypto.shamir import combine
from securefl.base.entropy import Entropy
from securefl.base.ids import Instance, PartyId
from securefl.methods.encoding.ring import from_ring, from_wire, to_ring
from securefl.protocol.messages.masking import KeyAdvert, MaskedInput, Receipt, SharePair
from securefl.protocol.messages.rounds import InstanceShares
from securefl.protocol.secure_sum.masking import client, kind
from securefl.protocol.secure_sum.setup import Setup


@dataclass(frozen=True)
class MaskedAs:
    """One masked input with its true content."""

    setup: Setup
    partners: tuple[PartyId, ...]
    terms: tuple[tuple[bytes, Sign], ...]
    """The self mask, then one per partner."""
    held: dict[PartyId, SharePair]
    encoded: Ring
    masked: Ring


@dataclass
class Spy:
    """Everything that honest code drew and let go of."""

    advertised: dict[tuple[Instance, PartyId], client.Advertised] = field(default_factory=dict)
    masked: dict[tuple[Instance, PartyId], MaskedAs] = field(default_factory=dict)
    released: list[tuple[Setup, PartyId, InstanceShares]] = field(default_factory=list)

    def advertise(self, setup: Setup, me: PartyId, entropy: Entropy) -> tuple[client.Advertised, KeyAdvert]:
        phase, advert = client.advertise(setup, me, entropy)
        self.advertised[setup.instance, me] = phase
        return phase, advert

    def mask(
        self, phase: client.Ready, encoded: Ring, without: int = 0
    ) -> tuple[client.Submitted, MaskedInput, Receipt]:
        result = client.mask(phase, encoded, without)
        setup, members = phase.setup, phase.setup.members
        self.masked[setup.instance, members[phase.me]] = MaskedAs(
            setup,
            tuple(members[i] for i in sorted(phase.held) if i != phase.me),
            phase.terms,
            {members[i]: pair for i, pair in phase.held.items()},
            encoded.copy(),
            from_wire(result[1].vector, setup.length, setup.ring_bits, "spy"),
        )
        return result

    def shares_for(self, phase: client.Submitted, survivors: Collection[PartyId]) -> InstanceShares:
        shares = client.shares_for(phase, survivors)
        self.released.append((phase.setup, phase.setup.members[phase.me], shares))
        return shares


@contextmanager
def spying() -> Iterator[Spy]:
    """Record inside the machines that run within the block."""
    spy = Spy()
    with (
        patch.object(kind, "advertise", spy.advertise),
        patch.object(kind, "mask", spy.mask),
        patch.object(kind, "shares_for", spy.shares_for),
    ):
        yield spy


@dataclass(frozen=True)
class Group:
    """Masked inputs that open together, and to what."""

    instance: Instance
    members: frozenset[PartyId]
    opened: Ring


class Grasp:
    """All that a server can open with ``colluders``' help (every masked input is assumed to have arrived)."""

    def __init__(self, spy: Spy, colluders: Collection[PartyId] = ()) -> None:
        self._spy = spy
        self._colluders = frozenset(colluders)
        self.seeds: dict[tuple[Instance, PartyId], dict[int, bytes]] = defaultdict(dict)
        self.keys: dict[tuple[Instance, PartyId], dict[int, bytes]] = defaultdict(dict)
        """By instance and owner: share by holder's number, as in the server's hands."""
        for setup, holder, release in spy.released:
            index = setup.index(holder)
            for owner, share in release.seed_shares:
                self.seeds[setup.instance, setup.members[owner]][index] = share
            for owner, share in release.key_shares:
                self.keys[setup.instance, setup.members[owner]][index] = share
        for (instance, name), known in spy.masked.items():
            if name in self._colluders:
                for sharer, pair in known.held.items():
                    self.seeds[instance, sharer][known.setup.index(name)] = pair.seed_share
                    self.keys[instance, sharer][known.setup.index(name)] = pair.key_share

    def groups(self) -> list[Group]:
        """The smallest groups of masked inputs that open; each opened sum is verified against the truth."""
        found: list[Group] = []
        for instance in sorted({instance for instance, _ in self._spy.masked}):
            found += self._groups_of(instance)
        return found

    def alone(self) -> set[PartyId]:
        """Honest parties whose single update follows from the groups of a round (a linear system)."""
        exposed: set[PartyId] = set()
        groups = self.groups()
        for round_ in {g.instance.round for g in groups}:
            rows = [g.members - self._colluders for g in groups if g.instance.round == round_]
            names = sorted(frozenset().union(*rows))
            matrix = np.array([[float(n in row) for n in names] for row in rows])
            if not names:
                continue
            rank = np.linalg.matrix_rank(matrix)
            for column, name in enumerate(names):
                unit = np.eye(len(names))[column]
                if np.linalg.matrix_rank(np.vstack([matrix, unit])) == rank:
                    exposed.add(name)
        return exposed

    def recovered(self, party: PartyId) -> I64 | None:
        """Its update in steps, from the sums of a round and nothing else; None where they do not give it."""
        for round_ in {instance.round for instance, name in self._spy.masked if name == party}:
            groups = [group for group in self.groups() if group.instance.round == round_]
            if not groups:
                continue
            rows = [sorted(group.members - self._colluders) for group in groups]
            names = sorted({name for row in rows for name in row} | {party})
            matrix = np.array([[float(name in row) for name in names] for row in rows])
            unit = np.eye(len(names))[names.index(party)]
            factors = np.linalg.lstsq(matrix.T, unit, rcond=None)[0]
            if np.abs(matrix.T @ factors - unit).max() > 1e-9:
                continue
            found = factors @ np.array([self._honest_part(group) for group in groups])
            steps: I64 = np.rint(found).astype(np.int64)
            return steps
        return None

    def _honest_part(self, group: Group) -> I64:
        known = [self._spy.masked[group.instance, name].encoded for name in group.members & self._colluders]
        total: I64 = from_ring(group.opened) - sum((from_ring(one) for one in known), np.int64(0))
        return total

    def both_kinds(self) -> set[tuple[Instance, PartyId]]:
        """Members of whom shares of seed *and* key left honest hands."""
        seeds, keys = set(), set()
        for setup, holder, release in self._spy.released:
            if holder not in self._colluders:
                seeds |= {(setup.instance, setup.members[o]) for o, _ in release.seed_shares}
                keys |= {(setup.instance, setup.members[o]) for o, _ in release.key_shares}
        return seeds & keys

    def _recovered(
        self, shares: dict[tuple[Instance, PartyId], dict[int, bytes]], key: tuple[Instance, PartyId]
    ) -> bytes | None:
        known = self._spy.advertised.get(key)
        held = shares.get(key, {})
        if known is None or len(held) < known.setup.threshold:
            return None
        return combine({holder + 1: share for holder, share in held.items()}, known.setup.threshold)

    def _knows_seed(self, instance: Instance, name: PartyId) -> bool:
        if name in self._colluders:
            return True
        seed = self._recovered(self.seeds, (instance, name))
        return seed is not None and seed == self._spy.advertised[instance, name].seed

    def _knows_key(self, instance: Instance, name: PartyId) -> bool:
        if name in self._colluders:
            return True
        key = self._recovered(self.keys, (instance, name))
        return key is not None and key == self._spy.advertised[instance, name].mask.private

    def _groups_of(self, instance: Instance) -> list[Group]:
        here = {name: m for (i, name), m in self._spy.masked.items() if i == instance}
        secret: dict[PartyId, dict[bytes, int]] = {}
        for name, m in here.items():
            unknown: dict[bytes, int] = {}
            (self_key, own), *pairwise = m.terms
            if not self._knows_seed(instance, name):
                unknown[self_key] = own
            for partner, (key, sign) in zip(m.partners, pairwise, strict=True):
                if not (self._knows_key(instance, name) or self._knows_key(instance, partner)):
                    unknown[key] = sign
            secret[name] = unknown
        groups = []
        for members in _components(secret):
            left: dict[bytes, int] = defaultdict(int)
            for name in members:
                for key, summand in secret[name].items():
                    left[key] += summand
            if not any(left.values()):
                groups.append(Group(instance, members, self._open(here, members, secret)))
        return groups

    @staticmethod
    def _open(
        here: dict[PartyId, MaskedAs], members: frozenset[PartyId], secret: dict[PartyId, dict[bytes, int]]
    ) -> Ring:
        setup = here[next(iter(members))].setup
        total = to_ring(np.zeros(setup.length, dtype=np.int64), setup.ring_bits)
        truth = total.copy()
        for name in sorted(members):
            np.add(total, here[name].masked, out=total)
            np.add(truth, here[name].encoded, out=truth)
            known = [(k, s) for k, s in here[name].terms if k not in secret[name]]
            for key, sign in known:
                add_masks(total, [(key, 1 if sign == -1 else -1)])
        np.testing.assert_array_equal(total, truth)
        return total


def _components(secret: dict[PartyId, dict[bytes, int]]) -> list[frozenset[PartyId]]:
    """Members connected by masks that the server does not know."""
    owners: dict[bytes, set[PartyId]] = defaultdict(set)
    for name, keys in secret.items():
        for key in keys:
            owners[key].add(name)
    left, components = set(secret), []
    while left:
        reached, frontier = set(), {min(left)}
        while frontier:
            name = frontier.pop()
            reached.add(name)
            for key in secret[name]:
                frontier |= owners[key] - reached
        components.append(frozenset(reached))
        left -= reached
    return components
