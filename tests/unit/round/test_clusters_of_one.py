"""m = 1, the baseline without secure sums: a ring "sum" of one, through the same protocol."""

from __future__ import annotations

import pytest

from securefl.protocol.round.shared.reports import ClustersDrawn, InstanceLost, RoundDone
from tests.simulation.world import Op, scenario
from tests.unit.misbehaviour.lab import Lab

ALONE = {
    "size": "1",
    "threshold": "1",
    "min_survivors": "1",
    "secure_sum__k_anonymity": "1",
    "leakage__mode": "report",
}


@pytest.mark.parametrize("server", ["curious", "active"])
@pytest.mark.parametrize("reclusterings", ["1", "2"])
def test_every_update_is_opened_by_itself(server: str, reclusterings: str) -> None:
    lab = Lab(scenario(5, rounds="2", server=server, reclusterings=reclusterings, **ALONE), {})
    lab.run()
    for drawn in lab.reports(ClustersDrawn):
        assert [sorted(row) for row in drawn.clusters] == [[(p,) for p in lab.parties]] * int(reclusterings)
    for round_ in range(2):
        assert set(lab.sums(round_)) == {(party,) for party in lab.parties}
        lab.assert_sums_right(round_)
    assert not any(node.rejects for node in lab.nodes.values())


def test_who_drops_out_costs_its_own_update_only() -> None:
    lab = Lab(scenario(5, **ALONE), {})
    lab.ops = [Op("crash", "p01", "KeyAdvert"), Op("drop", "p03", "MaskedInput")]
    lab.run()
    assert set(lab.sums(0)) == {("p00",), ("p02",), ("p04",)}
    (done,) = lab.reports(RoundDone)
    assert len(done.lost) == 2
    (unready,) = lab.reports(InstanceLost)
    assert unready.reason == "only 0 members advertised keys"
    lab.assert_sums_right(0)
