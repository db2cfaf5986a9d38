"""Drivers of secure sums for the contract suite: one cluster, all members and the server in one process.

A further kind joins by a class with ``run`` (see :class:`SecureSum`) and an entry in ``KINDS``.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Literal, Protocol

import numpy as np

from securefl.base.arrays import Ring
from securefl.base.crypto import prg
from securefl.base.crypto.agreement import derive_key
from securefl.base.crypto.identity import Identity
from securefl.base.crypto.roster import Roster
from securefl.base.entropy import InsecureSeededEntropy
from securefl.base.ids import SERVER, Instance, PartyId, RunId
from securefl.protocol.messages.masking import BoxList, KeyAdvert, KeyList, MaskedInput, Receipt, ShareBoxes
from securefl.protocol.messages.rounds import InstanceShares
from securefl.protocol.messages.union import AnyMessage, SumToMember, SumToServer
from securefl.protocol.secure_sum import collecting, port
from securefl.protocol.secure_sum.crypten import member
from securefl.protocol.secure_sum.crypten import server as crypten
from securefl.protocol.secure_sum.crypten.kind import SharesServer
from securefl.protocol.secure_sum.crypten.peers import CryptenEngine
from securefl.protocol.secure_sum.masking import client, opening, server
from securefl.protocol.secure_sum.masking.kind import Masking
from securefl.protocol.secure_sum.plain.kind import PlainSums
from securefl.protocol.secure_sum.removal import MemoryStore, Removable
from securefl.protocol.secure_sum.setup import Setup
from securefl.protocol.wire.outbox import Outbox

RUN = RunId("contract")
NAMES = tuple(PartyId(f"p{i:02d}") for i in range(12))

Step = Literal["keys", "shares", "input", "receipt", "release"]
STEPS: tuple[Step, ...] = ("keys", "shares", "input", "receipt", "release")


@dataclass(frozen=True)
class Case:
    """One secure sum: parameters, and who falls silent from which step on."""

    members: int
    threshold: int
    min_survivors: int
    ring_bits: int = 32
    length: int = 4
    silent: Mapping[PartyId, Step] = field(default_factory=dict)
    removable: bool = False
    """Whether members add noise that is taken out again as far as dropouts do not need it."""

    @property
    def names(self) -> tuple[PartyId, ...]:
        """The members."""
        return NAMES[: self.members]

    def alive(self, step: Step) -> list[PartyId]:
        """Members that still take part in ``step``."""
        last = STEPS.index(step)
        return [n for n in self.names if n not in self.silent or STEPS.index(self.silent[n]) > last]


@dataclass(frozen=True)
class Outcome:
    """What the server has in the end: ``ring`` is None when nothing was opened."""

    ring: Ring | None
    survivors: tuple[PartyId, ...]


def removable_noise(case: Case) -> Removable:
    """Noise of uniform words, another for every component."""

    def expand(number: int, key: bytes) -> Ring:
        stream = derive_key(key, "test noise", str(number).encode())
        return prg.expand(stream, case.length, np.uint32 if case.ring_bits == 32 else np.uint64)

    return Removable(case.members, case.members - case.min_survivors, expand)


class SecureSum(Protocol):
    """A kind of secure sum, run to its end."""

    fewest: int
    """Members that such a sum has at least."""

    def needed(self, case: Case, submitted: int) -> int:
        """How many releases open a sum of so many."""
        ...

    def run(self, case: Case, inputs: Mapping[PartyId, Ring], seed: int = 1) -> Outcome:
        """Sum ``inputs`` of the members that stay."""
        ...


@lru_cache(maxsize=1)
def identities() -> dict[PartyId, Identity]:
    """Identities of all members and the server."""
    root = InsecureSeededEntropy(99)
    return {n: Identity.generate(n, root.child("identity", n)) for n in (*NAMES, SERVER)}


@lru_cache(maxsize=1)
def roster() -> Roster:
    """The roster of all identities."""
    known = identities()
    return Roster(known[SERVER].public, {n: known[n].public for n in NAMES})


class MaskingCluster:
    """Pairwise masking, one attempt after the other, with every step open to the tests."""

    def __init__(self, case: Case, seed: int = 1, attempt: int = 0) -> None:
        self.case = case
        self.setup = Setup(
            instance=Instance(RUN, 0, 0, 0, attempt),
            members=case.names,
            threshold=case.threshold,
            min_survivors=case.min_survivors,
            binding=b"b" * 32,
            length=case.length,
            ring_bits=case.ring_bits,
            removable=removable_noise(case) if case.removable else None,
        )
        self.entropy = InsecureSeededEntropy(seed)
        self.store = MemoryStore()
        self.phases: dict[PartyId, client.MemberPhase] = {}
        self.adverts: dict[PartyId, KeyAdvert] = {}
        self.server: server.InstancePhase = collecting.CollectingKeys(self.setup)
        self.complaints: list[tuple[PartyId, str]] = []

    def restart(self, state: collecting.CollectingKeys) -> None:
        """Begin the attempt that the server's ``retry`` asks for."""
        self.setup, self.server, self.phases, self.adverts = state.setup, state, {}, {}

    def signed(self, sender: PartyId, message: AnyMessage) -> bytes:
        """``message`` as ``sender`` signs it for the server."""
        outbox = Outbox(RUN, identities()[sender], self.entropy.child("session", sender))
        (frame,) = outbox.frames(SERVER, self.setup.place, message)
        return frame

    def of(self, name: PartyId) -> InsecureSeededEntropy:
        """The entropy of one member in this attempt."""
        return self.entropy.child(name, self.setup.instance.attempt)

    def keys(self, names: Collection[PartyId]) -> KeyList | None:
        """Adverts of ``names``, and the list that the server makes of them."""
        for name in names:
            phase, advert = client.advertise(self.setup, name, self.of(name))
            self.phases[name], self.adverts[name] = phase, advert
            assert isinstance(self.server, collecting.CollectingKeys)
            self.server = collecting.on_advert(self.server, name, advert, self.signed(name, advert))
        assert isinstance(self.server, collecting.CollectingKeys)
        self.server, key_list = server.close_keys(self.server)
        return key_list

    def shares(
        self,
        key_list: KeyList,
        names: Collection[PartyId],
        tamper: Callable[[PartyId, ShareBoxes], ShareBoxes] = lambda _name, boxes: boxes,
    ) -> dict[PartyId, BoxList]:
        """Boxes of ``names``, and the lists that the server makes of them."""
        for name in names:
            phase = self.phases[name]
            assert isinstance(phase, client.Advertised)
            self.phases[name], boxes = client.on_key_list(phase, key_list, roster(), self.of(name))
            assert isinstance(self.server, server.CollectingBoxes)
            self.server = server.on_boxes(self.server, name, tamper(name, boxes))
        assert isinstance(self.server, server.CollectingBoxes)
        self.server, lists = server.close_boxes(self.server)
        return lists

    def unpack(self, lists: Mapping[PartyId, BoxList]) -> None:
        """Every member opens its boxes, or complains."""
        for name, box_list in lists.items():
            phase = self.phases[name]
            assert isinstance(phase, client.Boxed)
            try:
                self.phases[name] = client.on_box_list(phase, box_list)
            except client.BadBoxError as error:
                self.complaints.append((name, error.culprit))

    def submit(self, name: PartyId, encoded: Ring, receipt: bool = True) -> tuple[MaskedInput, Receipt]:
        """One member's masked input (and receipt)."""
        phase = self.phases[name]
        assert isinstance(phase, client.Ready)
        self.phases[name], masked, note = client.mask(phase, encoded)
        assert isinstance(self.server, server.MaskedInputs)
        self.server = collecting.on_input(self.server, name, masked, self.store)
        if receipt:
            self.server = collecting.on_receipt(self.server, name, note, self.signed(name, note))
        return masked, note

    @property
    def inputs(self) -> server.MaskedInputs:
        """The server's state before the freeze."""
        assert isinstance(self.server, server.MaskedInputs)
        return self.server

    def release(self, name: PartyId, survivors: frozenset[PartyId]) -> InstanceShares:
        """What one member lets go of."""
        phase = self.phases[name]
        assert isinstance(phase, client.Submitted)
        return client.shares_for(phase, survivors)

    def open(self, survivors: frozenset[PartyId], releases: Mapping[PartyId, InstanceShares]) -> Ring:
        """Check all releases and open."""
        for name, release in releases.items():
            opening.check_release(self.inputs, survivors, name, release)
        return Masking().server.open(self.inputs, survivors, releases, self.store)


class MaskingSum:
    """The pairwise-mask secure sum."""

    fewest = 1

    def needed(self, case: Case, submitted: int) -> int:
        """See :class:`SecureSum`."""
        return case.threshold

    def run(self, case: Case, inputs: Mapping[PartyId, Ring], seed: int = 1) -> Outcome:
        """See :class:`SecureSum`."""
        cluster = MaskingCluster(case, seed)
        key_list = cluster.keys(case.alive("keys"))
        if key_list is None:
            return Outcome(None, ())
        cluster.unpack(cluster.shares(key_list, case.alive("shares")))
        if isinstance(cluster.server, collecting.Lost):
            return Outcome(None, ())
        for name in case.alive("input"):
            cluster.submit(name, inputs[name], receipt=name in case.alive("receipt"))
        survivors = cluster.inputs.submitted
        if len(survivors) < case.min_survivors:
            return Outcome(None, ())
        releases = {n: cluster.release(n, survivors) for n in case.alive("release") if n in survivors}
        if len(releases) < case.threshold:
            return Outcome(None, tuple(sorted(survivors)))
        return Outcome(cluster.open(survivors, releases), tuple(sorted(survivors)))


CryptenPhase = collecting.CollectingKeys | crypten.BlindedShares | collecting.Lost


class CryptenCluster:
    """A CrypTen sum, one attempt after the other."""

    def __init__(self, case: Case, seed: int = 1) -> None:
        self.case = case
        self.setup = Setup(
            instance=Instance(RUN, 0, 0, 0, 0),
            members=case.names,
            threshold=case.threshold,
            min_survivors=case.min_survivors,
            binding=b"b" * 32,
            length=case.length,
            ring_bits=case.ring_bits,
            removable=removable_noise(case) if case.removable else None,
            everyone=True,
        )
        self.entropy = InsecureSeededEntropy(seed)
        self.store = MemoryStore()
        wanted = os.environ.get("SECUREFL_DEVICE", "auto")  # a GPU if there is one
        self.engine = CryptenEngine("cuda" if wanted == "cuda" else "auto" if wanted == "auto" else "cpu")
        self.phases: dict[PartyId, member.MemberPhase] = {}
        self.server: CryptenPhase = collecting.CollectingKeys(self.setup)

    def signed(self, sender: PartyId, message: AnyMessage) -> bytes:
        """``message`` as ``sender`` signs it for the server."""
        outbox = Outbox(RUN, identities()[sender], self.entropy.child("session", sender))
        (frame,) = outbox.frames(SERVER, self.setup.place, message)
        return frame

    def of(self, name: PartyId) -> InsecureSeededEntropy:
        """The entropy of one member in this attempt."""
        return self.entropy.child(name, self.setup.instance.attempt)

    def keys(self, names: Collection[PartyId]) -> bool:
        """Adverts of ``names``, and what each makes of the list; False when the server gives up."""
        for name in names:
            self.phases[name], advert = member.advertise(self.setup, name, self.of(name))
            assert isinstance(self.server, collecting.CollectingKeys)
            self.server = collecting.on_advert(self.server, name, advert, self.signed(name, advert))
        assert isinstance(self.server, collecting.CollectingKeys)
        self.server, key_list = crypten.close_keys(self.server)
        if key_list is None:
            return False
        for name in names:
            phase = self.phases[name]
            assert isinstance(phase, member.Advertised)
            self.phases[name] = member.on_key_list(phase, key_list, roster())
        return True

    def submit(
        self, inputs: Mapping[PartyId, Ring], names: Collection[PartyId], receipts: Collection[PartyId]
    ) -> None:
        """Blinded shares of ``names``, and receipts."""
        for name in names:
            phase = self.phases[name]
            assert isinstance(phase, member.Listed)
            self.phases[name], (masked, note) = member.submit(phase, inputs[name], self.engine)
            self.server = collecting.on_input(self.inputs, name, masked, self.store)
            if name in receipts:
                self.server = collecting.on_receipt(self.inputs, name, note, self.signed(name, note))

    @property
    def inputs(self) -> crypten.BlindedShares:
        """The server's state before the freeze."""
        assert isinstance(self.server, crypten.BlindedShares)
        return self.server

    def start_over(self) -> bool:
        """Begin another attempt with those who have submitted; False when the server gives up."""
        missing = frozenset(self.setup.members) - self.inputs.submitted
        self.server = collecting.retry(self.inputs, missing, max_attempts=8)
        self.setup, self.phases = self.server.setup, {}
        return isinstance(self.server, collecting.CollectingKeys)

    def open(self, names: Collection[PartyId]) -> Ring:
        """Release by ``names``, and the sum."""
        releases = {}
        for name in names:
            phase = self.phases[name]
            assert isinstance(phase, member.Submitted)
            releases[name] = member.seed_for(phase, self.inputs.submitted)
            crypten.check_seed(self.inputs, name, releases[name])
        return SharesServer().open(self.inputs, self.inputs.submitted, releases, self.store)


class CryptenSum:
    """The CrypTen secure sum."""

    fewest = 2

    def needed(self, case: Case, submitted: int) -> int:
        """See :class:`SecureSum`."""
        return submitted

    def run(self, case: Case, inputs: Mapping[PartyId, Ring], seed: int = 1) -> Outcome:
        """See :class:`SecureSum`."""
        cluster = CryptenCluster(case, seed)
        if not cluster.keys(case.alive("keys")):
            return Outcome(None, ())
        cluster.submit(inputs, case.alive("input"), case.alive("receipt"))
        if len(cluster.inputs.submitted) < len(cluster.inputs.sharers):
            # Whoever is missing now is not there in the next attempt.
            if not cluster.start_over():
                return Outcome(None, ())
            remaining = case.alive("receipt")
            # Of those who only waited for the missing, some may be gone as well.
            if not cluster.keys(remaining):
                return Outcome(None, ())
            cluster.submit(inputs, remaining, remaining)
        survivors = cluster.inputs.submitted
        if not survivors <= set(case.alive("release")):
            return Outcome(None, tuple(sorted(survivors)))
        return Outcome(cluster.open(survivors), tuple(sorted(survivors)))


SAID_IN: dict[type, Step] = {
    KeyAdvert: "keys",
    ShareBoxes: "shares",
    MaskedInput: "input",
    Receipt: "receipt",
}
"""The step from which on a silent member says no such message."""


class PortSum:
    """A kind as the machines drive it: through the port, without starting over."""

    fewest = 1

    def __init__(self, sums: port.SecureSum) -> None:
        self.sums = sums

    def needed(self, case: Case, submitted: int) -> int:
        """See :class:`SecureSum`."""
        return case.threshold

    def run(self, case: Case, inputs: Mapping[PartyId, Ring], seed: int = 1) -> Outcome:
        """See :class:`SecureSum`."""
        setup, members, server = MaskingCluster(case, seed).setup, self.sums.member, self.sums.server
        root, store, phases = InsecureSeededEntropy(seed), MemoryStore(), dict[PartyId, port.MemberPhase]()
        phase: collecting.ServerPhase = collecting.CollectingKeys(setup)

        def say(sender: PartyId, *said: AnyMessage) -> None:
            nonlocal phase
            for message in said:
                assert isinstance(message, SumToServer)
                if sender in case.alive(SAID_IN[type(message)]):
                    outbox = Outbox(RUN, identities()[sender], root.child("session", sender))
                    (signed,) = outbox.frames(SERVER, setup.place, message)
                    phase = server.receive(phase, sender, message, signed, store).phase

        for name in case.names:
            phases[name], advert = members.advertise(
                setup, name, dict.fromkeys(case.names, 1.0), root.child(name)
            )
            say(name, advert)
        while not isinstance(phase, collecting.CollectingInputs | collecting.Lost):
            closed = server.close(phase, 1)
            phase = closed.phase
            for name, message in closed.outgoing:
                assert isinstance(message, SumToMember)
                step = members.receive(phases[name], message, roster(), root.child(name))
                phases[name] = step.phase
                say(name, *step.outgoing)
        if isinstance(phase, collecting.Lost):
            return Outcome(None, ())
        for name in sorted(phase.names(phase.sharers)):
            sent = members.submit(phases[name], inputs[name], root.child(name), 0)
            assert sent is not None
            phases[name] = sent.phase
            say(name, *sent.outgoing)
        assert isinstance(phase, collecting.CollectingInputs)
        return self._opened(case, phase, phases, store)

    def _opened(
        self,
        case: Case,
        phase: collecting.CollectingInputs,
        phases: Mapping[PartyId, port.MemberPhase],
        store: MemoryStore,
    ) -> Outcome:
        survivors, releases = phase.submitted, dict[PartyId, port.Opening]()
        if len(survivors) < case.min_survivors:
            return Outcome(None, ())
        for name in case.alive("release"):
            left = self.sums.member.input_sent(phases[name])
            if name in survivors and left is not None:
                releases[name] = self.sums.member.release(left, survivors)
                self.sums.server.check_release(phase, survivors, name, releases[name])
        if len(releases) < phase.releases_needed(survivors):
            return Outcome(None, tuple(sorted(survivors)))
        ring = self.sums.server.open(phase, survivors, releases, store)
        return Outcome(ring, tuple(sorted(survivors)))


KINDS: dict[str, SecureSum] = {
    "masking": MaskingSum(),
    "crypten": CryptenSum(),
    "masking behind the port": PortSum(Masking()),
    "plain": PortSum(PlainSums()),
}
