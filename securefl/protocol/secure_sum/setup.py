"""Setup of one attempt of one secure sum, and the contexts that its keys are bound to."""

from collections.abc import Callable
from dataclasses import dataclass

from securefl.base import crypto
from securefl.base.errors import PeerError, UsageError
from securefl.base.ids import Instance, PartyId
from securefl.protocol import kernel
from securefl.protocol.secure_sum.removal import Removable


@dataclass(frozen=True, slots=True)
class Setup:
    """One attempt as known to honest members and the server. Members are numbered in sorted order."""

    instance: Instance
    members: tuple[PartyId, ...]
    threshold: int
    """t: members whose shares open the sum."""
    min_survivors: int
    binding: bytes
    """Hash of assignment, model and configuration: parties that differ get unrelated masks."""
    length: int
    """d: words of the vector."""
    ring_bits: int
    removable: Removable | None = None
    everyone: bool = False
    verified: bool = False
    """True if receipts commit to the masked vectors."""

    def __post_init__(self) -> None:
        if list(self.members) != sorted(set(self.members)):
            raise UsageError("members of a sum must be sorted and distinct")
        if not 1 <= self.threshold <= self.min_survivors <= len(self.members):
            raise UsageError(
                f"1 <= threshold <= min_survivors <= members must hold, found {self.threshold},"
                f" {self.min_survivors}, {len(self.members)}"
            )

        if self.everyone and self.min_survivors < 2:
            raise UsageError(
                f"min_survivors of a sum of shares must be at least 2, found {self.min_survivors}: one"
                " member would hold the value"
            )

    def releases_needed(self, survivors: int) -> int:
        """Return how many members must release to open a sum of ``survivors``."""
        return survivors if self.everyone else self.threshold

    @property
    def components(self) -> int:
        """Removable components of each member's noise."""
        return 0 if self.removable is None else self.removable.components

    @property
    def place(self) -> kernel.Place:
        """Place of this attempt's messages."""
        i = self.instance
        return kernel.Place(i.round, i.reclustering, i.cluster, i.attempt)

    def index(self, party: PartyId) -> int:
        """Return the member number of ``party``; raise PeerError if it is not a member."""
        try:
            return self.members.index(party)
        except ValueError:
            raise PeerError(party, f"is not a member of {self.describe()}") from None

    @property
    def certain(self) -> int:
        """Removable components that always stay: the cluster is smaller than planned."""
        return 0 if self.removable is None else self.removable.dropouts(len(self.members))

    def superfluous(self, survivors: int) -> tuple[int, ...]:
        """Return the number of the noise secret to release, as a tuple; empty if all noise is needed.

        Raises:
            UsageError: more dropouts than the noise was planned for.
        """
        if self.removable is None:
            return ()
        missing = self.removable.dropouts(survivors)
        return (missing,) if missing < self.removable.components else ()

    def describe(self) -> str:
        """Return a readable name of the instance."""
        i = self.instance
        return f"round {i.round} reclustering {i.reclustering} cluster {i.cluster} attempt {i.attempt}"

    def share_digester(self) -> Callable[[int, int, str, bytes], bytes]:
        """Return f(owner, holder, kind, share), the published digest of a share.

        Caching the common context makes the server four times as fast.
        """
        context = crypto.digest_with("share context", *self.instance, more=3)

        def finish(owner: int, holder: int, kind: str, share: bytes) -> bytes:
            return crypto.share_digest(share, context(owner, holder, kind))

        return finish

    def keys_context(self, key_list: bytes) -> bytes:
        """Return the context of all agreed keys of the attempt."""
        return crypto.digest("keys context", *self.instance, self.binding, key_list)

    def lists_digest(self, key_list: bytes, sharers: frozenset[int]) -> bytes:
        """Return the digest of key list and sharers that a receipt states."""
        return crypto.digest("lists", self.keys_context(key_list), *sorted(sharers))

    def seed_digest(self, owner: int, seed: bytes) -> bytes:
        """Return the published hash of a self-mask seed."""
        return crypto.digest("self-mask seed", *self.instance, owner, seed)

    def noise_digest(self, owner: int, number: int, secret: bytes) -> bytes:
        """Return the published hash of a noise secret."""
        return crypto.digest("noise secret", *self.instance, owner, number, secret)


def key_list_digest(frames: dict[int, bytes]) -> bytes:
    """Return the digest of an attempt's signed adverts, by member."""
    fields: list[bytes | int] = []
    for index in sorted(frames):
        fields += [index, frames[index]]
    return crypto.digest("key list", *fields)


def share_kinds(components: int) -> tuple[str, ...]:
    """Return the kinds of a member's shares, in the order of their digests."""
    return "seed", "key", *(f"noise {number}" for number in range(components))


def share_leaf(*digests: bytes) -> bytes:
    """Return a holder's leaf in the owner's hash tree of shares."""
    return b"".join(digests)


def self_mask_key(seed: bytes, context: bytes) -> bytes:
    """Return the stream key of a self mask."""
    return crypto.derive_key(seed, "self mask", context)
