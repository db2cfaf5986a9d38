"""Values that fix an instance's sum before it opens, and the secrets that open it.

A verifier computes the sum from both as the server does. Before any share is released, receipts commit to the
masked vectors, and adverts to the secrets (ADR 0044).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from securefl.base import crypto
from securefl.base.arrays import Ring
from securefl.base.errors import PeerError
from securefl.base.ids import SERVER
from securefl.methods import encoding
from securefl.protocol import messages
from securefl.protocol.secure_sum.removal import components_from
from securefl.protocol.secure_sum.setup import Setup

Vectors = Callable[[int], bytes | memoryview]
"""Lookup of a member's masked vector: ring words in little endian."""


@dataclass(frozen=True, slots=True)
class FixedSum:
    """Values of one instance, except vectors, fixed before it opens."""

    setup: Setup
    adverts: Mapping[int, messages.KeyAdvert]
    key_list: bytes
    sharers: frozenset[int]
    alive: tuple[int, ...]

    @property
    def added(self) -> tuple[int, ...]:
        """Members whose vectors are added, ascending; all sharers if each holds a part."""
        return tuple(sorted(self.sharers)) if self.setup.everyone else self.alive


@dataclass(frozen=True, slots=True)
class OpenedSecrets:
    """Secrets recovered from releases: 32 bytes each, by member number.

    A missing secret is a ``PeerError`` of the server, which proves the sum.
    """

    seeds: Mapping[int, bytes] = field(repr=False)
    """Self-mask seeds; in CrypTen sums the seeds of blinds."""
    keys: Mapping[int, bytes] = field(default_factory=dict, repr=False)
    """Private mask keys of dropouts."""
    noise: Mapping[int, bytes] = field(default_factory=dict, repr=False)

    def seed(self, member: int) -> bytes:
        """Return the seed of one member."""
        return _there(self.seeds, member, "seed")

    def key(self, member: int) -> bytes:
        """Return the private mask key of one member."""
        return _there(self.keys, member, "mask key")

    def noise_secret(self, member: int) -> bytes:
        """Return the noise secret of one member."""
        return _there(self.noise, member, "noise secret")


def _there(secrets: Mapping[int, bytes], member: int, what: str) -> bytes:
    if member not in secrets:
        raise PeerError(SERVER, f"proves a sum without the {what} of member {member}")
    return secrets[member]


def input_digest(setup: Setup, member: int, vector: bytes | memoryview) -> bytes:
    """Return the digest (32 bytes) of a masked vector, as in receipts of verified sums."""
    return crypto.digest("masked input", *setup.instance, member, bytes(vector))


def input_with_receipt(
    setup: Setup, member: int, masked: Ring, lists_digest: bytes
) -> tuple[messages.MaskedInput, messages.Receipt]:
    """Return masked input and receipt for a masked vector, ring words (d,)."""
    vector = encoding.to_wire(masked)
    if not setup.verified:
        return messages.MaskedInput(vector=vector), messages.Receipt(lists_digest=lists_digest)
    stated = input_digest(setup, member, vector)
    return messages.MaskedInput(vector=vector), messages.VectorReceipt(
        lists_digest=lists_digest, input_digest=stated
    )


def stated_input(receipt: messages.Receipt) -> bytes:
    """Return the vector digest that a receipt states, or b""."""
    return receipt.input_digest if isinstance(receipt, messages.VectorReceipt) else b""


def commitment_of(setup: Setup, lists_digest: bytes, inputs: Mapping[int, bytes]) -> bytes:
    """Return the commitment to an instance's sum: a digest over its receipts.

    ``inputs`` are the stated digests of the added vectors, by member number. ``lists_digest`` commits to all
    adverts, and so to all secrets.
    """
    fields: list[bytes | int] = []
    for member in sorted(inputs):
        fields += [member, inputs[member]]
    return crypto.digest("sum commitment", *setup.instance, lists_digest, *fields)


def added_up(fixed: FixedSum, vectors: Vectors) -> Ring:
    """Return the ring sum, (d,), of the masked vectors of an instance: uniform until it is unmasked.

    Raises:
        PeerError: a vector is not as long as the sum.
    """
    total = encoding.zeros(fixed.setup.length, fixed.setup.ring_bits)
    for index in fixed.added:
        encoding.add_wire(total, vectors(index), fixed.setup.members[index])
    return total


def remove_noise(total: Ring, fixed: FixedSum, secrets: OpenedSecrets) -> None:
    """Subtract superfluous noise, if noise is removable, from a sum in place.

    Raises:
        PeerError: a noise secret differs from its member's advert.
    """
    setup, removable = fixed.setup, fixed.setup.removable
    if removable is None:
        return
    for number in setup.superfluous(len(fixed.alive)):
        for index in fixed.alive:
            secret = secrets.noise_secret(index)
            if setup.noise_digest(index, number, secret) != fixed.adverts[index].noise_digests[number]:
                raise PeerError(setup.members[index], "shared another noise secret than it advertised")
            for component in components_from(removable, setup.instance, index, secret, number):
                total -= component
