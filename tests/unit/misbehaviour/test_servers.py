"""Malicious servers: each attack ends in refusals, and no party releases what would open another."""

from __future__ import annotations

import pytest

import lying
from securefl.base.errors import ConfigError
from securefl.base.ids import PartyId
from securefl.protocol.round.shared.reports import SharesReleased, SurvivorsFrozen
from securefl.scenario.behaviours import Behaviour, ServerBehaviour
from securefl.scenario.parts import find
from securefl.scenario.scenario import Scenario
from tests.simulation.world import scenario
from tests.unit.misbehaviour.lab import Lab

ATTACKS = (lying.AsksBothShares, lying.ChangesSurvivors, lying.SplitsModel, lying.ReopensAttempt)
TWO_FREEZES = ATTACKS[:2]


def active(**more: str) -> Scenario:
    return scenario(
        11,
        size="5",
        threshold="4",
        min_survivors="4",
        server="active",
        rounds="3",
        secure_sum__colluders="1",
        secure_sum__colluders_per_cluster="1",
        secure_sum__k_anonymity="3",
        **more,
    )


def attacked(kind: type[ServerBehaviour], setting: Scenario | None = None) -> Lab:
    attack = kind(rounds=(1,))
    lab = Lab(setting or active(), {"server": (attack,)})
    lab.run()
    return lab


def releases(lab: Lab, round_: int) -> list[PartyId]:
    """Who released shares in a round, once for each time."""
    return [
        name
        for name, node in lab.nodes.items()
        for report in node.reports
        if isinstance(report, SharesReleased) and report.round == round_
    ]


@pytest.mark.parametrize("kind", ATTACKS)
def test_each_attack_is_refused_by_parties_and_the_other_rounds_stand(kind: type[ServerBehaviour]) -> None:
    lab = attacked(kind)
    assert len(lab.rounds_done()) == 3
    refused = [r for name, n in lab.nodes.items() if name != "server" for r in n.rejects]
    assert refused
    assert {r.culprit for r in refused} == {"server"}
    for round_ in range(3):
        once = releases(lab, round_)
        assert len(once) == len(set(once))
        lab.assert_sums_right(round_)
    for round_ in (0, 2):
        assert sorted(len(survivors) for survivors in lab.sums(round_)) == [5, 6]


@pytest.mark.parametrize("kind", TWO_FREEZES)
@pytest.mark.parametrize("reclusterings", ["1", "2"])
def test_two_survivor_sets_release_nothing(kind: type[ServerBehaviour], reclusterings: str) -> None:
    # The leakage ledger would stop some of it earlier.
    lab = attacked(kind, active(clustering__reclusterings=reclusterings, leakage__mode="report"))
    assert releases(lab, 1) == []
    assert lab.sums(1) == {}
    refusals = [r for name in lab.nodes if name != "server" for r in lab.refusals(name)]
    assert sum("the certificate has signatures of another statement" in reason for reason in refusals) == 11
    if kind is lying.AsksBothShares:
        assert sum("sends Freeze" in reason for reason in refusals) == 11


def test_a_party_with_a_model_of_its_own_stays_out() -> None:
    lab = attacked(lying.SplitsModel)
    victim = PartyId("p00")
    assert any("with another model" in reason for reason in lab.refusals(victim))
    done = lab.rounds_done()[1]
    assert victim not in done.participants
    assert sorted(len(survivors) for survivors in lab.sums(1)) == [5, 5]
    assert victim not in releases(lab, 1)
    assert victim in lab.rounds_done()[2].survivors


def test_an_opened_sum_is_not_summed_again() -> None:
    lab = attacked(lying.ReopensAttempt)
    assert sorted(len(survivors) for survivors in lab.sums(1)) == [5, 6]
    asked = [name for name in lab.nodes if any("sends Retry" in reason for reason in lab.refusals(name))]
    assert len(asked) == 11 - 2
    assert all(any("sends Freeze" in r for r in lab.refusals(name)) for name in asked)
    adverts = [s for s in lab.sent if type(s[-1]).__name__ == "KeyAdvert"]
    assert len(adverts) == 3 * 11


def test_against_a_curious_configuration_two_survivor_sets_would_work() -> None:
    """The attack has teeth: without certificates, one half releases the seed and the other half the key."""
    lab = attacked(lying.ChangesSurvivors, scenario(10, size="5", rounds="2"))
    assert sorted(releases(lab, 1)) == [f"p{i:02d}" for i in range(10)]
    shown = {
        report.survivors
        for name in lab.nodes
        if name != "server"
        for report in lab.reports(SurvivorsFrozen, name)
        if report.round == 1
    }
    assert sorted(len(survivors) for survivors in shown) == [9, 10]


@pytest.mark.parametrize("kind", ATTACKS)
def test_in_other_rounds_the_server_is_honest(kind: type[ServerBehaviour]) -> None:
    lab = Lab(active(), {"server": (kind(rounds=(7,)),)})
    lab.run()
    assert all(node.rejects == [] for node in lab.nodes.values())
    assert [len(done.survivors) for done in lab.rounds_done()] == [11, 11, 11]


class Harmless(ServerBehaviour, frozen=True, kw_only=True):
    """A server behaviour of one's own that lacks its method."""


def test_a_class_without_around_is_refused() -> None:
    with pytest.raises(ConfigError, match="lacks around"):
        find(Behaviour, f"{__name__}:Harmless")


def test_the_kind_itself_is_refused() -> None:
    with pytest.raises(ConfigError, match="is an abstract base class"):
        find(Behaviour, "securefl.scenario.behaviours:ServerBehaviour")


def test_behaviours_go_around_each_other_the_first_one_inside() -> None:
    """Both act, each in its own round."""
    both = (lying.SplitsModel(rounds=(0,)), lying.ReopensAttempt(rounds=(1,)))
    lab = Lab(active(), {"server": both})
    lab.run()
    assert PartyId("p00") not in lab.rounds_done()[0].participants
    assert any("sends Retry" in reason for name in lab.nodes for reason in lab.refusals(name))
    lab.assert_sums_right(2)
