"""The server's half of the pairwise-mask secure sum, one attempt, up to the freeze.

::

    CollectingKeys -> CollectingBoxes -> CollectingInputs        (-> Lost, from each)

``on_*`` takes one member's message; ``close_*`` ends a step with whoever has answered. Nothing here learns an
update: masked inputs are uniform until :mod:`securefl.secure_sum.masking.opening` gets the released shares.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace

from securefl.config.wording import count
from securefl.crypto.merkle import merkle_root
from securefl.errors import PeerError
from securefl.ids import PartyId
from securefl.messages.masking import BoxList, KeyAdvert, KeyList, MaskedInput, Receipt, ShareBoxes
from securefl.secure_sum.adverts import check_advert
from securefl.secure_sum.setup import Setup, key_list_digest, share_leaf
from securefl.secure_sum.store import VectorStore


@dataclass(frozen=True, slots=True)
class CollectingKeys:
    """Waiting for the members' adverts."""

    setup: Setup
    adverts: Mapping[int, KeyAdvert] = field(default_factory=dict)
    frames: Mapping[int, bytes] = field(default_factory=dict, repr=False)


@dataclass(frozen=True, slots=True)
class CollectingBoxes:
    """The key list is out; waiting for the listed members' share boxes."""

    setup: Setup
    adverts: Mapping[int, KeyAdvert]
    key_list: bytes
    boxes: Mapping[int, ShareBoxes] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class CollectingInputs:
    """The box lists are out; waiting for masked inputs and receipts of the sharing members."""

    setup: Setup
    adverts: Mapping[int, KeyAdvert]
    key_list: bytes
    share_digests: Mapping[int, tuple[tuple[bytes, ...], ...]] = field(repr=False)
    """By owner (exactly the sharing members), by holder."""
    lists_digest: bytes
    """What each receipt must state."""
    inputs: Mapping[int, int] = field(default_factory=dict)
    """Member number to handle in the vector store."""
    receipts: Mapping[int, bytes] = field(default_factory=dict, repr=False)
    said: Mapping[int, int] = field(default_factory=dict)
    """Where members compute together: how many messages each has sent to others."""
    accepted: frozenset[int] | None = None
    """Whose updates passed validation and are in the sum; None where nothing is validated."""

    @property
    def stalled(self) -> frozenset[PartyId]:
        """Members that have not submitted, as it seems because they wait for one that has said less.

        Of those that have not submitted, the ones that have said least hold up the others. Where all have
        said as much, nobody can be told from the others.
        """
        waiting = self.sharers - (self.inputs.keys() & self.receipts.keys())
        return frozenset(self.setup.members[i] for i in waiting - least_said(waiting, self.said))

    @property
    def sharers(self) -> frozenset[int]:
        """Members between whom masks exist."""
        return frozenset(self.share_digests)

    @property
    def submitted(self) -> frozenset[PartyId]:
        """Members whose masked input and receipt are both here.

        Of a validated sum: those that are in it, once *all* members' inputs are here, as each holds a part of
        every update.
        """
        here = frozenset(self.inputs.keys() & self.receipts.keys())
        if self.accepted is not None:
            here = self.accepted if here == self.sharers else frozenset()
        return frozenset(self.setup.members[i] for i in here)


@dataclass(frozen=True, slots=True)
class Lost:
    """This instance will not be opened in this round."""

    setup: Setup
    reason: str


InstancePhase = CollectingKeys | CollectingBoxes | CollectingInputs | Lost


def least_said(waiting: Collection[int], said: Mapping[int, int]) -> frozenset[int]:
    """Of members that compute together and have not ended, those that hold up the others, as it seems."""
    least = min((said.get(i, 0) for i in waiting), default=0)
    return frozenset(i for i in waiting if said.get(i, 0) == least)


def on_advert(phase: CollectingKeys, sender: PartyId, advert: KeyAdvert, signed: bytes) -> CollectingKeys:
    """Take one advert.

    Raises:
        PeerError: not a member, a second advert, a key of low order, one that somebody else has, or another
            number of noise secrets than there are.
    """
    index = phase.setup.index(sender)
    if index in phase.adverts:
        raise PeerError(sender, f"advertises twice in {phase.setup.describe()}")
    known = {key for other in phase.adverts.values() for key in (other.mask_key, other.box_key)}
    if advert.mask_key == advert.box_key or {advert.mask_key, advert.box_key} & known:
        raise PeerError(sender, f"reuses a key in {phase.setup.describe()}")
    check_advert(phase.setup, sender, advert)
    if not signed:
        raise PeerError(sender, "key advert in several frames")
    return replace(phase, adverts={**phase.adverts, index: advert}, frames={**phase.frames, index: signed})


def close_keys(phase: CollectingKeys) -> tuple[CollectingBoxes | Lost, KeyList | None]:
    """End the key step; the list goes to the members that are on it."""
    if len(phase.adverts) < phase.setup.min_survivors:
        return Lost(phase.setup, f"only {count(len(phase.adverts), 'member')} advertised keys"), None
    key_list = key_list_digest(dict(phase.frames))
    adverts = {index: phase.adverts[index] for index in sorted(phase.adverts)}
    frames = tuple(phase.frames[index] for index in adverts)
    return CollectingBoxes(phase.setup, adverts, key_list), KeyList(adverts=frames)


def on_boxes(phase: CollectingBoxes, sender: PartyId, message: ShareBoxes) -> CollectingBoxes:
    """Take one member's boxes.

    Raises:
        PeerError: not listed, a second time, boxes for the wrong members, or digests that are not advertised.
    """
    setup, index = phase.setup, phase.setup.index(sender)
    if index not in phase.adverts or index in phase.boxes:
        raise PeerError(sender, f"sends boxes out of turn in {setup.describe()}")
    holders = [holder for holder, _ in message.boxes]
    if sorted(holders) != sorted(phase.adverts.keys() - {index}):
        raise PeerError(sender, f"has not sealed one box per listed member in {setup.describe()}")
    kinds = 2 + setup.components
    leaves = [share_leaf(*each) for each in message.share_digests if len(each) == kinds]
    if len(leaves) != len(setup.members) or merkle_root(leaves) != phase.adverts[index].shares_root:
        raise PeerError(sender, f"share digests are not the advertised ones in {setup.describe()}")
    return replace(phase, boxes={**phase.boxes, index: message})


def close_boxes(phase: CollectingBoxes) -> tuple[CollectingInputs | Lost, dict[PartyId, BoxList]]:
    """End the share step; every member that sealed boxes gets those sealed to it."""
    setup = phase.setup
    if len(phase.boxes) < setup.min_survivors:
        return Lost(setup, f"only {count(len(phase.boxes), 'member')} shared secrets"), {}
    sealed = {owner: dict(message.boxes) for owner, message in sorted(phase.boxes.items())}
    lists = {
        setup.members[holder]: BoxList(
            boxes=tuple((owner, boxes[holder]) for owner, boxes in sealed.items() if owner != holder)
        )
        for holder in sealed
    }
    digests = {owner: message.share_digests for owner, message in phase.boxes.items()}
    lists_digest = setup.lists_digest(phase.key_list, frozenset(digests))
    return CollectingInputs(setup, phase.adverts, phase.key_list, digests, lists_digest), lists


def on_input(
    phase: CollectingInputs, sender: PartyId, message: MaskedInput, store: VectorStore
) -> CollectingInputs:
    """Take one masked input (kept in ``store``).

    Raises:
        PeerError: not a sharing member, a second time, or a vector of the wrong length.
    """
    setup, index = phase.setup, phase.setup.index(sender)
    if index not in phase.share_digests or index in phase.inputs:
        raise PeerError(sender, f"sends a masked input out of turn in {setup.describe()}")
    expected = setup.length * setup.ring_bits // 8
    if len(message.vector) != expected:
        raise PeerError(sender, f"masked input of {len(message.vector)} bytes, expected {expected}")
    return replace(phase, inputs={**phase.inputs, index: store.put(message.vector)})


def on_receipt(phase: CollectingInputs, sender: PartyId, message: Receipt, signed: bytes) -> CollectingInputs:
    """Take the receipt of a masked input.

    Raises:
        PeerError: out of turn, or masked under other lists than this server relayed.
    """
    setup, index = phase.setup, phase.setup.index(sender)
    if index not in phase.share_digests or index in phase.receipts or not signed:
        raise PeerError(sender, f"sends a receipt out of turn in {setup.describe()}")
    if message.lists_digest != phase.lists_digest:
        raise PeerError(sender, f"masked its input under other lists in {setup.describe()}")
    return replace(phase, receipts={**phase.receipts, index: signed})


def retry(
    phase: CollectingBoxes | CollectingInputs, excluded: frozenset[PartyId], max_attempts: int
) -> CollectingKeys | Lost:
    """Start the next attempt without ``excluded`` (accused and accuser); before the freeze only."""
    setup = phase.setup
    members = tuple(m for m in setup.members if m not in excluded)
    attempt = setup.instance.attempt + 1
    if attempt >= max_attempts:
        return Lost(setup, f"failed in each of {max_attempts} attempts")
    if len(members) < setup.min_survivors:
        return Lost(setup, f"a retry would leave {len(members)} members")
    return CollectingKeys(replace(setup, instance=setup.instance._replace(attempt=attempt), members=members))
