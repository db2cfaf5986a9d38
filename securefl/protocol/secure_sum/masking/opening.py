"""Opening of one cluster sum from released shares (protocol.md, step 10; data flow, steps 9 and 10)."""

from collections.abc import Mapping

from securefl.base import crypto
from securefl.base.arrays import Ring
from securefl.base.errors import PeerError, UsageError
from securefl.base.ids import PartyId
from securefl.protocol import messages
from securefl.protocol.secure_sum import evidence
from securefl.protocol.secure_sum.masking.client import pairwise_key, pairwise_sign
from securefl.protocol.secure_sum.masking.server import MaskedInputs
from securefl.protocol.secure_sum.port import DealtSecrets
from securefl.protocol.secure_sum.setup import Setup, self_mask_key, share_kinds


def check_release(
    phase: MaskedInputs, survivors: frozenset[PartyId], holder: PartyId, release: messages.InstanceShares
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


def recover_secrets(
    phase: MaskedInputs, survivors: frozenset[PartyId], releases: Mapping[PartyId, messages.InstanceShares]
) -> evidence.OpenedSecrets:
    """Return the secrets that the checked ``releases`` form.

    Raises:
        UsageError: fewer releases than the threshold, or fewer survivors than ``min_survivors``.
        PeerError: a member's shares form no secret.
    """
    setup, alive = phase.setup, phase.alive(survivors)
    if len(alive) < setup.min_survivors:
        raise UsageError(
            f"cannot open {setup.describe()}: min_survivors is {setup.min_survivors}, found"
            f" {len(alive)} survivors"
        )
    if len(releases) < setup.threshold:
        raise UsageError(
            f"cannot open {setup.describe()}: threshold is {setup.threshold}, found {len(releases)}"
            " released shares"
        )
    seeds = {setup.index(h): dict(r.seed_shares) for h, r in releases.items()}
    keys = {setup.index(h): dict(r.key_shares) for h, r in releases.items()}
    noise = {setup.index(h): dict(r.noise_shares) for h, r in releases.items()}
    superfluous = setup.superfluous(len(alive))
    return evidence.OpenedSecrets(
        {index: _combine(setup, index, seeds) for index in alive},
        {index: _combine(setup, index, keys) for index in sorted(phase.sharers - set(alive))},
        {index: _combine(setup, index, noise) for index in alive if superfluous},
    )


def dealt(
    phase: MaskedInputs,
    survivors: frozenset[PartyId],
    releases: Mapping[PartyId, messages.InstanceShares],
    owner: PartyId,
) -> DealtSecrets:
    """Return the shares of one member's secrets that open the sum, with their commitments."""
    setup, alive, index = phase.setup, phase.alive(survivors), phase.setup.index(owner)
    numbered = {setup.index(name): release for name, release in releases.items()}
    holders = sorted(numbered)[: setup.threshold]
    kinds = (0, *(2 + number for number in setup.superfluous(len(alive)))) if index in alive else (1,)
    secrets = tuple(
        (kind, tuple((holder, dict(_of_kind(numbered[holder], kind))[index]) for holder in holders))
        for kind in kinds
    )
    digests = phase.share_digests[index]
    return DealtSecrets(advert=phase.frames[index], members=setup.members, digests=digests, secrets=secrets)


def _of_kind(release: messages.InstanceShares, kind: int) -> tuple[tuple[int, bytes], ...]:
    return (release.seed_shares, release.key_shares)[kind] if kind < 2 else release.noise_shares


def unmask(total: Ring, fixed: evidence.FixedSum, secrets: evidence.OpenedSecrets) -> None:
    """Turn the sum of masked vectors, (d,), into the sum of the survivors' encoded updates, in place.

    Raises:
        PeerError: a secret differs from its member's advert.
    """
    crypto.add_masks(total, _terms(fixed, secrets))
    evidence.remove_noise(total, fixed, secrets)


def _terms(fixed: evidence.FixedSum, secrets: evidence.OpenedSecrets) -> list[tuple[bytes, crypto.Sign]]:
    setup, context = fixed.setup, fixed.setup.keys_context(fixed.key_list)
    terms: list[tuple[bytes, crypto.Sign]] = []
    for index in fixed.alive:
        seed = secrets.seed(index)
        if setup.seed_digest(index, seed) != fixed.adverts[index].seed_digest:
            raise PeerError(setup.members[index], "shared another self-mask seed than it advertised")
        terms.append((self_mask_key(seed, context), -1))
    for index in sorted(fixed.sharers - set(fixed.alive)):
        pair = crypto.KeyPair.from_private(secrets.key(index))
        if pair.public != fixed.adverts[index].mask_key:
            raise PeerError(setup.members[index], "shared another mask key than it advertised")
        for other in fixed.alive:
            key = pairwise_key(pair, fixed.adverts[other].mask_key, index, other, context)
            terms.append((key, pairwise_sign(index, other)))
    return terms


def _combine(setup: Setup, owner: int, shares: Mapping[int, Mapping[int, bytes]]) -> bytes:
    # Shamir points are numbered from 1, members from 0.
    held = {holder + 1: of[owner] for holder, of in shares.items()}
    try:
        return crypto.combine(held, setup.threshold)
    except crypto.BadShareError as error:
        raise PeerError(setup.members[owner], f"dealt shares that do not fit together ({error})") from error
