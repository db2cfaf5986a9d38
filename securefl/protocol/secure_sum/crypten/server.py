"""Server's part of one attempt of a CrypTen sum (data flow, steps 9 and 10).

The server, no rank of the computation, adds the exported shares, and subtracts the blinds once their seeds
are released.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from securefl.base import crypto
from securefl.base.arrays import Ring
from securefl.base.errors import PeerError, UsageError
from securefl.base.ids import PartyId
from securefl.protocol import messages
from securefl.protocol.secure_sum import evidence
from securefl.protocol.secure_sum.collecting import CollectingInputs, CollectingKeys, Lost, end_key_step
from securefl.protocol.secure_sum.setup import self_mask_key


@dataclass(frozen=True, slots=True)
class BlindedShares(CollectingInputs):
    """Phase that collects blinded shares of the sum."""

    def summed_members(self, _survivors: Collection[PartyId]) -> tuple[int, ...]:
        """Return all members: each exports a part of the sum."""
        return tuple(sorted(self.sharers))


def close_keys(phase: CollectingKeys) -> tuple[BlindedShares | Lost, messages.KeyList | None]:
    """End the key step; all listed members are needed from then on."""
    found = end_key_step(phase)
    if isinstance(found, Lost):
        return found, None
    adverts, digest, key_list = found
    sharers = frozenset(adverts)
    lists = phase.setup.lists_digest(digest, sharers)
    return BlindedShares(phase.setup, adverts, digest, lists, sharers, frames=phase.frames), key_list


def check_seed(phase: CollectingInputs, holder: PartyId, release: messages.InstanceSeed) -> None:
    """Raise PeerError if a released seed differs from the advertised one."""
    setup, index = phase.setup, phase.setup.index(holder)
    advert = phase.adverts.get(index)
    if advert is None or setup.seed_digest(index, release.seed) != advert.seed_digest:
        raise PeerError(holder, f"released another seed than it advertised in {setup.describe()}")


def recover_seeds(
    phase: CollectingInputs, releases: Mapping[PartyId, messages.InstanceSeed]
) -> evidence.OpenedSecrets:
    """Return the seeds of all blinds; :func:`check_seed` must have accepted ``releases``.

    Raises:
        UsageError: a listed member's share or seed is missing.
    """
    setup = phase.setup
    for index in sorted(phase.sharers):
        name = setup.members[index]
        if name not in releases or index not in phase.inputs:
            raise UsageError(
                f"cannot open {setup.describe()}: it needs all members, and {name} is missing; repeat it"
                f" without {name}"
            )
    return evidence.OpenedSecrets({setup.index(name): release.seed for name, release in releases.items()})


def unmask(total: Ring, fixed: evidence.FixedSum, secrets: evidence.OpenedSecrets) -> None:
    """Subtract the blind of every listed member from the sum, shape (d,), in place.

    Raises:
        PeerError: a seed differs from its member's advert.
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
