"""Collection of messages at the server, for every kind of sum: adverts first, inputs and receipts last.

::

    CollectingKeys -> (steps of the kind) -> CollectingInputs        (-> Lost, from each)

``on_*`` raise ``PeerError`` for a message that is not due. Inputs are uniform: no update is visible here.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Protocol, TypeVar

from securefl.base import text
from securefl.base.errors import PeerError
from securefl.base.ids import PartyId
from securefl.protocol import messages
from securefl.protocol.secure_sum import evidence
from securefl.protocol.secure_sum.adverts import check_advert
from securefl.protocol.secure_sum.removal import VectorStore
from securefl.protocol.secure_sum.setup import Setup, key_list_digest


class ServerPhase(Protocol):
    """One attempt of one sum at the server, of any kind."""

    @property
    def setup(self) -> Setup:
        """Setup of the attempt."""
        ...

    @property
    def missing(self) -> frozenset[PartyId]:
        """Members whose answer the step still lacks."""
        ...


@dataclass(frozen=True, slots=True)
class CollectingKeys:
    """Phase that waits for the members' adverts."""

    setup: Setup
    adverts: Mapping[int, messages.KeyAdvert] = field(default_factory=dict)
    frames: Mapping[int, bytes] = field(default_factory=dict, repr=False)

    @property
    def missing(self) -> frozenset[PartyId]:
        """Members without an advert."""
        return frozenset(m for i, m in enumerate(self.setup.members) if i not in self.adverts)


@dataclass(frozen=True, slots=True)
class CollectingInputs:
    """Phase that waits for inputs and receipts of the sharing members."""

    setup: Setup
    adverts: Mapping[int, messages.KeyAdvert]
    key_list: bytes
    lists_digest: bytes
    sharers: frozenset[int]
    """Members that share masks or shares."""
    inputs: Mapping[int, int] = field(default_factory=dict)
    """Handles in the vector store."""
    receipts: Mapping[int, bytes] = field(default_factory=dict, repr=False)
    frames: Mapping[int, bytes] = field(default_factory=dict, repr=False)
    """Kept if sums are verified."""
    digests: Mapping[int, bytes] = field(default_factory=dict, repr=False)
    """From receipt or input, whichever came first."""

    @property
    def answered(self) -> frozenset[int]:
        """Members whose input and receipt have arrived."""
        return frozenset(self.inputs.keys() & self.receipts.keys())

    @property
    def missing(self) -> frozenset[PartyId]:
        """Members that have not submitted."""
        return self.names(self.sharers - self.answered)

    @property
    def submitted(self) -> frozenset[PartyId]:
        """Members of the sum if it were frozen now."""
        return self.names(self.answered)

    @property
    def counted(self) -> frozenset[int]:
        """Members that the sum can hold at most."""
        return self.sharers

    @property
    def unfinished(self) -> str:
        """Reason why the sum is lost at its deadline, or ""."""
        return ""

    @property
    def final(self) -> str:
        """Reason why no further attempt may follow, or ""."""
        return ""

    def alive(self, survivors: Collection[PartyId]) -> tuple[int, ...]:
        """Return the members in the sum, ascending."""
        return tuple(i for i in sorted(self.sharers) if self.setup.members[i] in survivors)

    def holders(self, survivors: Collection[PartyId]) -> tuple[int, ...]:
        """Return the releasing members, ascending."""
        return self.alive(survivors)

    def releases_needed(self, survivors: Collection[PartyId]) -> int:
        """Return how many holders must release."""
        return self.setup.releases_needed(len(self.alive(survivors)))

    def summed_members(self, survivors: Collection[PartyId]) -> tuple[int, ...]:
        """Return the added members, ascending."""
        return self.alive(survivors)

    def vectors(self, store: VectorStore) -> evidence.Vectors:
        """Return a function that looks up a member's vector."""
        return lambda index: store.get(self.inputs[index])

    def fixed_sum(self, survivors: Collection[PartyId]) -> evidence.FixedSum:
        """Return the instance as fixed before it opens."""
        return evidence.FixedSum(self.setup, self.adverts, self.key_list, self.sharers, self.alive(survivors))

    def commitment(self, survivors: Collection[PartyId]) -> bytes:
        """Return the commitment to the sum."""
        inputs = {i: self.digests[i] for i in self.summed_members(survivors)}
        return evidence.commitment_of(self.setup, self.lists_digest, inputs)

    def names(self, numbers: Collection[int]) -> frozenset[PartyId]:
        """Return the members with these numbers."""
        return frozenset(self.setup.members[i] for i in numbers)


@dataclass(frozen=True, slots=True)
class Lost:
    """Instance that will not be opened in this round."""

    setup: Setup
    reason: str

    @property
    def missing(self) -> frozenset[PartyId]:
        """Always empty."""
        return frozenset()


InputsT = TypeVar("InputsT", bound=CollectingInputs)


def on_advert(
    phase: CollectingKeys, sender: PartyId, advert: messages.KeyAdvert, signed: bytes
) -> CollectingKeys:
    """Add one advert.

    Raises:
        PeerError: a reused or bad key, or an advert sent in chunks.
    """
    index = phase.setup.index(sender)
    if index in phase.adverts:
        raise PeerError(sender, f"sends its key twice in {phase.setup.describe()}")
    known = {key for other in phase.adverts.values() for key in (other.mask_key, other.box_key)}
    if advert.mask_key == advert.box_key or {advert.mask_key, advert.box_key} & known:
        raise PeerError(sender, f"reuses a key in {phase.setup.describe()}")
    check_advert(phase.setup, sender, advert)
    if not signed:
        raise PeerError(sender, "sends its key in several messages")
    return replace(phase, adverts={**phase.adverts, index: advert}, frames={**phase.frames, index: signed})


def end_key_step(
    phase: CollectingKeys,
) -> tuple[dict[int, messages.KeyAdvert], bytes, messages.KeyList] | Lost:
    """End the key step: return the adverts by number, ascending, the list's digest, and the list."""
    if len(phase.adverts) < phase.setup.min_survivors:
        return Lost(phase.setup, f"only {text.count(len(phase.adverts), 'member')} advertised keys")
    adverts = {index: phase.adverts[index] for index in sorted(phase.adverts)}
    key_list = messages.KeyList(adverts=tuple(phase.frames[index] for index in adverts))
    return adverts, key_list_digest(dict(phase.frames)), key_list


def on_input(phase: InputsT, sender: PartyId, message: messages.MaskedInput, store: VectorStore) -> InputsT:
    """Add one masked input, kept in ``store``.

    Raises:
        PeerError: a wrong length, or another vector than in the receipt.
    """
    setup, index = phase.setup, phase.setup.index(sender)
    if index not in phase.sharers or index in phase.inputs:
        raise PeerError(sender, f"sends a masked input at the wrong time in {setup.describe()}")
    expected = setup.length * setup.ring_bits // 8
    if len(message.vector) != expected:
        raise PeerError(sender, f"masked input of {len(message.vector)} bytes, expected {expected}")
    digests = _with_stated_digest(
        phase, sender, evidence.input_digest(setup, index, message.vector) if setup.verified else b""
    )
    return replace(phase, inputs={**phase.inputs, index: store.put(message.vector)}, digests=digests)


def on_receipt(phase: InputsT, sender: PartyId, message: messages.Receipt, signed: bytes) -> InputsT:
    """Add the receipt of a masked input.

    Raises:
        PeerError: made under other lists than this server relayed, or for another vector.
    """
    setup, index = phase.setup, phase.setup.index(sender)
    if index not in phase.sharers or index in phase.receipts or not signed:
        raise PeerError(sender, f"sends a receipt at the wrong time in {setup.describe()}")
    if message.lists_digest != phase.lists_digest:
        raise PeerError(sender, f"used other lists for its mask in {setup.describe()}")
    digests = _with_stated_digest(phase, sender, evidence.stated_input(message))
    return replace(phase, receipts={**phase.receipts, index: signed}, digests=digests)


def _with_stated_digest(phase: CollectingInputs, sender: PartyId, stated: bytes) -> Mapping[int, bytes]:
    """Return the digests with the sender's, on which receipt and vector must agree.

    A mismatch could prevent verification of the sum.
    """
    setup, index = phase.setup, phase.setup.index(sender)
    if bool(stated) != setup.verified or phase.digests.get(index, stated) != stated:
        raise PeerError(sender, f"states another masked input than it sent in {setup.describe()}")
    return {**phase.digests, index: stated} if stated else phase.digests


def retry(phase: ServerPhase, excluded: frozenset[PartyId], max_attempts: int) -> CollectingKeys | Lost:
    """Start the next attempt without ``excluded`` (accused and accuser); before the freeze only."""
    setup = phase.setup
    members = tuple(m for m in setup.members if m not in excluded)
    attempt = setup.instance.attempt + 1
    if attempt >= max_attempts:
        return Lost(setup, f"failed in each of {max_attempts} attempts")
    if len(members) < setup.min_survivors:
        return Lost(setup, f"a retry would leave {len(members)} members")
    return CollectingKeys(replace(setup, instance=setup.instance._replace(attempt=attempt), members=members))
