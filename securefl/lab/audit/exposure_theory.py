"""Expected exposure by random reclusterings: bounds, estimates, simulated draws."""

import hashlib
from collections.abc import Collection
from dataclasses import dataclass

from securefl.base.ids import PartyId
from securefl.lab.audit.recorded import Recorded
from securefl.methods import attacks, feasibility, leakage
from securefl.methods.clustering import (
    Assignment,
    atom_sizes,
    atoms_per_cluster,
    cluster_sizes,
    draw_assignment,
    draw_unions,
    form_atoms,
    participants_of,
)
from securefl.scenario import Scenario

_ROWS = 4_000
"""Most simulated sums, at up to a millisecond each."""
_DRAWS = 5
_MOST = 40


@dataclass(frozen=True, slots=True, kw_only=True)
class Expectation:
    """Expected exposure of one update without dropouts."""

    participants: int
    atoms: int
    """``participants`` without atoms."""
    clusters: int
    share_bound: int
    """Lower bound ceil(n / c), n in atoms (SHARE, section on privacy)."""
    estimate: int
    """R* = ceil((N - 1) / (C - 1)), N in atoms: usually determines every atom's sum."""
    most: int
    alone: tuple[float, ...]
    """Parties exposed to the server alone by R = 1 to ``most``, mean of the draws."""
    pooled: tuple[float, ...]
    """The same with ``colluders`` random colluders, who are not counted."""
    determined: tuple[float, ...]
    """Atoms whose sum the server alone can compute, by R; ``alone`` without atoms."""
    colluders: int
    draws: int

    @property
    def measured(self) -> int | None:
        """Smallest R at which every draw determines all atoms' sums; None if none does."""
        return next((r for r, mean in enumerate(self.determined, start=1) if mean == self.atoms), None)


def expectation(recorded: Recorded, colluders: int | None = None) -> Expectation | None:
    """Simulate draws of the scenario's size.

    ``colluders`` defaults to the number of assumed ones or, without any, 2. Return None for a single cluster,
    fixed clusters, too many parties, or task groups, which do not recluster.
    """
    scenario = recorded.scenario
    count, size = participants_of(scenario), scenario.clustering.size
    clusters = len(cluster_sizes(count, size))
    estimate = feasibility.leaks_all_at(scenario)
    if estimate is None or scenario.clustering.fixed or scenario.groups.count > 1:
        return None
    pooled = min(colluders or len(recorded.colluders) or 2, count - 1)
    atoms = len(atom_sizes(count, scenario.clustering.atoms))
    most = min(max(estimate + 2, scenario.clustering.reclusterings), _MOST)
    draws = min(_DRAWS, _ROWS // (2 * most * clusters))
    if draws < 1:
        return None
    alone, together, determined = [0.0] * most, [0.0] * most, [0.0] * most
    for draw in range(draws):
        seed = hashlib.sha256(f"securefl/1/audit draw {recorded.run} {draw}".encode()).digest()
        drawn = _drawn(scenario, seed, attacks.party_names(count), most)
        # Random: the draw shuffles the participants.
        others = drawn.participants[pooled:]
        curves = [(alone, drawn.participants), (together, others)]
        if drawn.atoms:
            curves.append((determined, tuple(atom[0] for atom in drawn.atoms)))
        for curve, of in curves:
            for r, exposed in enumerate(_exposed_counts(drawn, of, leakage.prime_from(seed))):
                curve[r] += exposed / draws
    return Expectation(
        participants=count,
        atoms=atoms,
        clusters=clusters,
        share_bound=-(-atoms // clusters),
        estimate=estimate,
        most=most,
        alone=tuple(alone),
        pooled=tuple(together),
        determined=tuple(determined if atoms < count else alone),
        colluders=pooled,
        draws=draws,
    )


def _drawn(scenario: Scenario, seed: bytes, names: tuple[PartyId, ...], reclusterings: int) -> Assignment:
    clustering, count = scenario.clustering, len(names)
    if clustering.atoms == 1:
        return draw_assignment(seed, names, count, clustering.size, reclusterings)
    return draw_unions(
        seed,
        form_atoms(seed, names, clustering.atoms),
        atoms_per_cluster(scenario.clustering),
        reclusterings,
        fewest=count,
        wanted=count,
        largest=count,
    )


def _exposed_counts(drawn: Assignment, of: Collection[PartyId], prime: int) -> list[int]:
    """Return how many parties of ``of`` are exposed after each reclustering, if other updates are known.

    With one member of each atom, this counts determined sums of atoms.
    """
    ledger = leakage.LeakageLedger.begin(leakage.UpdateVersion(0), of, prime)
    exposed = []
    for row in drawn.clusters:
        for members in row:
            if left := set(members).intersection(of):
                ledger = ledger.open(left)
        exposed.append(len(ledger.exposed))
    return exposed
