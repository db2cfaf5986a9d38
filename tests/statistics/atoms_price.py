"""Draws of whole runs, with and without atoms: clean clusters and parties that are counted.

``python -m tests.statistics.atoms_price`` prints the tables of ``docs/results/atoms.md``.
"""

from __future__ import annotations

import random
import statistics
from dataclasses import dataclass

from securefl.base.ids import PartyId
from securefl.methods.clustering.assignment import Assignment, draw_assignment
from securefl.methods.clustering.atoms import draw_unions, form_atoms
from securefl.methods.clustering.survivors import survivor_set


@dataclass(frozen=True)
class Setting:
    parties: int = 60
    byzantine: int = 6
    size: int = 12
    atoms: int = 1
    reclusterings: int = 5
    rounds: int = 20


def rounds_of(setting: Setting, chance: random.Random) -> list[Assignment]:
    """All assignments of one run."""
    names = [PartyId(f"p{i:03}") for i in range(setting.parties)]
    atom_seed = chance.randbytes(32)
    atoms = form_atoms(atom_seed, names, setting.atoms)
    drawn = []
    for _ in range(setting.rounds):
        seed, count, size, again = chance.randbytes(32), len(names), setting.size, setting.reclusterings
        if setting.atoms == 1:
            drawn.append(draw_assignment(seed, names, count, size, again))
            continue
        per_cluster = size // setting.atoms
        drawn.append(draw_unions(seed, atoms, per_cluster, again, fewest=size, wanted=count, largest=count))
    return drawn


def never_clean(setting: Setting, runs: int) -> tuple[float, float]:
    """Shares of benign parties that are in no clean cluster of a round, and of the whole run."""
    in_round = in_run = 0
    for run in range(runs):
        chance = random.Random(run)
        drawn = rounds_of(setting, chance)
        byzantine = set(chance.sample(drawn[0].participants, setting.byzantine))
        ever: set[PartyId] = set()
        for assignment in drawn:
            clean = {p for row in assignment.clusters for m in row if byzantine.isdisjoint(m) for p in m}
            in_round += setting.parties - setting.byzantine - len(clean)
            ever |= clean
        in_run += setting.parties - setting.byzantine - len(ever)
    benign = (setting.parties - setting.byzantine) * runs
    return in_round / (benign * setting.rounds), in_run / benign


def spread(setting: Setting, runs: int) -> float:
    """Standard deviation over runs of the spoiled clusters per assignment, averaged over a run."""
    means = []
    for run in range(runs):
        chance = random.Random(run)
        rows = [row for assignment in rounds_of(setting, chance) for row in assignment.clusters]
        byzantine = set(chance.sample(sorted(p for m in rows[0] for p in m), setting.byzantine))
        means.append(statistics.mean(sum(not byzantine.isdisjoint(m) for m in row) for row in rows))
    return statistics.stdev(means)


def counted(setting: Setting, dropout: float, min_survivors: int, runs: int) -> float:
    """Share of parties in the survivor set when each drops out with probability ``dropout`` in a round."""
    kept = 0
    for run in range(runs):
        chance = random.Random(run)
        for assignment in rounds_of(setting, chance):
            gone = {party for party in assignment.participants if chance.random() < dropout}
            instances = {(r, j): m for r, row in enumerate(assignment.clusters) for j, m in enumerate(row)}
            sent = {key: set(members) - gone for key, members in instances.items()}
            kept += len(survivor_set(instances, sent, min_survivors, assignment.atoms))
    return kept / (setting.parties * setting.rounds * runs)


def main() -> None:
    """Print the tables."""
    for atoms in (1, 2, 3, 4, 6):
        setting = Setting(atoms=atoms)
        in_round, in_run = never_clean(setting, 100)
        print(f"atoms of {atoms}: never clean in a round {in_round:.3f}, in the run {in_run:.3f}")
        print(f"  deviation of spoiled clusters over runs: {spread(setting, 100):.2f}")
        short = Setting(atoms=atoms, rounds=10)
        for least in (max(atoms, 2), 7):
            shares = [counted(short, dropout, least, 20) for dropout in (0.01, 0.05, 0.1)]
            print(f"  min_survivors {least}: counted " + ", ".join(f"{share:.3f}" for share in shares))


if __name__ == "__main__":
    main()
