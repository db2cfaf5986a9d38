"""A site of your own (docs/sites.md): parameters, training, and a look at the model that comes.

Nothing in here imports more than numpy.
"""

from collections.abc import Awaitable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

Arrays = Mapping[str, npt.NDArray[Any]]
"""Named arrays of floating-point numbers."""
Metrics = Mapping[str, Any]
"""Numbers by name, of ``evaluate`` also arrays of counts. Those of ``evaluate`` that the scenario declares
are summed over sites; all others stay in the site's own log."""


@dataclass(frozen=True, slots=True)
class RoundContext:
    """Number, seed and sample limit of the round that a site trains or evaluates in."""

    number: int
    """From 0."""
    planned: int
    """How many rounds the run has at most."""
    seed: int
    """Below 2^63, the site's own and another one each round: what draws from it alone can be repeated."""
    samples: int | None = None
    """Use the first so many of your samples at most; None for all of them."""


@dataclass(frozen=True, slots=True)
class Delta:
    """Returned by ``fit`` in place of parameters: what is to be added to those that it was given."""

    arrays: Arrays


Fitted = tuple[Arrays | Delta, int, Metrics]
"""Parameters (or their change), the samples that they were trained on, and metrics."""
Judged = tuple[int, Metrics]
"""Samples, and metrics on them."""


class Site(Protocol):
    """One party's data and code. ``fit`` and ``evaluate`` may be coroutines; ``evaluate`` may be missing."""

    @property
    def samples(self) -> int:
        """How many samples it has, at least 1: the weight that the party declares before each round."""
        ...

    def parameters(self) -> Arrays:
        """The arrays that travel, by name: their values are not looked at, names and shapes are."""
        ...

    def fit(self, parameters: Arrays, context: RoundContext, /) -> Fitted | Awaitable[Fitted]:
        """Train from ``parameters``, f32 copies of its own; whatever it raises, the others get zeros."""
        ...


def tensor_text(array: npt.NDArray[Any]) -> str:
    """``float32 (3, 4)``, for errors."""
    return f"{np.asarray(array).dtype} {tuple(np.asarray(array).shape)}"
