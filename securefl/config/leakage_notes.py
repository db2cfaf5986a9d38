"""Header lines on what the sums of a run may give away together."""

from __future__ import annotations

from collections.abc import Iterator

from securefl.config.atom_limits import leaks_all_at
from securefl.config.leakage_limits import all_exposed_at
from securefl.config.scenario import Scenario
from securefl.config.sizes import cluster_sizes, leakage_colluders, participants_of, works_of
from securefl.config.wording import count


def on_leakage(scenario: Scenario) -> Iterator[str]:
    """Yield a line on exposure where it is to be expected, and one on what parties do about it."""
    again, enough = scenario.clustering.reclusterings, all_exposed_at(scenario)
    atoms = scenario.clustering.atoms > 1
    if atoms and again > 1 and works_of(scenario) == 1:
        yield from _on_atoms(scenario)
    if again > 1 and enough is not None and again >= enough:
        participants = participants_of(scenario)
        clusters = len(cluster_sizes(participants, scenario.clustering.size))
        yield (
            f"LEAKAGE: {enough} random reclusterings of {participants} parties into {clusters} clusters as a"
            f" rule give away every update, and this run makes {again}"
        )
    if scenario.leakage.mode == "report":
        yield "LEAKAGE IS ONLY REPORTED: parties release sums that cross the published limits"
        return
    colluders, k = leakage_colluders(scenario), scenario.secure_sum.k_anonymity
    who = f"fewer than {colluders + k} parties (k = {k} and {count(colluders, 'colluder')})"
    if again > 1 and works_of(scenario) == 1 and not atoms:
        yield (
            f"leakage: no combination of a round's sums may tell about {who}; reclusterings that would cross"
            " that stay closed"
        )
    if scenario.leakage.leverage < 1:
        yield f"leakage: no party's leverage may be above {scenario.leakage.leverage:g}"


def _on_atoms(scenario: Scenario) -> Iterator[str]:
    clusters = len(cluster_sizes(participants_of(scenario), scenario.clustering.size))
    enough = leaks_all_at(scenario, clusters) if clusters > 1 else None
    if enough is not None and scenario.clustering.reclusterings >= enough:
        yield (
            f"leakage: {enough} random reclusterings as a rule give away the sum of each atom, and this run"
            f" makes {scenario.clustering.reclusterings}; further ones give away no more"
        )
