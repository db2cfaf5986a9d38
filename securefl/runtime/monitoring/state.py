"""State of one process in metrics."""

from bisect import bisect_left
from collections import Counter
from collections.abc import Mapping
from copy import copy
from dataclasses import dataclass, field
from typing import Final

BOUNDS: Final = (0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 900.0, 3600.0)
"""Upper bounds of histogram buckets in seconds; the last bucket is open."""
JOINING: Final = "join"
MOST_VALUES: Final = 64
"""Maximum metrics of the model: a scenario may define hundreds."""


class Durations:
    """Histogram of durations in seconds."""

    def __init__(self, counts: tuple[int, ...] = (0,) * (len(BOUNDS) + 1), total: float = 0.0) -> None:
        self.counts = counts
        self.total = total

    def plus(self, seconds: float) -> "Durations":
        """Return the histogram with one more duration."""
        at = bisect_left(BOUNDS, seconds)
        counts = tuple(count + (place == at) for place, count in enumerate(self.counts))
        return Durations(counts, self.total + seconds)

    def buckets(self) -> list[tuple[str, int]]:
        """Return cumulative counts by upper bound, as Prometheus expects them."""
        found, below = [], 0
        for bound, count in zip((*BOUNDS, None), self.counts, strict=True):
            below += count
            found.append(("+Inf" if bound is None else str(bound), below))
        return found


@dataclass(slots=True)
class ProcessState:
    """Numbers of one process, all public to its operator. Counters begin with the process."""

    leads: bool
    """True for the server."""
    round: int | None = None
    step: str = JOINING
    """Step of the server's round."""
    rounds: int = 0
    """Rounds that ended."""
    expected: int | None = None
    joined: int = 0
    connected: int = 0
    """Parties that the broker has not reported as gone since their last message."""
    missing: tuple[str, ...] = ()
    """Peers in the latest wait reminder of this step."""
    waiting: bool = True
    """True while the server cannot begin or continue for lack of parties."""
    online: bool = False
    """True if connected to the broker."""
    ended: bool = False
    opened: int = 0
    lost: int = 0
    left_out: Counter[str] = field(default_factory=Counter)
    """Opened sums that entered no model, by ``rule`` or ``checks``."""
    seconds: dict[str, Durations] = field(default_factory=dict)
    """By step."""
    round_seconds: Durations = field(default_factory=Durations)
    messages: Counter[str] = field(default_factory=Counter)
    """By direction, seen from a party: ``up`` to the broker, ``down`` from it."""
    bytes: Counter[str] = field(default_factory=Counter)
    rejections: Counter[str] = field(default_factory=Counter)
    """By class (:func:`securefl.runtime.monitoring.rejections.rejection_class`)."""
    epsilon: float | None = None
    """The largest of all parties at the server, the own at a party."""
    failed_trainings: int | None = None
    """None if not known to this process."""
    values: Mapping[str, float] = field(default_factory=dict)
    """Metrics of the latest tested model."""
    restarts: int = 0
    """Starts of the run's server after the first."""
    reconnections: int = 0

    def snapshot(self) -> "ProcessState":
        """Return a copy that later reports do not change."""
        other = copy(self)
        for name in ("left_out", "messages", "bytes", "rejections"):
            setattr(other, name, Counter(getattr(self, name)))
        other.seconds = dict(self.seconds)
        return other

    def unready(self) -> list[str]:
        """Return the reasons why the process is not ready; empty if it is."""
        if self.ended:
            return ["the run has ended"]
        if not self.online:
            return ["not connected to the broker"]
        if self.leads and self.waiting:
            names = f", without {', '.join(self.missing)}" if self.missing else ""
            return [f"waiting for parties: {self.joined} of {self.expected or 0} have joined{names}"]
        return []
