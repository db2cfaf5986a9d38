"""CrypTen's process globals for one member of one computation.

Each computation has its own communicator, configuration, generators and provider, installed during its turns.
"""

import copy
import importlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NoReturn

import numpy as np

from securefl.base.errors import UsageError
from securefl.base.ids import PartyId
from securefl.protocol.secure_sum.crypten.communicator import Communicator, Mailbox
from securefl.protocol.secure_sum.crypten.library import Library
from securefl.protocol.secure_sum.crypten.zeros import ZeroShares

_PROVIDERS = "__SUPPORTED_PROVIDERS"
_PROVIDER = "securefl"


@dataclass(frozen=True, slots=True)
class World:
    """Members of one computation, and one member's randomness."""

    members: Sequence[PartyId]
    rank: int
    zeros: ZeroShares
    provider: Any = None
    """Beaver triples, if any are needed."""
    device: str = "cpu"
    """"cpu" or "cuda"."""

    def __post_init__(self) -> None:
        if len(self.members) < 2:
            raise UsageError(
                f"members of a CrypTen computation must be at least 2, found {len(self.members)}: a single"
                " member would hold the value"
            )
        if not 0 <= self.rank < len(self.members):
            raise UsageError(
                f"rank must be from 0 to {len(self.members) - 1}, below the number of members, found"
                f" {self.rank}"
            )


class Globals:
    """CrypTen's globals of one computation."""

    def __init__(self, library: Library, world: World, mailbox: Mailbox, wait: Callable[[], None]) -> None:
        self._library = library
        self._world = world
        communicator = Communicator(library, mailbox, wait)
        self._set: dict[tuple[int, str], tuple[Any, Any]] = {}
        self._put(library.communicator, "get", lambda: communicator)
        self._put(library.communicator, "is_initialized", lambda: True)
        self._put(library.crypten.cfg, "config", _configuration(library))
        self._put(library.plain, "AUTOGRAD_ENABLED", value=False)
        self._generators: dict[str, Any] = dict.fromkeys(library.crypten.generators, Refusing())
        self._put(library.arithmetic, "PRZS", staticmethod(self._arithmetic_zero))
        self._put(library.binary, "PRZS", staticmethod(self._binary_zero))

    def _put(self, owner: Any, name: str, value: Any) -> None:
        self._set[id(owner), name] = (owner, value)

    @contextmanager
    def in_place(self) -> Iterator[None]:
        """Install this set; on exit, save the computation's values and restore the previous ones."""
        library = self._library
        found = {key: vars(owner)[key[1]] for key, (owner, _) in self._set.items()}
        providers = vars(library.mpc)[_PROVIDERS]
        generators = dict(library.crypten.generators)
        for (_, name), (owner, value) in self._set.items():
            setattr(owner, name, value)
        library.crypten.generators.update(self._generators)
        providers[_PROVIDER] = self._world.provider or Without()
        try:
            yield
        finally:
            self._generators = dict(library.crypten.generators)
            library.crypten.generators.update(generators)
            del providers[_PROVIDER]
            for key, (owner, _) in list(self._set.items()):
                self._set[key] = (owner, vars(owner)[key[1]])
                setattr(owner, key[1], found[key])

    def _arithmetic_zero(self, *size: Any, device: Any = None) -> Any:
        shape, words = _shape(size)
        return self._library.arithmetic.from_shares(
            self._tensor(self._world.zeros.arithmetic(words), shape, device), precision=0
        )

    def _binary_zero(self, *size: Any, device: Any = None) -> Any:
        shape, words = _shape(size)
        return self._library.binary.from_shares(
            self._tensor(self._world.zeros.binary(words), shape, device), precision=0
        )

    def _tensor(self, words: Any, shape: tuple[int, ...], device: Any) -> Any:
        tensor = self._library.torch.from_numpy(words.view(np.int64)).reshape(shape)
        return tensor if device is None else tensor.to(device)


class Refusing:
    """Replacement of CrypTen's generators, which are mt19937 with 32 effective bits of seed."""

    def __getitem__(self, key: object) -> NoReturn:
        raise UsageError(
            "cannot use CrypTen's own random generators: they are not secure here; draw shares of"
            " zero from ZeroShares"
        )


class Without:
    """Replacement of a provider for computations without tuples."""

    def __getattr__(self, name: str) -> NoReturn:
        raise UsageError(
            f"cannot use a CrypTen provider ({name}): this computation has none, as it needs no"
            " multiplication triples"
        )


@lru_cache(maxsize=1)
def _configuration(library: Library) -> Any:
    """Return the configuration, read-only for all computations but for ``cfg.temp_override``."""
    config = copy.deepcopy(library.crypten.cfg.config)
    config.mpc.provider = _PROVIDER
    importlib.import_module("omegaconf").OmegaConf.set_readonly(config, value=True)
    return config


def _shape(size: tuple[Any, ...]) -> tuple[tuple[int, ...], int]:
    flat = size[0] if len(size) == 1 and not isinstance(size[0], int) else size
    shape = tuple(int(n) for n in flat)
    return shape, int(np.prod(shape, dtype=np.int64))
