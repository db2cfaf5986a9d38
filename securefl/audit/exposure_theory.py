"""What random reclusterings of a scenario's size expose: bounds, estimates, and a simulation of draws."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from securefl.audit.recorded import Recorded
from securefl.clustering.assignment import draw_assignment
from securefl.clustering.leakage.ledger import LeakageLedger, UpdateVersion
from securefl.clustering.leakage.modular import prime_from
from securefl.config.cast import party_names
from securefl.config.sizes import cluster_sizes, participants_of

_ROWS = 4_000
"""Sums that are simulated in all, at a millisecond each or less."""
_DRAWS = 5
_MOST = 40
"""Reclusterings that are looked at."""


@dataclass(frozen=True, slots=True)
class Expectation:
    """Of random reclusterings without dropouts, of one update."""

    participants: int
    clusters: int
    """C of each reclustering."""
    share_bound: int
    """ceil(n / c): so many are needed at least (SHARE, section on privacy)."""
    estimate: int
    """R* = ceil((N - 1) / (C - 1)): at which all are exposed, as a rule."""
    most: int
    """Reclusterings up to which draws were simulated."""
    alone: tuple[float, ...]
    """By R from 1 to ``most``: parties exposed to the server alone, mean of the draws."""
    pooled: tuple[float, ...]
    """With ``colluders`` drawn parties; they do not count themselves."""
    colluders: int
    draws: int

    @property
    def measured(self) -> int | None:
        """Fewest reclusterings at which every draw exposes everybody to the server alone."""
        return next((r for r, mean in enumerate(self.alone, start=1) if mean == self.participants), None)


def expectation(recorded: Recorded, colluders: int | None = None) -> Expectation | None:
    """Simulate draws of the scenario's size.

    Args:
        recorded: whose scenario and supposed colluders.
        colluders: their number, if it is not that of the supposed ones or, without any, 2.

    Returns:
        None where there is one cluster only, or too many parties for a simulation.
    """
    scenario = recorded.scenario
    count, size = participants_of(scenario), scenario.clustering.size
    clusters = len(cluster_sizes(count, size))
    if clusters < 2 or scenario.clustering.fixed:
        return None
    pooled = min(colluders or len(recorded.colluders) or 2, count - 1)
    estimate = -(-(count - 1) // (clusters - 1))
    most = min(max(estimate + 2, scenario.clustering.reclusterings), _MOST)
    draws = min(_DRAWS, _ROWS // (2 * most * clusters))
    if draws < 1:
        return None
    alone, together = [0.0] * most, [0.0] * most
    for draw in range(draws):
        for curve, known in ((alone, 0), (together, pooled)):
            for r, exposed in enumerate(_draw(f"{recorded.run} {draw}", count, size, most, known)):
                curve[r] += exposed / draws
    return Expectation(
        count, clusters, -(-count // clusters), estimate, most, tuple(alone), tuple(together), pooled, draws
    )


def _draw(name: str, count: int, size: int, most: int, colluders: int) -> list[int]:
    """Parties exposed after each of ``most`` random reclusterings."""
    seed = hashlib.sha256(b"securefl/1/audit draw " + name.encode()).digest()
    names = party_names(count)
    assignment = draw_assignment(seed, names, count, size, most)
    # The draw is random, so that its first parties are as good as any others.
    others = names[colluders:]
    ledger = LeakageLedger.begin(UpdateVersion(0), others, prime_from(seed))
    exposed = []
    for row in assignment.clusters:
        for members in row:
            if left := set(members).intersection(others):
                ledger = ledger.open(left)
        exposed.append(len(ledger.exposed))
    return exposed
