"""A site that returns what it got, for a process of its own."""

import resource
from typing import Any

import numpy as np


class Echo:
    """Costs nothing, so that what is measured is the way there and back.

    Args:
        name: of the party, which is how many numbers the site's one array has.
    """

    samples = 1

    def __init__(self, name: str) -> None:
        self._length = int(name)

    def parameters(self) -> dict[str, Any]:
        """An array that takes no memory."""
        return {"w": np.broadcast_to(np.float32(0), (self._length,))}

    def fit(
        self, parameters: dict[str, Any], context: object
    ) -> tuple[dict[str, Any], int, dict[str, float]]:
        """What came, and the bytes that this process has had resident at most, up to now."""
        del context
        return parameters, 1, {"peak": 1024.0 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss}
