"""One secure sum in one process, through the wire's code, with a meter at each end.

Stages per instance count (the freeze with its receipts, the sealed release), those once per round do not:
hello, nonces, certificate, ledger, model. The disk (journal, spool) is left out.

Stages of a member: ``keys`` (key pairs, shares, digests), ``key list`` (check adverts, seal boxes), ``box
list`` (open boxes, agree on masks), ``mask``, ``receipts`` (of the freeze), ``release``. Stages of the
server: ``adverts``, ``boxes``, ``inputs`` (and receipts), ``releases`` (open, check), ``open`` (rebuild
secrets, add, unmask). Both: ``sign`` (and encode, cut), ``verify`` (and reassemble, decode).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from securefl.base import crypto
from securefl.base.arrays import F64, Ring
from securefl.base.entropy import Entropy
from securefl.base.errors import UsageError
from securefl.base.ids import SERVER, Instance, PartyId, RunId
from securefl.lab.bench.meter import Meter
from securefl.methods import encoding
from securefl.protocol import kernel, messages, wire
from securefl.protocol.secure_sum import MemoryStore, Setup, collecting, masking

RUN = RunId("bench")
RING_BITS = 32
ENCODE = "encode"
"""Stage that is shown separately: it belongs to the update, not to the sum."""
_MessageT = TypeVar("_MessageT", bound=messages.Message)
_PLACE = kernel.Place(0, 0, 0, 0)
_CONTEXT = b"securefl bench release"


@dataclass(frozen=True, slots=True)
class Rehearsal:
    """Costs of one rehearsed secure sum."""

    members: tuple[Meter, ...]
    server: Meter


@dataclass(slots=True)
class _End:
    """One process: its meter and its ends of the wire."""

    name: PartyId
    identity: crypto.Identity
    outbox: wire.Outbox
    inbox: wire.Inbox
    meter: Meter

    def send(self, to: PartyId, message: messages.AnyMessage) -> list[bytes]:
        with self.meter.stage("sign"):
            frames = list(self.outbox.frames(to, _PLACE, message))
        self.meter.count_signed(frames)
        return frames

    def receive(self, frames: list[bytes]) -> wire.Delivery:
        delivery = None
        with self.meter.stage("verify"):
            for frame in frames:
                delivery = self.inbox.accept(frame, "broker", 0.0)
        for frame in frames:
            self.meter.count_verified(frame)
        if delivery is None:
            raise UsageError(
                "the benchmark received a part of a message instead of a whole one: a bug in securefl"
            )
        return delivery


class _Sum:
    def __init__(self, members: int, length: int, entropy: Entropy) -> None:
        names = tuple(PartyId(f"p{index:04d}") for index in range(members))
        identities = {name: crypto.Identity.generate(name, entropy.child("identity", name)) for name in names}
        identities[SERVER] = crypto.Identity.generate(SERVER, entropy.child("identity", SERVER))
        publics = {name: identity.public for name, identity in identities.items()}
        self.roster = crypto.Roster(publics.pop(SERVER), publics)
        limit = 8 * length + 2**22
        self.ends = {
            name: _End(
                name,
                identity,
                wire.Outbox(RUN, identity, entropy.child("outbox", name)),
                wire.Inbox(RUN, name, self.roster, max_message=limit),
                Meter(),
            )
            for name, identity in identities.items()
        }
        self.server = self.ends[SERVER]
        self.names = names
        self.entropy = entropy
        threshold = -(-2 * members // 3)
        instance = Instance(RUN, _PLACE.round, _PLACE.reclustering, _PLACE.cluster, _PLACE.attempt)
        self.setup = Setup(instance, names, threshold, threshold, bytes(32), length, RING_BITS)
        self.store = MemoryStore()

    def keys(self) -> tuple[dict[PartyId, masking.client.Boxed], masking.server.CollectingBoxes]:
        """Run the steps "keys" and the members' half of "shares"."""
        advertised: dict[PartyId, masking.client.Advertised] = {}
        phase = collecting.CollectingKeys(self.setup)
        for name in self.names:
            end = self.ends[name]
            with end.meter.stage("keys"):
                advertised[name], advert = masking.client.advertise(self.setup, name, self._entropy(name))
            delivery = self.server.receive(end.send(SERVER, advert))
            with self.server.meter.stage("adverts"):
                phase = collecting.on_advert(phase, name, _of(messages.KeyAdvert, delivery), delivery.signed)
        with self.server.meter.stage("adverts"):
            boxing, key_list = masking.server.close_keys(phase)
        boxed: dict[PartyId, masking.client.Boxed] = {}
        if not isinstance(boxing, masking.server.CollectingBoxes) or key_list is None:
            raise UsageError(
                "the server of the benchmark gave up the sum when it closed the key list: a bug in securefl"
            )
        for name in self.names:
            end = self.ends[name]
            received = _of(messages.KeyList, end.receive(self.server.send(name, key_list)))
            with end.meter.stage("key list"):
                boxed[name], boxes = masking.client.on_key_list(
                    advertised.pop(name), received, self.roster, self._entropy(name)
                )
            for index, frame in enumerate(received.adverts):
                if self.names[index] != name:
                    end.meter.count_relayed(frame)
            delivery = self.server.receive(end.send(SERVER, boxes))
            with self.server.meter.stage("boxes"):
                boxing = masking.server.on_boxes(boxing, name, _of(messages.ShareBoxes, delivery))
        return boxed, boxing

    def inputs(
        self,
        boxed: dict[PartyId, masking.client.Boxed],
        boxing: masking.server.CollectingBoxes,
        encoded: Ring,
        alive: tuple[PartyId, ...],
    ) -> tuple[dict[PartyId, masking.client.Submitted], masking.server.MaskedInputs]:
        """Send the box lists; collect masked inputs and receipts of ``alive``."""
        with self.server.meter.stage("boxes"):
            phase, lists = masking.server.close_boxes(boxing)
        if not isinstance(phase, masking.server.MaskedInputs):
            raise UsageError(
                "the server of the benchmark gave up the sum when it closed the share lists: a bug in"
                " securefl"
            )
        submitted: dict[PartyId, masking.client.Submitted] = {}
        for name in self.names:
            frames = self.server.send(name, lists[name])
            if name not in alive:
                continue
            end = self.ends[name]
            received = _of(messages.BoxList, end.receive(frames))
            with end.meter.stage("box list"):
                ready = masking.client.on_box_list(boxed.pop(name), received)
            with end.meter.stage("mask"):
                submitted[name], masked, receipt = masking.client.mask(ready, encoded)
            delivery = self.server.receive(end.send(SERVER, masked))
            with self.server.meter.stage("inputs"):
                phase = collecting.on_input(phase, name, _of(messages.MaskedInput, delivery), self.store)
            delivery = self.server.receive(end.send(SERVER, receipt))
            with self.server.meter.stage("inputs"):
                phase = collecting.on_receipt(phase, name, _of(messages.Receipt, delivery), delivery.signed)
        return submitted, phase

    def open(
        self, submitted: Mapping[PartyId, masking.client.Submitted], phase: masking.server.MaskedInputs
    ) -> Ring:
        """Freeze, exchange sealed releases, and open the sum."""
        survivors = phase.submitted
        releases: dict[PartyId, messages.InstanceShares] = {}
        for name, held in submitted.items():
            receipts = tuple(frame for i, frame in phase.receipts.items() if self.names[i] != name)
            freeze = messages.Freeze(survivors=tuple(sorted(survivors)), attempts=(), receipts=receipts)
            release = self._release(self.ends[name], held, self.server.send(name, freeze))
            delivery = self.server.receive(release)
            with self.server.meter.stage("releases"):
                sealed = _of(messages.Release, delivery).sealed
                opened = self.server.identity.open_sealed(sealed, _CONTEXT)
                shares = wire.decode_struct(messages.ReleasedShares, opened, name).instances[0]
                if not isinstance(shares, messages.InstanceShares):
                    raise UsageError(
                        "the benchmark of masking received shares of another kind of sum: a bug in securefl"
                    )
                masking.opening.check_release(phase, survivors, name, shares)
                releases[name] = shares
        with self.server.meter.stage("open"):
            return masking.Masking().server.open(phase, survivors, releases, self.store)

    def _release(self, end: _End, held: masking.client.Submitted, frames: list[bytes]) -> list[bytes]:
        freeze = _of(messages.Freeze, end.receive(frames))
        with end.meter.stage("receipts"):
            for frame in freeze.receipts:
                receipt = _of(messages.Receipt, wire.open_relayed(frame, self.roster, RUN, SERVER, SERVER))
                if receipt.lists_digest != held.lists_digest:
                    raise UsageError(
                        "the server of the benchmark sent its members different lists: a bug in securefl"
                    )
        for frame in freeze.receipts:
            end.meter.count_relayed(frame)
        with end.meter.stage("release"):
            shares = masking.client.shares_for(held, frozenset(PartyId(name) for name in freeze.survivors))
            plaintext = wire.encode(messages.ReleasedShares(instances=(shares,)))
            sealed = self.roster.server.seal(plaintext, _CONTEXT, self._entropy(end.name))
        return end.send(SERVER, messages.Release(sealed=sealed))

    def _entropy(self, name: PartyId) -> Entropy:
        return self.entropy.child("member", name)


def rehearse(members: int, length: int, dropped: int, entropy: Entropy) -> Rehearsal:
    """Run one secure sum of ``members``; the last ``dropped`` drop out after their shares.

    Raises:
        UsageError: the opened sum is wrong, or too few members are left.
    """
    # With the same survivors, the cache would already hold the Lagrange weights.
    crypto._weights_at_zero.cache_clear()
    run = _Sum(members, length, entropy)
    update: F64 = np.sin(np.arange(length, dtype=np.float64))
    meter = Meter()
    with meter.stage(ENCODE):
        encoded = encoding.to_ring(
            encoding.FixedPoint(16, 256.0).encode(update, entropy.child("rounding")).values, RING_BITS
        )
    alive = run.names[: members - dropped]
    submitted, phase = run.inputs(*run.keys(), encoded, alive)
    opened = run.open(submitted, phase)
    if not np.array_equal(opened, encoded * encoded.dtype.type(len(alive))):
        raise UsageError("the benchmark opened a wrong sum: a bug in securefl")
    meters = tuple(run.ends[name].meter for name in alive)
    for each in meters:
        each.seconds[ENCODE] = meter.seconds[ENCODE]
    return Rehearsal(meters, run.server.meter)


def _of(kind: type[_MessageT], delivery: wire.Delivery) -> _MessageT:
    if not isinstance(delivery.message, kind):
        raise UsageError(
            f"the benchmark expected a message {kind.__name__}, found"
            f" {type(delivery.message).__name__}: a bug in securefl"
        )
    return delivery.message
