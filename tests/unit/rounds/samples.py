"""A plan for unit tests of the round."""

from __future__ import annotations

from securefl.config.cast import party_names
from securefl.config.limits import check
from securefl.config.scenario import Scenario
from securefl.crypto.identity import Identity
from securefl.crypto.roster import Roster
from securefl.entropy import InsecureSeededEntropy
from securefl.ids import SERVER
from securefl.rounds.plan import Plan
from tests.simulation.world import RUN


def plan_of(scenario: Scenario, length: int = 4) -> Plan:
    """The plan of a scenario with a made-up roster."""
    root = InsecureSeededEntropy(3)
    known = {n: Identity.generate(n, root.child(n)).public for n in (*party_names(scenario.parties), SERVER)}
    parties = {name: identity for name, identity in known.items() if name != SERVER}
    return Plan(RUN, scenario, check(scenario), Roster(known[SERVER], parties), length)
