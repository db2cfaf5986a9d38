"""An instance as it stands before it opens, and the secrets that open it: its sum follows from both.

Whoever holds them computes the sum as the server does
(:meth:`securefl.protocol.secure_sum.port.ServerEnd.sum_of`). What is fixed is signed or hash-committed before
anybody lets go of a share: the masked vectors by their digests in the receipts, the secrets by hashes and
public keys in the adverts (ADR 0044).
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
"""The masked vector of a member, by its number: ring words in little endian."""


@dataclass(frozen=True, slots=True)
class FixedSum:
    """What of one instance is fixed before it opens, but for the vectors."""

    setup: Setup
    adverts: Mapping[int, messages.KeyAdvert]
    """By member number."""
    key_list: bytes
    """Digest of the list of adverts."""
    sharers: frozenset[int]
    """Members between whom masks or shares exist."""
    alive: tuple[int, ...]
    """Members whose updates the sum holds, ascending."""

    @property
    def added(self) -> tuple[int, ...]:
        """Members whose vectors are added up, ascending: all that share, where each holds a part."""
        return tuple(sorted(self.sharers)) if self.setup.everyone else self.alive


@dataclass(frozen=True, slots=True)
class OpenedSecrets:
    """What members let go of, put together: 32 bytes each, by member number.

    Whoever asks for one that is not there gets a ``PeerError`` of the server's: only what it relays may lack
    any.
    """

    seeds: Mapping[int, bytes] = field(repr=False)
    """Self-mask seeds; in CrypTen sums the seeds of blinds."""
    keys: Mapping[int, bytes] = field(default_factory=dict, repr=False)
    """Private mask keys of those that have dropped out."""
    noise: Mapping[int, bytes] = field(default_factory=dict, repr=False)
    """Secrets of the noise that the sum does without."""

    def seed(self, member: int) -> bytes:
        """The seed of one member."""
        return _there(self.seeds, member, "seed")

    def key(self, member: int) -> bytes:
        """The private mask key of one member."""
        return _there(self.keys, member, "mask key")

    def noise_secret(self, member: int) -> bytes:
        """The noise secret of one member."""
        return _there(self.noise, member, "noise secret")


def _there(secrets: Mapping[int, bytes], member: int, what: str) -> bytes:
    if member not in secrets:
        raise PeerError(SERVER, f"proves a sum without the {what} of member {member}")
    return secrets[member]


def input_digest(setup: Setup, member: int, vector: bytes | memoryview) -> bytes:
    """Return the digest (32 bytes) of a masked vector, which its receipt states where sums are verified."""
    return crypto.digest("masked input", *setup.instance, member, bytes(vector))


def input_with_receipt(
    setup: Setup, member: int, masked: Ring, lists_digest: bytes
) -> tuple[messages.MaskedInput, messages.Receipt]:
    """Return what a member sends once its vector, ring words of shape (d,), is masked."""
    vector = encoding.to_wire(masked)
    if not setup.verified:
        return messages.MaskedInput(vector=vector), messages.Receipt(lists_digest=lists_digest)
    stated = input_digest(setup, member, vector)
    return messages.MaskedInput(vector=vector), messages.VectorReceipt(
        lists_digest=lists_digest, input_digest=stated
    )


def stated_input(receipt: messages.Receipt) -> bytes:
    """Return the digest of the masked vector that a receipt states; nothing where it states none."""
    return receipt.input_digest if isinstance(receipt, messages.VectorReceipt) else b""


def commitment_of(setup: Setup, lists_digest: bytes, inputs: Mapping[int, bytes]) -> bytes:
    """Return what fixes an instance's sum before it opens: the digest of what its receipts state.

    Args:
        setup: of the attempt that counts.
        lists_digest: what all receipts state of lists; it pins all adverts, and so all secrets.
        inputs: by member number, what the receipts state of the vectors that the sum adds up.
    """
    fields: list[bytes | int] = []
    for member in sorted(inputs):
        fields += [member, inputs[member]]
    return crypto.digest("sum commitment", *setup.instance, lists_digest, *fields)


def added_up(fixed: FixedSum, vectors: Vectors) -> Ring:
    """Return the ring sum, shape (d,), of the masked vectors of an instance: uniform until it is unmasked.

    Raises:
        PeerError: a vector is not as long as the sum.
    """
    total = encoding.zeros(fixed.setup.length, fixed.setup.ring_bits)
    for index in fixed.added:
        encoding.add_wire(total, vectors(index), fixed.setup.members[index])
    return total


def remove_noise(total: Ring, fixed: FixedSum, secrets: OpenedSecrets) -> None:
    """Take out of a sum what noise so many survivors do not need, in place; nothing where none is removable.

    Raises:
        PeerError: a noise secret is another one than its member advertised.
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
