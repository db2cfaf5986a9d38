"""Verified rounds under every rule, and what a server can reach that may lose sums (ADR 0044)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from msgspec import structs

from securefl.base.ids import PartyId
from securefl.protocol.kernel.effects import Aborted, Finished
from securefl.protocol.round.shared.chain import LOST
from securefl.protocol.round.shared.reports import ClustersDrawn
from securefl.scenario.aggregation import PreAggregation, Rule
from securefl.scenario.local_method import ServerOptimiser
from securefl.scenario.parts import names
from securefl.scenario.scenario import Scenario
from tests.simulation import world as simulated
from tests.simulation.lying import Followed, Sums, distinct, followed, other_claim, other_outcome, other_sums
from tests.simulation.world import Op, scenario
from tests.tiers import sampled

RULES = {
    "mean": "",
    "median": "",
    "trimmed-mean": ", trim = 1",
    "mean-around-median": ", byzantine = 1",
    "krum": ", byzantine = 1",
    "multi-krum": ", byzantine = 1, keep = 3",
    "bulyan": ", byzantine = 1",
    "geometric-median": "",
    "centred-clipping": ", radius = 1",
    "minimum-diameter": ", byzantine = 1",
    "sign-majority": ", step = 0.01",
}
STEPS = {
    "arc": '{type = "arc", byzantine = 1}',
    "bucketing": '{type = "bucketing", size = 2}',
    "nearest-neighbour-mixing": '{type = "nearest-neighbour-mixing", byzantine = 1}',
    "norm-clipping": '{type = "norm-clipping", radius = 1}',
}
ROBUST = [rule for rule in RULES if rule != "mean"]
P = [PartyId(f"p{i:02d}") for i in range(21)]
START = np.zeros(16, dtype=np.float32).tobytes()


def seven(**more: str) -> Scenario:
    """Seven clusters of three: enough for every rule with one Byzantine cluster."""
    settings = {
        "size": "3",
        "threshold": "3",
        "min_survivors": "3",
        "server": "active",
        "rounds": "2",
        "secure_sum__verify": '"committee"',
        "secure_sum__colluders": "1",
        "secure_sum__colluders_per_cluster": "1",
        "secure_sum__k_anonymity": "2",
        "server_optimiser": "{momentum = 0.5}",
    }
    return scenario(21, **{**settings, **more})


def under(rule: str) -> Scenario:
    return seven(aggregation__rule=f'{{type = "{rule}"{RULES[rule]}}}')


def test_all_rules_and_steps_are_here() -> None:
    of_own_data = {"fltrust", "zeno++", "inner-product"}
    assert {*RULES} == {*names(Rule)} - of_own_data
    assert {*STEPS} == {*names(PreAggregation)}


@pytest.mark.parametrize("optimiser", names(ServerOptimiser))
def test_verifiers_repeat_every_optimiser(optimiser: str) -> None:
    run = followed(seven(server_optimiser=f'{{type = "{optimiser}", learning_rate = 0.5}}', rounds="3"))
    assert isinstance(run.world.server.outcome, Finished)
    assert run.confirmed == [0, 1, 2]
    models = [run.world.models[n].tobytes() for n in range(3)]
    assert run.models(1, P) == {models[1]}
    assert run.models(2, P) == {models[2]}
    assert len({START, *models}) == 3


@pytest.mark.parametrize("rule", RULES)
def test_verifiers_repeat_every_rule(rule: str) -> None:
    run = followed(under(rule))
    assert isinstance(run.world.server.outcome, Finished)
    assert run.confirmed == [0, 1]
    assert run.models(1, P) == {run.world.models[1].tobytes()} != {START}


@pytest.mark.parametrize("step", STEPS)
def test_verifiers_repeat_every_step_before_a_rule(step: str) -> None:
    run = followed(
        seven(aggregation__pre_aggregation=f"[{STEPS[step]}]", aggregation__rule="{type='median'}")
    )
    assert run.confirmed == [0, 1]


def one_bit(model: Any) -> Any:
    changed = model.copy()
    changed[5] = np.nextafter(changed[5], np.float32(np.inf), dtype=np.float32)
    return changed


@pytest.mark.parametrize("rule", sampled(RULES, [*RULES][::5]))
def test_one_bit_of_the_model_is_refused_under_every_rule(rule: str) -> None:
    with other_outcome(params=one_bit):
        run = followed(under(rule), corrupt=[P[0]])
    assert run.confirmed == []
    assert run.models(1, P[1:]) <= {START}


def most(sums: Sums, limit: int) -> Sums:
    ring = sums[0].ring.copy()
    ring[:] = limit
    return (type(sums[0])(*sums[0].key, sums[0].members, sums[0].survivors, ring), *sums[1:])


@pytest.mark.parametrize("rule", sampled(ROBUST, ROBUST[::5]))
def test_more_than_f_in_a_cluster_reach_no_more_than_byzantine_parties_do(rule: str) -> None:
    """They choose their sum last: what their members could have sent, and no more."""
    made = under(rule)
    (drawn,) = [one for one in followed(made).world.reports(ClustersDrawn) if one.round == 0]
    corrupt = drawn.clusters[0][0][:2]
    sent = 1.5

    with other_sums(lambda sums: most(sums, int(3 * sent * 2**16))):
        lying = followed(made, corrupt=corrupt)
    assert 0 in lying.confirmed

    def byzantine(party: PartyId, round_: int, params: Any) -> Any:
        if party in drawn.clusters[0][0] and round_ == 0:
            return params + np.float32(sent)
        return distinct(party, round_, params)

    twin = simulated.World(made, length=16, train=byzantine).run()
    honest = [name for name in P if name not in corrupt]
    assert lying.models(1, honest) == {twin.models[1].tobytes()}


def five(**more: str) -> Scenario:
    settings = {
        "size": "4",
        "threshold": "3",
        "min_survivors": "3",
        "server": "active",
        "rounds": "2",
        "secure_sum__verify": '"committee"',
        "secure_sum__colluders": "1",
        "secure_sum__colluders_per_cluster": "1",
        "aggregation__rule": '{type = "median"}',
    }
    return scenario(20, **{**settings, **more})


def losing(made: Scenario, *clusters: int) -> Followed:
    """A run whose server says that releases of round 0 never came, for some clusters."""
    (drawn,) = [one for one in followed(made).world.reports(ClustersDrawn) if one.round == 0]
    mute = [Op("drop", name, "Release") for j in clusters for name in drawn.clusters[0][j]]
    return followed(made, ops=mute)


class TestLostSums:
    def test_a_step_takes_all_of_them(self) -> None:
        run = losing(five(), 2)
        assert [round_ for round_, _ in run.refused] == [0]
        assert "1 certified sum could not be opened, but the model needs all of them" in run.refused[0][1]
        assert run.models(1, P[:20]) <= {START}

    def test_a_server_that_claims_one_as_lost_is_refused(self) -> None:
        with other_claim(lambda claim: structs.replace(claim, sums=(LOST, *claim.sums[1:]))):
            run = followed(five())
        assert run.confirmed == []
        assert isinstance(run.world.server.outcome, Aborted)
        assert "only some of the certified sums" in run.reasons(P[:20])
