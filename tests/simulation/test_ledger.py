"""What follows from the opened sums while the leakage ledger (protocol.md, step 8) is a pass-through."""

from __future__ import annotations

from tests.simulation.spy import Grasp, spying
from tests.simulation.world import World, scenario


def test_without_a_ledger_too_many_reclusterings_expose_everybody() -> None:
    """Four parties in pairs, three times: a + b, a + c and b + c are three equations for three updates.

    Everybody is honest here. All three pairings differ with probability 6 / 27, so some seed in 30 is such a
    draw. The leakage ledger will have to turn this test round: nobody alone.
    """

    def exposes(seed: int) -> bool:
        with spying() as spy:
            World(scenario(4, size="2", reclusterings="3"), seed=seed).run()
        return bool(Grasp(spy).alone())

    assert any(exposes(seed) for seed in range(30))


def test_two_reclusterings_in_clusters_of_three_leave_pairs() -> None:
    for seed in range(5):
        with spying() as spy:
            World(scenario(6, reclusterings="2"), seed=seed).run()
        assert Grasp(spy).groups()
        assert not Grasp(spy).alone()
