"""Noise that can be taken out of a sum again: as much as dropouts have not made necessary.

If fewer members survive, each of them has to carry more of the noise. So each adds components for all
dropouts that are tolerated, from secrets that it shares with the others like its self-mask seed, and the
survivors release what gives away exactly those components that the certified survivor set makes superfluous
(docs/protocol.md, "Noise that dropouts do not change").

Component k, from 1 to T, is needed if k members or more have dropped out. The secrets are a chain: each gives
the next ones, none gives an earlier one. So one secret, the one numbered by the dropouts, gives all
superfluous components and no needed one.

Source: Jiang et al. (Dordis, arXiv 2209.12528), XNoise; there each component has a seed of its own.

The store of masked inputs at the server between arrival and freeze: a port, and its simple form.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Protocol

from securefl import scenario
from securefl.base import crypto
from securefl.base.arrays import Ring
from securefl.base.entropy import Entropy
from securefl.base.errors import UsageError
from securefl.base.ids import Instance


@dataclass(frozen=True, slots=True)
class Removable:
    """The removable noise of a run, the same at all members of all clusters."""

    planned: int
    """Members of the largest cluster that is planned; those that a smaller one lacks count as dropouts."""
    components: int
    """T: dropouts that are tolerated."""
    expand: Callable[[int, bytes], Ring] = field(repr=False, compare=False)
    """Component's number from 1 and its key of 32 bytes, used for nothing else, to ring words, shape (d,)."""

    def __post_init__(self) -> None:
        """Refuse what can only be our own mistake."""
        if not 0 <= self.components <= min(scenario.MAX_COMPONENTS, self.planned - 1):
            raise UsageError(
                f"components must be from 0 to {min(scenario.MAX_COMPONENTS, self.planned - 1)} in a"
                f" cluster of {self.planned}, found {self.components}"
            )

    def dropouts(self, survivors: int) -> int:
        """The number of planned members missing from a sum of ``survivors``; 0 if it has more.

        Raises:
            UsageError: more dropouts than are tolerated.
        """
        missing = max(0, self.planned - survivors)
        if missing > self.components:
            raise UsageError(
                f"survivors must be at least {self.planned - self.components} (planned {self.planned}, at"
                f" most {self.components} dropouts), found {survivors}"
            )
        return missing


def noise_secret(entropy: Entropy) -> bytes:
    """Draw a member's first noise secret, 32 bytes, from its entropy for the attempt."""
    return entropy.child("noise secrets").draw(32)


def secret_chain(first: bytes, count: int) -> tuple[bytes, ...]:
    """``count`` secrets of 32 bytes, beginning with ``first``; each follows from the one before it."""
    chain = [first][:count]
    while len(chain) < count:
        chain.append(crypto.derive_key(chain[-1], "noise chain", b""))
    return tuple(chain)


def components_from(
    removable: Removable, instance: Instance, owner: int, secret: bytes, number: int
) -> Iterator[Ring]:
    """Yield what ``secret``, the owner's one numbered ``number`` (from 0), gives: the components after it.

    Args:
        removable: of the cluster.
        instance: the attempt; equal secrets of two attempts would give unrelated noise.
        owner: whose noise it is.
        secret: 32 bytes.
        number: 0 gives all components.
    """
    context = crypto.digest("noise component", *instance, owner)
    for place, one in enumerate(secret_chain(secret, removable.components - number), number + 1):
        yield removable.expand(place, crypto.derive_key(one, "noise component", context))


class VectorStore(Protocol):
    """Keeps wire vectors under handles. Masked inputs are uniform bytes: storing them discloses nothing."""

    def put(self, vector: bytes) -> int:
        """Keep ``vector`` and return its handle."""
        ...

    def get(self, handle: int) -> bytes | memoryview:
        """Return the vector of ``handle``."""
        ...

    def discard_all(self) -> None:
        """Forget everything: the round is over."""
        ...


class MemoryStore:
    """A ``VectorStore`` in memory."""

    def __init__(self) -> None:
        self._vectors: dict[int, bytes] = {}
        self._next = 0

    def put(self, vector: bytes) -> int:
        """Keep ``vector`` and return its handle."""
        self._next += 1
        self._vectors[self._next] = vector
        return self._next

    def get(self, handle: int) -> bytes:
        """Return the vector of ``handle``."""
        return self._vectors[handle]

    def discard_all(self) -> None:
        """Forget everything."""
        self._vectors.clear()
