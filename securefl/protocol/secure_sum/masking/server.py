"""Server's part of one attempt of a pairwise-mask sum, up to the freeze.

::

    CollectingKeys -> CollectingBoxes -> MaskedInputs        (-> Lost, from each)
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from securefl.base import crypto, text
from securefl.base.errors import PeerError
from securefl.base.ids import PartyId
from securefl.protocol import messages
from securefl.protocol.secure_sum.collecting import CollectingInputs, CollectingKeys, Lost, end_key_step
from securefl.protocol.secure_sum.setup import Setup, share_leaf


@dataclass(frozen=True, slots=True)
class CollectingBoxes:
    """Phase that waits for the listed members' share boxes."""

    setup: Setup
    adverts: Mapping[int, messages.KeyAdvert]
    key_list: bytes
    frames: Mapping[int, bytes] = field(default_factory=dict, repr=False)
    boxes: Mapping[int, messages.ShareBoxes] = field(default_factory=dict)

    @property
    def missing(self) -> frozenset[PartyId]:
        """Listed members without boxes."""
        return frozenset(self.setup.members[i] for i in self.adverts.keys() - self.boxes.keys())


@dataclass(frozen=True, slots=True)
class MaskedInputs(CollectingInputs):
    """Phase that waits for masked inputs and receipts of the sharing members."""

    share_digests: Mapping[int, tuple[tuple[bytes, ...], ...]] = field(kw_only=True, repr=False)
    """By owner (exactly the sharing members) and holder."""


InstancePhase = CollectingKeys | CollectingBoxes | MaskedInputs | Lost


def close_keys(phase: CollectingKeys) -> tuple[CollectingBoxes | Lost, messages.KeyList | None]:
    """End the key step; the list goes to its members."""
    found = end_key_step(phase)
    if isinstance(found, Lost):
        return found, None
    adverts, digest, key_list = found
    return CollectingBoxes(phase.setup, adverts, digest, phase.frames), key_list


def on_boxes(phase: CollectingBoxes, sender: PartyId, message: messages.ShareBoxes) -> CollectingBoxes:
    """Add one member's boxes.

    Raises:
        PeerError: not due, for the wrong members, or with digests that differ from the advert.
    """
    setup, index = phase.setup, phase.setup.index(sender)
    if index not in phase.adverts or index in phase.boxes:
        raise PeerError(sender, f"sends encrypted shares at the wrong time in {setup.describe()}")
    holders = [holder for holder, _ in message.boxes]
    if sorted(holders) != sorted(phase.adverts.keys() - {index}):
        raise PeerError(sender, f"has not encrypted one share for each member in {setup.describe()}")
    kinds = 2 + setup.components
    leaves = [share_leaf(*each) for each in message.share_digests if len(each) == kinds]
    if len(leaves) != len(setup.members) or crypto.merkle_root(leaves) != phase.adverts[index].shares_root:
        raise PeerError(sender, f"sends other share digests than with its key in {setup.describe()}")
    return replace(phase, boxes={**phase.boxes, index: message})


def close_boxes(phase: CollectingBoxes) -> tuple[MaskedInputs | Lost, dict[PartyId, messages.BoxList]]:
    """End the share step: return the next phase and each sharing member's box list."""
    setup = phase.setup
    if len(phase.boxes) < setup.min_survivors:
        return Lost(setup, f"only {text.count(len(phase.boxes), 'member')} shared secrets"), {}
    sealed = {owner: dict(message.boxes) for owner, message in sorted(phase.boxes.items())}
    lists = {
        setup.members[holder]: messages.BoxList(
            boxes=tuple((owner, boxes[holder]) for owner, boxes in sealed.items() if owner != holder)
        )
        for holder in sealed
    }
    digests = {owner: message.share_digests for owner, message in phase.boxes.items()}
    lists_digest = setup.lists_digest(phase.key_list, frozenset(digests))
    inputs = MaskedInputs(
        setup,
        phase.adverts,
        phase.key_list,
        lists_digest,
        frozenset(digests),
        frames=phase.frames,
        share_digests=digests,
    )
    return inputs, lists
