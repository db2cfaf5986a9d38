"""A server that crafts a model: everybody trains on it, unless rounds are verified."""

from __future__ import annotations

import numpy as np
import pytest

from lying import CraftsModel
from securefl.protocol.kernel.effects import Finished
from securefl.protocol.round.shared.reports import ClaimConfirmed, ModelFinal
from securefl.scenario.scenario import Scenario
from tests.simulation.world import scenario
from tests.unit.misbehaviour.lab import Lab


def active(verify: str, **more: str) -> Scenario:
    return scenario(
        12,
        size="4",
        threshold="3",
        min_survivors="3",
        server="active",
        rounds="3",
        secure_sum__verify=f'"{verify}"',
        secure_sum__colluders="1",
        secure_sum__colluders_per_cluster="1",
        **more,
    )


def attacked(verify: str, *rounds: int) -> Lab:
    lab = Lab(active(verify), {"server": (CraftsModel(rounds=rounds),)})
    lab.run()
    return lab


def test_nobody_notices_where_rounds_are_not_verified() -> None:
    lab = attacked("off", 1)
    assert [len(lab.sums(round_)) for round_ in range(3)] == [3, 3, 3]
    assert not [r for n in lab.nodes.values() for r in n.rejects]
    honest = Lab(active("off"), {})
    honest.run()
    one, two = (lab.reports(ModelFinal)[0].params, honest.reports(ModelFinal)[0].params)
    assert not np.array_equal(one, two)


@pytest.mark.parametrize("verify", ["committee", "all"])
def test_verified_rounds_refuse_it_and_go_on_from_the_model_of_the_rule(verify: str) -> None:
    lab = attacked(verify, 1)
    assert isinstance(lab.server.outcome, Finished)
    assert [len(lab.sums(round_)) for round_ in range(3)] == [3, 0, 3]
    assert [one.round for one in lab.reports(ClaimConfirmed)] == [0, 2]
    refused = [r for name, n in lab.nodes.items() if name != "server" for r in n.rejects]
    assert {r.culprit for r in refused} == {"server"}
    assert {r.reason for r in refused} == {"starts a round with a model outside the verified chain"}
    assert len(refused) == 12


def test_a_server_that_always_crafts_ends_the_run_without_an_update_of_it() -> None:
    lab = attacked("committee", 1, 2)
    assert [len(lab.sums(round_)) for round_ in range(3)] == [3, 0, 0]
