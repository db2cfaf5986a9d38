"""Site of your own (docs/sites.md)."""

from collections.abc import Awaitable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

Arrays = Mapping[str, npt.NDArray[Any]]
"""Named arrays of floating-point numbers."""
Metrics = Mapping[str, Any]
"""Numbers by name; from ``evaluate`` also arrays of counts.

Metrics of ``evaluate`` that the scenario declares are summed over sites; all others stay in the site's log.
"""


@dataclass(frozen=True, slots=True)
class RoundContext:
    """Number, seed and sample limit of the round in which a site trains or evaluates.

    A test of your own site can make one:

    >>> import securefl
    >>> securefl.RoundContext(number=0, planned=10, seed=7).samples is None
    True
    """

    number: int
    """Number of the round, from 0."""
    planned: int
    """Largest number of rounds of the run."""
    seed: int
    """Seed below 2^63, specific to the site and the round; draws from it alone are repeatable."""
    samples: int | None = None
    """Limit on your first samples to use; None for all of them."""


@dataclass(frozen=True, slots=True)
class Delta:
    """Return value of ``fit`` in place of parameters: arrays to add to the parameters of the round.

    ``arrays`` has the names and shapes of the parameters.

    >>> import numpy as np, securefl
    >>> securefl.Delta({"weight": np.full((2, 3), 0.1)}).arrays["weight"].shape
    (2, 3)
    """

    arrays: Arrays


Fitted = tuple[Arrays | Delta, int, Metrics]
"""Parameters (or their change), the number of samples that they were trained on, and metrics."""
Judged = tuple[int, Metrics]
"""Number of samples, and metrics on them."""


class Site(Protocol):
    """Protocol of one party's data and training code.

    ``fit`` and ``evaluate`` may be coroutines; ``evaluate`` may be missing. Arrays have any shapes and any
    floating-point dtype; they are sent as f32.

    >>> import numpy as np, securefl
    >>> class Ward:
    ...     samples = 240
    ...     def __init__(self, name):
    ...         self.own = np.random.default_rng(len(name)).normal(1.0, size=(240, 4))
    ...     def parameters(self):
    ...         return {"mean": np.zeros(4)}
    ...     def fit(self, parameters, context):
    ...         return {"mean": self.own.mean(axis=0)}, self.samples, {}
    >>> path = securefl.save_weights("first.safetensors", Ward("p00").parameters())
    >>> scenario = securefl.load("quickstart", {"model": {"type": "weights", "file": "first.safetensors"},
    ...     "data": {}, "training": {}, "behaviours": [], "expect": []})
    >>> securefl.simulate(scenario, site=Ward, rounds=1).arrays()["mean"].shape
    (4,)
    """

    @property
    def samples(self) -> int:
        """Number of training samples, at least 1: the weight that the party declares before each round."""
        ...

    def parameters(self) -> Arrays:
        """Return the arrays that are sent, by name.

        The federation takes names and shapes from here, and the initial values from ``model.file``.
        """
        ...

    def fit(self, parameters: Arrays, context: RoundContext, /) -> Fitted | Awaitable[Fitted]:
        """Train from ``parameters``; return parameters (or a :class:`Delta`), samples used, and metrics.

        ``parameters`` are f32 copies that the site may change. If ``fit`` raises an error, the party sends
        zeros, and only the site's own log has the error.
        """
        ...


def tensor_text(array: npt.NDArray[Any]) -> str:
    """Return a text such as ``float32 (3, 4)``, for errors."""
    return f"{np.asarray(array).dtype} {tuple(np.asarray(array).shape)}"
