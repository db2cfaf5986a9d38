"""Site that returns its input."""

import resource
from typing import Any

import numpy as np


class Echo:
    """Site without work, to measure the transfer. The party's name is the length of its only array."""

    samples = 1

    def __init__(self, name: str) -> None:
        self._length = int(name)

    def parameters(self) -> dict[str, Any]:
        """Return an array that takes no memory."""
        return {"w": np.broadcast_to(np.float32(0), (self._length,))}

    def fit(
        self, parameters: dict[str, Any], context: object
    ) -> tuple[dict[str, Any], int, dict[str, float]]:
        """Return the received parameters, and the peak resident bytes of this process."""
        del context
        return parameters, 1, {"peak": 1024.0 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss}
