"""What the leakage ledger (protocol.md, step 8) has to stop, once it exists."""

from __future__ import annotations

import pytest

from tests.simulation.spy import Grasp, spying
from tests.simulation.world import World, scenario


@pytest.mark.xfail(strict=True, reason="the ledger is a pass-through: nobody counts openings yet")
def test_reclusterings_of_one_update_never_determine_it() -> None:
    """Four parties in pairs, three times: a + b, a + c and b + c are three equations for three updates.

    Everybody is honest here. All three pairings differ with probability 6 / 27; seed 3 is such a draw.
    """
    with spying() as spy:
        World(scenario(4, size="2", reclusterings="3"), seed=3).run()
    assert not Grasp(spy).alone()


def test_two_reclusterings_in_clusters_of_three_leave_pairs() -> None:
    for seed in range(5):
        with spying() as spy:
            World(scenario(6, reclusterings="2"), seed=seed).run()
        assert Grasp(spy).groups()
        assert not Grasp(spy).alone()
