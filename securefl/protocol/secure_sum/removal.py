"""Noise that can be subtracted from a sum again, as far as dropouts did not make it necessary.

Component k, from 1 to T, is needed if k members or more have dropped out. Each member adds all components,
from secrets that it shares like its self-mask seed. Survivors release those that the certified survivor set
makes superfluous (docs/protocol.md, "Noise that dropouts do not change"). The secrets form a one-way chain,
so one secret, numbered by the dropouts, gives all superfluous components and no needed one.

Source: Jiang et al. (Dordis, arXiv 2209.12528), XNoise; there each component has its own seed.

Also the server's store of masked inputs between arrival and freeze.
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
    """Removable noise of a run, the same for all members of all clusters."""

    planned: int
    """Members of the largest planned cluster; those that a smaller one lacks count as dropouts."""
    components: int
    """T: tolerated dropouts."""
    expand: Callable[[int, bytes], Ring] = field(repr=False, compare=False)
    """Function of a component's number from 1 and its single-use 32-byte key to ring words, (d,)."""

    def __post_init__(self) -> None:
        if not 0 <= self.components <= min(scenario.MAX_COMPONENTS, self.planned - 1):
            raise UsageError(
                f"components must be from 0 to {min(scenario.MAX_COMPONENTS, self.planned - 1)} in a"
                f" cluster of {self.planned}, found {self.components}"
            )

    def dropouts(self, survivors: int) -> int:
        """Return the number of planned members missing from a sum of ``survivors``.

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
    """Draw a member's first noise secret, 32 bytes."""
    return entropy.child("noise secrets").draw(32)


def secret_chain(first: bytes, count: int) -> tuple[bytes, ...]:
    """Return ``count`` secrets of 32 bytes from ``first``, each derived from the previous one."""
    chain = [first][:count]
    while len(chain) < count:
        chain.append(crypto.derive_key(chain[-1], "noise chain", b""))
    return tuple(chain)


def components_from(
    removable: Removable, instance: Instance, owner: int, secret: bytes, number: int
) -> Iterator[Ring]:
    """Yield the components that follow from ``secret``, the owner's secret ``number`` (0 gives all).

    Equal secrets of two attempts give unrelated noise.
    """
    context = crypto.digest("noise component", *instance, owner)
    for place, one in enumerate(secret_chain(secret, removable.components - number), number + 1):
        yield removable.expand(place, crypto.derive_key(one, "noise component", context))


class VectorStore(Protocol):
    """Store of masked inputs by handle: uniform bytes, which disclose nothing."""

    def put(self, vector: bytes) -> int:
        """Store ``vector`` and return its handle."""
        ...

    def get(self, handle: int) -> bytes | memoryview:
        """Return the vector of ``handle``."""
        ...

    def discard_all(self) -> None:
        """Delete all vectors at the end of a round."""
        ...


class MemoryStore:
    """``VectorStore`` in memory."""

    def __init__(self) -> None:
        self._vectors: dict[int, bytes] = {}
        self._next = 0

    def put(self, vector: bytes) -> int:
        """Store ``vector`` and return its handle."""
        self._next += 1
        self._vectors[self._next] = vector
        return self._next

    def get(self, handle: int) -> bytes:
        """Return the vector of ``handle``."""
        return self._vectors[handle]

    def discard_all(self) -> None:
        """Delete all vectors."""
        self._vectors.clear()
