"""The server's half of the CrypTen secure sum, one attempt: keys, then blinded shares, then one addition.

The server is no rank of the computation. It relays what members say to each other, sealed, adds up the shares
that they export, and takes off the blinds once their seeds are released. Keys, inputs and receipts are
collected as in masking (:mod:`securefl.secure_sum.masking.server`).

Data's way: the server's part of steps 9 and 10.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from securefl.arrays import Ring
from securefl.config.wording import count
from securefl.crypto.prg import Sign, add_masks
from securefl.encoding.ring import add_wire, zeros
from securefl.errors import PeerError, UsageError
from securefl.ids import PartyId
from securefl.messages.crypten import InstanceSeed, PeerBox
from securefl.messages.masking import KeyList
from securefl.secure_sum.masking.client import self_mask_key
from securefl.secure_sum.masking.server import CollectingInputs, CollectingKeys, Lost
from securefl.secure_sum.setup import key_list_digest
from securefl.secure_sum.store import VectorStore


def close_keys(phase: CollectingKeys) -> tuple[CollectingInputs | Lost, KeyList | None]:
    """End the key step; from here on all listed members are needed."""
    setup = phase.setup
    if len(phase.adverts) < setup.min_survivors:
        return Lost(setup, f"only {count(len(phase.adverts), 'member')} advertised keys"), None
    key_list = key_list_digest(dict(phase.frames))
    adverts = {index: phase.adverts[index] for index in sorted(phase.adverts)}
    lists = setup.lists_digest(key_list, frozenset(adverts))
    inputs = CollectingInputs(setup, adverts, key_list, dict.fromkeys(adverts, ()), lists)
    return inputs, KeyList(adverts=tuple(phase.frames[index] for index in adverts))


def relay(
    phase: CollectingInputs, sender: PartyId, message: PeerBox
) -> tuple[CollectingInputs, PartyId, PeerBox]:
    """Return the phase with the message counted, whom it is for, and what to send there.

    Raises:
        PeerError: sender or receiver are not on the key list, or one and the same.
    """
    setup, index = phase.setup, phase.setup.index(sender)
    if index not in phase.sharers or message.peer not in phase.sharers or message.peer == index:
        raise PeerError(sender, f"sends to member {message.peer} out of turn in {setup.describe()}")
    counted = replace(phase, said={**phase.said, index: phase.said.get(index, 0) + 1})
    return counted, setup.members[message.peer], PeerBox(peer=index, number=message.number, box=message.box)


def check_seed(phase: CollectingInputs, holder: PartyId, release: InstanceSeed) -> None:
    """Check a released seed against the advert.

    Raises:
        PeerError: another seed than was advertised.
    """
    setup, index = phase.setup, phase.setup.index(holder)
    advert = phase.adverts.get(index)
    if advert is None or setup.seed_digest(index, release.seed) != advert.seed_digest:
        raise PeerError(holder, f"released another seed than it advertised in {setup.describe()}")


def open_shares(
    phase: CollectingInputs, releases: Mapping[PartyId, InstanceSeed], store: VectorStore
) -> Ring:
    """Return the ring sum (shape (d,)) of all listed members' encoded updates.

    ``releases`` holds only what :func:`check_seed` accepted.

    Raises:
        UsageError: a listed member's share or seed is missing.
    """
    setup = phase.setup
    context = setup.keys_context(phase.key_list)
    total = zeros(setup.length, setup.ring_bits)
    terms: list[tuple[bytes, Sign]] = []
    for index in sorted(phase.sharers):
        name = setup.members[index]
        if name not in releases or index not in phase.inputs:
            raise UsageError(f"{setup.describe()} opens with all members only, {name} is missing")
        add_wire(total, store.get(phase.inputs[index]), name)
        terms.append((self_mask_key(releases[name].seed, context), -1))
    add_masks(total, terms)
    return total
