"""A plan for unit tests of the round."""

from __future__ import annotations

from securefl.base.crypto.identity import Identity
from securefl.base.crypto.roster import Roster
from securefl.base.entropy import InsecureSeededEntropy
from securefl.base.ids import SERVER
from securefl.methods.attacks.assignment import party_names
from securefl.methods.feasibility.limits import check
from securefl.protocol.round.shared.plan import RunPlan
from securefl.scenario.scenario import Scenario
from tests.simulation.world import RUN


def plan_of(scenario: Scenario, length: int = 4) -> RunPlan:
    """The plan of a scenario with a made-up roster."""
    root = InsecureSeededEntropy(3)
    known = {n: Identity.generate(n, root.child(n)).public for n in (*party_names(scenario.parties), SERVER)}
    parties = {name: identity for name, identity in known.items() if name != SERVER}
    return RunPlan(RUN, scenario, check(scenario), Roster(known[SERVER], parties), length)
