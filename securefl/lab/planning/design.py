"""Design: a row of a plan."""

from collections.abc import Iterator
from dataclasses import dataclass

from securefl import scenario
from securefl.lab.planning.demand import PlanRequest
from securefl.methods import clustering, privacy, robust

MOST_TRIED = 3
"""Most reclusterings tried, unless given."""
MOST_ATOMS = 4
"""Number of atom sizes to try, smallest first, unless given."""
MAX_SIZE = 512
"""Largest m: clusters of m grow to 2 m - 1 members, and lists of messages hold 1,024."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """Arrangement of parties in a round."""

    size: int
    """m: members of the smallest cluster."""
    reclusterings: int = 1
    """R."""
    new_work: bool = False
    """True if each reclustering sums new local work."""
    atoms: int = 1
    """Members of an atom, a divisor of N and m; 1 for none."""

    @property
    def units_per_cluster(self) -> int:
        """Fewest atoms of a cluster; m without atoms."""
        return self.size // self.atoms

    def units(self, parties: int) -> int:
        """Return the number of atoms; N without atoms."""
        return parties // self.atoms

    def sizes(self, parties: int) -> tuple[int, ...]:
        """Return the members of the clusters of an assignment, larger first."""
        return tuple(
            self.atoms * u for u in clustering.cluster_sizes(self.units(parties), self.units_per_cluster)
        )

    @property
    def openings(self) -> int:
        """Sums that hold the same update."""
        return 1 if self.new_work else self.reclusterings

    @property
    def works(self) -> int:
        """Local trainings of a party in a round."""
        return self.reclusterings if self.new_work else 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Design:
    """Parameters of a row."""

    shape: Shape
    colluders: int
    """f: colluders in one cluster that the design tolerates."""
    threshold: int
    """t: members that open a sum."""
    min_survivors: int
    rule: scenario.Rule
    noise: privacy.Placement | None = None

    @property
    def honest(self) -> int:
        """h: honest survivors of each opened sum."""
        return self.min_survivors - self.colluders

    @property
    def sharers(self) -> int:
        """Parties that share the noise of the smallest opened sum."""
        return 1 if self.noise in {None, "local"} else self.honest


def shapes(demand: PlanRequest) -> Iterator[Shape]:
    """Yield all useful shapes: for each number of clusters the largest m, which makes the same clusters.

    Atoms divide N evenly and hold at least k parties.
    """
    n, least = demand.parties, max(2, demand.k)
    times = range(1, MOST_TRIED + 1) if demand.reclusterings is None else (demand.reclusterings,)
    divisors = [size for size in range(least, n // 2 + 1) if n % size == 0]
    tried = (1, *divisors[:MOST_ATOMS]) if demand.atoms is None else (demand.atoms,)
    for atoms in tried:
        units, fewest = n // atoms, max(2, -(-least // atoms))
        counts = sorted({units // count for count in range(1, units // fewest + 1)})
        for per_cluster in counts if demand.size is not None else _thin_sizes(counts):
            size = per_cluster * atoms
            if size > MAX_SIZE or demand.size not in {None, size}:
                continue
            for again in times:
                yield Shape(size=size, reclusterings=again, atoms=atoms)
                if again > 1 and atoms == 1:
                    yield Shape(size=size, reclusterings=again, new_work=True)


def _thin_sizes(sizes: list[int]) -> Iterator[int]:
    """Yield the first sizes, and larger ones at distances of 12 %, as others differ little."""
    last = 0
    for size in sizes:
        if size > 1.12 * last or size == sizes[-1]:
            yield size
            last = size


def threshold_of(sizes: tuple[int, ...], f: int, min_survivors: int, server: str) -> int | None:
    """Return t with 2 t - m > f, as an active server requires; None if fewer may survive.

    For a curious server it is at most ``min_survivors``.
    """
    wanted = scenario.majority_of(max(sizes), f)
    if server == "curious":
        return min(wanted, min_survivors)
    return wanted if wanted <= min_survivors else None


def rules(byzantine: int, clusters: int, spoiled: int) -> Iterator[scenario.Rule]:
    """Yield rules that withstand ``spoiled`` of ``clusters`` clusters; without Byzantine parties the mean."""
    if not byzantine:
        yield robust.Mean()
        return
    candidates: tuple[scenario.Rule, ...] = (
        robust.TrimmedMean(trim=spoiled),
        robust.MultiKrum(byzantine=spoiled),
        robust.Median(),
    )
    for rule in candidates:
        if clusters >= rule.clusters_needed and robust.breakdown(rule, clusters) >= spoiled:
            yield rule


def kept_of(rule: scenario.Rule, clusters: int) -> int:
    """Return b: cluster means in a rule's result at each coordinate."""
    match rule:
        case robust.TrimmedMean():
            return clusters - 2 * rule.at_each_end(clusters)
        case robust.MultiKrum(byzantine=number):
            return clusters - number
        case robust.Median():
            return 1 if clusters % 2 else 2
        case _:
            return clusters
