"""The benchmark of kinds: what it counts does not depend on the machine, and is the sum's alone."""

from __future__ import annotations

import json

import pytest

from securefl.base.entropy import InsecureSeededEntropy
from securefl.lab.bench.kinds import KINDS, run_kinds
from securefl.lab.bench.report import report_json


@pytest.mark.parametrize("members", [3, 4])
def test_rounds_and_bytes_of_each_kind(members: int) -> None:
    costs = {cost.kind: cost for cost in run_kinds([(members, 500)], 1, entropy=InsecureSeededEntropy(1))}
    assert costs.keys() == KINDS.keys()
    # Adverts, their list, input, freeze, release; masking has boxes and their list besides.
    assert (costs["masking"].rounds, costs["CrypTen"].rounds) == (7, 5)
    validated = costs.pop("CrypTen validated")
    # A share in words of 64 bits and the exported one; the rest is what checks say, the same for every d.
    assert 16 * 500 < validated.sent < 16 * 500 + 120_000 * (members - 2)
    assert validated.rounds > 30
    for cost in costs.values():
        assert 4 * 500 < cost.sent < 4 * 500 + 4000
        assert min(cost.member_seconds, cost.server_seconds, cost.wall_seconds) > 0
    assert costs["CrypTen"].sent < costs["masking"].sent
    (first, *_) = json.loads(report_json(list(costs.values())))
    assert first["kind"] == "masking"
