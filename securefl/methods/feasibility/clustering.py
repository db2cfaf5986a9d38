"""Limits of the options of clustering: what atoms and fixed clusters go with."""

from __future__ import annotations

from securefl.base.errors import ConfigError
from securefl.methods.feasibility.atoms import check_atoms
from securefl.scenario import Scenario


def check_clustering(scenario: Scenario) -> None:
    """Refuse atoms and fixed clusters where they contradict another field, or protect nobody unannounced.

    Raises:
        ConfigError: with the field to change, the reason and the remedy.
    """
    check_atoms(scenario)
    clustering, drawn = scenario.clustering, scenario.participation
    if not clustering.fixed:
        return
    if scenario.leakage.mode == "veto":
        raise ConfigError(
            "clustering.fixed",
            "whoever starts the run chooses fixed clusters, and may put a party among colluders for good",
            'leakage.mode = "report" for experiments (printed in every header), or leave it out',
        )
    if clustering.reclusterings > 1:
        raise ConfigError(
            "clustering.reclusterings",
            f"fixed clusters are the same every time, and {clustering.reclusterings} reclusterings would sum"
            " the same updates again",
            "1, or leave out clustering.fixed",
        )
    for name in ("count", "fraction"):
        if getattr(drawn, name) is not None:
            raise ConfigError(
                f"participation.{name}",
                "a draw of participants would take members out of fixed clusters",
                "leave it out, or leave out clustering.fixed",
            )
