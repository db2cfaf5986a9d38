"""The setup of one attempt of one secure sum, and the contexts that its keys are bound to."""

from collections.abc import Callable
from dataclasses import dataclass

from securefl.base import crypto
from securefl.base.errors import PeerError, UsageError
from securefl.base.ids import Instance, PartyId
from securefl.protocol import kernel
from securefl.protocol.secure_sum.removal import Removable


@dataclass(frozen=True, slots=True)
class Setup:
    """One attempt, as every honest member and the server know it. Members are numbered as sorted."""

    instance: Instance
    members: tuple[PartyId, ...]
    threshold: int
    """t: members whose shares open the sum."""
    min_survivors: int
    binding: bytes
    """Hash of assignment, model and configuration; whoever was told another one gets unrelated masks."""
    length: int
    """d: words of the vector."""
    ring_bits: int
    removable: Removable | None = None
    """Noise that the released shares take out of the sum again, where there is such."""
    everyone: bool = False
    """Whether all members on the key list are needed to open, not any ``threshold``."""
    verified: bool = False
    """Whether receipts state digests of the masked vectors, so that others can repeat the opening."""

    def __post_init__(self) -> None:
        """Refuse what can only be our own mistake: the loader has proved feasibility."""
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
        """Return how many members have to release what they hold, to open a sum of so many."""
        return survivors if self.everyone else self.threshold

    @property
    def components(self) -> int:
        """Removable components of each member's noise."""
        return 0 if self.removable is None else self.removable.components

    @property
    def place(self) -> kernel.Place:
        """The place of this attempt's messages."""
        i = self.instance
        return kernel.Place(i.round, i.reclustering, i.cluster, i.attempt)

    def index(self, party: PartyId) -> int:
        """Return the member number of ``party``.

        Raises:
            PeerError: not a member.
        """
        try:
            return self.members.index(party)
        except ValueError:
            raise PeerError(party, f"is not a member of {self.describe()}") from None

    @property
    def certain(self) -> int:
        """Removable components that no sum of these members can do without: it has too few of them."""
        return 0 if self.removable is None else self.removable.dropouts(len(self.members))

    def superfluous(self, survivors: int) -> tuple[int, ...]:
        """Return the number of the noise secret that such a sum lets go of; none if all noise is needed.

        Raises:
            UsageError: more dropouts than the noise was planned for.
        """
        if self.removable is None:
            return ()
        missing = self.removable.dropouts(survivors)
        return (missing,) if missing < self.removable.components else ()

    def describe(self) -> str:
        """Name the instance for people."""
        i = self.instance
        return f"round {i.round} reclustering {i.reclustering} cluster {i.cluster} attempt {i.attempt}"

    def share_digester(self) -> Callable[[int, int, str, bytes], bytes]:
        """Return f(owner, holder, kind, share), the published digest of a share.

        The server computes one for each two members twice; a function that keeps what they have in common
        makes that four times as fast.
        """
        context = crypto.digest_with("share context", *self.instance, more=3)

        def finish(owner: int, holder: int, kind: str, share: bytes) -> bytes:
            return crypto.share_digest(share, context(owner, holder, kind))

        return finish

    def keys_context(self, key_list: bytes) -> bytes:
        """Return what every agreed key of the attempt is bound to, given the digest of the key list."""
        return crypto.digest("keys context", *self.instance, self.binding, key_list)

    def lists_digest(self, key_list: bytes, sharers: frozenset[int]) -> bytes:
        """Return what a receipt states: the key list, and with whom the masks are shared."""
        return crypto.digest("lists", self.keys_context(key_list), *sorted(sharers))

    def seed_digest(self, owner: int, seed: bytes) -> bytes:
        """Return the published hash of a self-mask seed."""
        return crypto.digest("self-mask seed", *self.instance, owner, seed)

    def noise_digest(self, owner: int, number: int, secret: bytes) -> bytes:
        """Return the published hash of a secret of removable noise."""
        return crypto.digest("noise secret", *self.instance, owner, number, secret)


def key_list_digest(frames: dict[int, bytes]) -> bytes:
    """Return the digest of the adverts of an attempt (member index to signed frame)."""
    fields: list[bytes | int] = []
    for index in sorted(frames):
        fields += [index, frames[index]]
    return crypto.digest("key list", *fields)


def share_kinds(components: int) -> tuple[str, ...]:
    """Return what a member's shares are of, in the order of their digests."""
    return "seed", "key", *(f"noise {number}" for number in range(components))


def share_leaf(*digests: bytes) -> bytes:
    """Return a member's leaf in the owner's hash tree of shares: the digests of its shares."""
    return b"".join(digests)


def self_mask_key(seed: bytes, context: bytes) -> bytes:
    """Return the stream key of what hides a member's input until its seed is released."""
    return crypto.derive_key(seed, "self mask", context)
