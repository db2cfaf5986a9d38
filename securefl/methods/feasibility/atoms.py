"""Limits of atoms."""

import itertools

from securefl.base.errors import ConfigError
from securefl.base.sums import exact_sum
from securefl.methods.clustering import (
    atom_draws,
    atom_sizes,
    cluster_sizes,
    hides_groups,
    odds,
    participants_of,
    planned_atoms,
    r_star,
    rests_on_chance,
)
from securefl.scenario import Scenario


def check_atoms(scenario: Scenario) -> None:
    """Raise a ConfigError for atoms that are too small, or of which clusters are not unions."""
    clustering, sums = scenario.clustering, scenario.secure_sum
    size = clustering.atoms
    if size == 1:
        return
    if clustering.fixed:
        raise ConfigError(
            "clustering.atoms",
            "cannot be combined with clustering.fixed",
            "leave out clustering.fixed: atoms stay the same anyway",
        )
    needed = sums.colluders_per_cluster + sums.k_anonymity
    if size < needed:
        raise ConfigError(
            "clustering.atoms",
            f"is {size}, but the sum of an atom can become known: besides f = {sums.colluders_per_cluster}"
            f" colluders it needs k = {sums.k_anonymity} honest members",
            f"set it to at least {needed}",
        )
    if (hides_groups(scenario.groups) or scenario.model.by_columns) and clustering.size == size:
        return
    if clustering.size < 2 * size or clustering.size % size:
        more = max(2, -(-clustering.size // size)) * size
        raise ConfigError(
            "clustering.size",
            f"clusters of {clustering.size} do not consist of two or more whole atoms of {size}",
            f"set it to {more}, or another multiple of {size}",
        )
    if rests_on_chance(scenario):
        raise ConfigError(
            "clustering.atoms",
            f"shared noise covers f = {sums.colluders_per_cluster} of q = {sums.colluders} colluders in a"
            " cluster, but a server that knows the atoms can choose which of them are present",
            "set f = q, or local noise, or no atoms",
        )
    _check_draw(scenario, size)


def _check_draw(scenario: Scenario, size: int) -> None:
    """Raise a ConfigError if a draw of participants cannot consist of whole atoms."""
    drawn, participants = scenario.participation, participants_of(scenario)
    for name in ("count", "fraction"):
        if getattr(drawn, name) is not None and (participants % size or scenario.parties % size):
            raise ConfigError(
                f"participation.{name}",
                f"{participants} of {scenario.parties} parties would be drawn, in whole atoms of {size}: both"
                " numbers must be multiples of it",
                "change one of them, or leave it out",
            )


def p_atoms_held(scenario: Scenario) -> float:
    """Return P(no atom has more than f colluders), in every atom draw of the run."""
    sums = scenario.secure_sum
    sizes = atom_sizes(scenario.parties, scenario.clustering.atoms)
    held = odds.all_within(sizes, sums.colluders, lambda _size: sums.colluders_per_cluster)
    return float(held ** atom_draws(scenario))


def tolerated_dropouts(scenario: Scenario) -> tuple[int, ...]:
    """Return, by planned cluster, the tolerated number of dropouts, each of which removes its whole atom."""
    least = scenario.secure_sum.min_survivors
    return tuple(
        exact_sum(
            lost <= exact_sum(atoms) - least for lost in itertools.accumulate(sorted(atoms, reverse=True))
        )
        for atoms in planned_atoms(scenario)
    )


def leaks_all_at(scenario: Scenario) -> int | None:
    """Return R*: draws of clusters that typically determine every atom; None for one cluster."""
    participants = participants_of(scenario)
    atoms = len(atom_sizes(participants, scenario.clustering.atoms))
    return r_star(atoms, len(cluster_sizes(participants, scenario.clustering.size)))
