"""Opening one cluster sum from released shares (protocol.md, step 10; data flow, steps 9 and 10)."""

from __future__ import annotations

from collections.abc import Mapping

from securefl.base.arrays import Ring
from securefl.base.crypto import BadShareError, KeyPair, Sign, add_masks, combine
from securefl.base.errors import PeerError, UsageError
from securefl.base.ids import PartyId
from securefl.methods.encoding import add_wire, zeros
from securefl.protocol.messages import InstanceShares
from securefl.protocol.secure_sum.masking.client import pairwise_key, pairwise_sign
from securefl.protocol.secure_sum.masking.server import MaskedInputs
from securefl.protocol.secure_sum.removal import components_from
from securefl.protocol.secure_sum.setup import self_mask_key, share_kinds
from securefl.protocol.secure_sum.store import VectorStore


def check_release(
    phase: MaskedInputs, survivors: frozenset[PartyId], holder: PartyId, release: InstanceShares
) -> None:
    """Check one member's released shares against kinds and advertised hashes.

    Raises:
        PeerError: a wrong, missing or surplus share; the holder is at fault, since it checked its boxes.
    """
    setup, index = phase.setup, phase.setup.index(holder)
    alive = set(phase.alive(survivors))
    dropped = phase.sharers - alive
    if [o for o, _ in release.seed_shares] != sorted(alive):
        raise PeerError(holder, f"released seed shares of other members in {setup.describe()}")
    if [o for o, _ in release.key_shares] != sorted(dropped):
        raise PeerError(holder, f"released key shares of other members in {setup.describe()}")
    superfluous = setup.superfluous(len(alive))
    if [o for o, _ in release.noise_shares] != sorted(alive) * len(superfluous):
        raise PeerError(holder, f"released noise shares of other members in {setup.describe()}")
    kinds = share_kinds(setup.components)
    columns = [(0, release.seed_shares), (1, release.key_shares)]
    columns += [(2 + number, release.noise_shares) for number in superfluous]
    digest = setup.share_digester()
    for column, shares in columns:
        for owner, share in shares:
            expected = phase.share_digests[owner][index][column]
            if digest(owner, index, kinds[column], share) != expected:
                raise PeerError(holder, f"released a wrong {kinds[column]} share in {setup.describe()}")


def open_sum(
    phase: MaskedInputs,
    survivors: frozenset[PartyId],
    releases: Mapping[PartyId, InstanceShares],
    store: VectorStore,
) -> Ring:
    """Return the ring sum (shape (d,)) of the survivors' encoded updates.

    ``releases`` holds only what :func:`check_release` accepted.

    Raises:
        UsageError: fewer releases than the threshold, or fewer survivors than ``min_survivors``.
        PeerError: a member had shared another secret than it advertised.
    """
    setup = phase.setup
    alive = phase.alive(survivors)
    if len(alive) < setup.min_survivors:
        raise UsageError(
            f"{setup.describe()} has {len(alive)} survivors, min_survivors is {setup.min_survivors}"
        )
    if len(releases) < setup.threshold:
        raise UsageError(f"{setup.describe()} has {len(releases)} releases, threshold is {setup.threshold}")
    total = zeros(setup.length, setup.ring_bits)
    for index in alive:
        add_wire(total, store.get(phase.inputs[index]), setup.members[index])
    add_masks(total, _terms(phase, alive, releases))
    _remove_noise(total, phase, alive, releases)
    return total


def _remove_noise(
    total: Ring,
    phase: MaskedInputs,
    alive: tuple[int, ...],
    releases: Mapping[PartyId, InstanceShares],
) -> None:
    """Take out of the sum what noise so many survivors do not need, in place."""
    setup, removable = phase.setup, phase.setup.removable
    if removable is None:
        return
    held = {setup.index(holder): dict(release.noise_shares) for holder, release in releases.items()}
    for number in setup.superfluous(len(alive)):
        for index in alive:
            secret = _combine(setup.threshold, index, held, setup.members[index])
            if setup.noise_digest(index, number, secret) != phase.adverts[index].noise_digests[number]:
                raise PeerError(setup.members[index], "shared another noise secret than it advertised")
            for component in components_from(removable, setup.instance, index, secret, number):
                total -= component


def _terms(
    phase: MaskedInputs, alive: tuple[int, ...], releases: Mapping[PartyId, InstanceShares]
) -> list[tuple[bytes, Sign]]:
    setup, context = phase.setup, phase.setup.keys_context(phase.key_list)
    seed_shares = {setup.index(h): dict(r.seed_shares) for h, r in releases.items()}
    key_shares = {setup.index(h): dict(r.key_shares) for h, r in releases.items()}
    terms: list[tuple[bytes, Sign]] = []
    for index in alive:
        seed = _combine(setup.threshold, index, seed_shares, setup.members[index])
        if setup.seed_digest(index, seed) != phase.adverts[index].seed_digest:
            raise PeerError(setup.members[index], "shared another self-mask seed than it advertised")
        terms.append((self_mask_key(seed, context), -1))
    for index in sorted(phase.sharers - set(alive)):
        pair = KeyPair.from_private(_combine(setup.threshold, index, key_shares, setup.members[index]))
        if pair.public != phase.adverts[index].mask_key:
            raise PeerError(setup.members[index], "shared another mask key than it advertised")
        for other in alive:
            key = pairwise_key(pair, phase.adverts[other].mask_key, index, other, context)
            terms.append((key, pairwise_sign(index, other)))
    return terms


def _combine(threshold: int, owner: int, shares: Mapping[int, Mapping[int, bytes]], name: PartyId) -> bytes:
    # Shamir points are numbered from 1, members from 0.
    try:
        return combine({holder + 1: held[owner] for holder, held in shares.items()}, threshold)
    except BadShareError as error:
        raise PeerError(name, f"shared an impossible secret ({error})") from error
