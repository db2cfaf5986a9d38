"""The server's half of the CrypTen secure sum, one attempt: keys, then blinded shares, then one addition.

The server is no rank of the computation. It relays what members say to each other, sealed, adds up the shares
that they export, and takes off the blinds once their seeds are released. Keys, inputs and receipts are
collected as in every kind (:mod:`securefl.protocol.secure_sum.collecting`).

In the data flow: the server's part of steps 9 and 10.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import TypeVar

from securefl.base import crypto
from securefl.base.arrays import Ring
from securefl.base.errors import PeerError, UsageError
from securefl.base.ids import PartyId
from securefl.protocol import messages
from securefl.protocol.secure_sum import evidence
from securefl.protocol.secure_sum.collecting import CollectingInputs, CollectingKeys, Lost, listed
from securefl.protocol.secure_sum.setup import self_mask_key


@dataclass(frozen=True, slots=True)
class BlindedShares(CollectingInputs):
    """Collecting what members that compute together export."""

    said: Mapping[int, int] = field(default_factory=dict, kw_only=True)
    """How many messages each has sent to others."""

    @property
    def stalled(self) -> frozenset[PartyId]:
        """Members that have not submitted, as it seems because they wait for one that has said less.

        Of those that have not submitted, the ones that have said least hold up the others. Where all have
        said as much, nobody can be told from the others.
        """
        waiting = self.sharers - self.answered
        return self.names(waiting - least_said(waiting, self.said))

    def added(self, _survivors: Collection[PartyId]) -> tuple[int, ...]:
        """All members: each exports a part of the sum."""
        return tuple(sorted(self.sharers))


def least_said(waiting: Collection[int], said: Mapping[int, int]) -> frozenset[int]:
    """Of members that compute together and have not ended, those that hold up the others, as it seems."""
    least = min((said.get(i, 0) for i in waiting), default=0)
    return frozenset(i for i in waiting if said.get(i, 0) == least)


def close_keys(phase: CollectingKeys) -> tuple[BlindedShares | Lost, messages.KeyList | None]:
    """End the key step; from here on all listed members are needed."""
    found = listed(phase)
    if isinstance(found, Lost):
        return found, None
    adverts, digest, key_list = found
    sharers = frozenset(adverts)
    lists = phase.setup.lists_digest(digest, sharers)
    return BlindedShares(phase.setup, adverts, digest, lists, sharers, frames=phase.frames), key_list


BlindedT = TypeVar("BlindedT", bound=BlindedShares)


def relay(
    phase: BlindedT, sender: PartyId, message: messages.PeerBox
) -> tuple[BlindedT, PartyId, messages.PeerBox]:
    """Return the phase with the message counted, whom it is for, and what to send there.

    Raises:
        PeerError: sender or receiver are not on the key list, or one and the same.
    """
    setup, index = phase.setup, phase.setup.index(sender)
    if index not in phase.sharers or message.peer not in phase.sharers or message.peer == index:
        raise PeerError(sender, f"sends to member {message.peer} out of turn in {setup.describe()}")
    counted = replace(phase, said={**phase.said, index: phase.said.get(index, 0) + 1})
    return (
        counted,
        setup.members[message.peer],
        messages.PeerBox(peer=index, number=message.number, box=message.box),
    )


def check_seed(phase: CollectingInputs, holder: PartyId, release: messages.InstanceSeed) -> None:
    """Check a released seed against the advert.

    Raises:
        PeerError: another seed than was advertised.
    """
    setup, index = phase.setup, phase.setup.index(holder)
    advert = phase.adverts.get(index)
    if advert is None or setup.seed_digest(index, release.seed) != advert.seed_digest:
        raise PeerError(holder, f"released another seed than it advertised in {setup.describe()}")


def recovered(
    phase: CollectingInputs, releases: Mapping[PartyId, messages.InstanceSeed]
) -> evidence.OpenedSecrets:
    """Return the seeds of all blinds; ``releases`` holds only what :func:`check_seed` accepted.

    Raises:
        UsageError: a listed member's share or seed is missing.
    """
    setup = phase.setup
    for index in sorted(phase.sharers):
        name = setup.members[index]
        if name not in releases or index not in phase.inputs:
            raise UsageError(f"{setup.describe()} opens with all members only, {name} is missing")
    return evidence.OpenedSecrets({setup.index(name): release.seed for name, release in releases.items()})


def unmask(total: Ring, fixed: evidence.FixedSum, secrets: evidence.OpenedSecrets) -> None:
    """Take off the blind of every listed member: each has a part of the sum, shape (d,), changed in place.

    Raises:
        PeerError: a seed is another one than its member advertised.
    """
    setup = fixed.setup
    context = setup.keys_context(fixed.key_list)
    terms: list[tuple[bytes, crypto.Sign]] = []
    for index in sorted(fixed.sharers):
        name, seed = setup.members[index], secrets.seed(index)
        if setup.seed_digest(index, seed) != fixed.adverts[index].seed_digest:
            raise PeerError(name, f"released another seed than it advertised in {setup.describe()}")
        terms.append((self_mask_key(seed, context), -1))
    crypto.add_masks(total, terms)
