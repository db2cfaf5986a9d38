"""What reports say of privacy: what each party has spent, with its assumptions, or the word none."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cache
from typing import Any

import pytest
from rich.console import Console

from securefl.base.errors import ConfigError
from securefl.base.ids import PartyId
from securefl.methods.feasibility.limits import check
from securefl.methods.privacy.settling import settle
from securefl.methods.privacy.spending import ledger_of
from securefl.protocol.round.shared.plan import RunPlan
from securefl.protocol.round.shared.reports import AnyReport, ClustersDrawn, RoundDone
from securefl.runtime.report.metrics import RunMetrics
from securefl.runtime.report.outcome import RunEnd
from securefl.runtime.report.present import print_summary
from securefl.runtime.report.privacy import (
    OMNISCIENT,
    SEEDED,
    TOO_LITTLE,
    Accounts,
    forgoing,
    on_mechanism,
    why_none,
)
from securefl.runtime.report.records import RoundRecord
from securefl.runtime.report.summary import Summary, summarise
from securefl.scenario.scenario import Scenario
from tests.simulation.world import World, scenario
from tests.unit.round.samples import plan_of

SETS = {
    "size": "6",
    "threshold": "3",
    "min_survivors": "5",
    "rounds": "4",
    "secure_sum__colluders": "2",
    "secure_sum__colluders_per_cluster": "2",
    "encoding__clip": "1.0",
    "encoding__scale_bits": "9",
    "privacy__unit": "party",
    "privacy__placement": "threshold",
    "privacy__multiplier": "1.0",
    "privacy__budget": "30",
}
LENGTH = 8


def sentences(*arguments: Any, void: str | None) -> list[str]:
    return [one.whole for one in on_mechanism(*arguments, void=void)]


def settled(**sets: str) -> Scenario:
    plain = scenario(12, **{**SETS, **sets})
    check(plain)
    return settle(plain, LENGTH, None)


def plan(**sets: str) -> RunPlan:
    return plan_of(settled(**sets), LENGTH)


def accounts(of: RunPlan, *, seeded: bool = False, without: tuple[str, ...] = ()) -> Accounts:
    assert of.mechanism is not None
    void = why_none(of.scenario.behaviours, seeded=seeded)
    return Accounts(of, of.mechanism, void=void, without=[PartyId(name) for name in without])


@cache
def played() -> tuple[Scenario, RunPlan, tuple[AnyReport, ...]]:
    """Rounds in which 10 of 12 parties are drawn."""
    config = settled(participation__count="10", size="5", min_survivors="4")
    world = World(config, length=LENGTH)
    world.run()
    return config, world.plan, tuple(world.server.reports)


def metrics(*, seeded: bool = False, without: tuple[str, ...] = ()) -> tuple[RunMetrics, list[RoundRecord]]:
    config, of, reports = played()
    found = RunMetrics(config)
    found.account_for(accounts(of, seeded=seeded, without=without))
    for report in reports:
        found.on_report(0.0, report)
    found.on_end(RunEnd(reason="done"))
    return found, list(found.records)


def test_epsilon_of_every_party_and_round_is_that_of_its_own_ledger() -> None:
    _, of, reports = played()
    assert of.mechanism is not None
    _, records = metrics()
    made = dict.fromkeys(of.roster.parties, 0)
    drawn = [report for report in reports if isinstance(report, ClustersDrawn)]
    assert len(drawn) == len(records) == 4
    for clusters, record in zip(drawn, records, strict=True):
        for members in clusters.clusters[0]:
            for party in members:
                made[party] += 1
        assert record.epsilon is not None
        assert record.epsilon.keys() == of.roster.parties.keys()
        for party, spent in record.epsilon.items():
            assert spent is not None
            truth = ledger_of(of.mechanism, made[party]).epsilon() if made[party] else 0.0
            assert truth <= spent <= 1.003 * truth
    assert len(set(made.values())) > 1, "somebody rested"


def test_the_outcome_is_what_the_most_frequent_party_has_spent() -> None:
    found, _ = metrics()
    _, of, _ = played()
    assert of.mechanism is not None
    account = found.account()
    assert account is not None
    most = max(account.releases.values())
    assert found.outcome().epsilon == ledger_of(of.mechanism, most).epsilon()
    assert "if at most 2 of the other parties in a cluster collude or add no noise" in account.text
    assert account.text.startswith("epsilon ")


def test_with_seeded_entropy_there_is_none_whatever_was_drawn() -> None:
    found, records = metrics(seeded=True)
    account = found.account()
    assert account is not None
    assert (account.guarantee, account.text, account.epsilon) == (None, SEEDED, None)
    assert found.outcome().epsilon is None
    for record in records:
        assert record.epsilon is not None
        assert set(record.epsilon.values()) == {None}


def test_whoever_gives_its_guarantee_away_has_none() -> None:
    found, records = metrics(without=("p03", "p07"))
    account = found.account()
    assert account is not None
    assert account.forgoing == {"p03", "p07"}
    for record in records:
        assert record.epsilon is not None
        assert {party for party, spent in record.epsilon.items() if spent is None} == {"p03", "p07"}
    shown = settled(behaviours="[{kind='no-noise', parties=['p03']}, {kind='label-flip', parties=['p04']}]")
    assert forgoing(shown, 0) == {"p03"}


def test_rows_hold_it_and_are_read_again() -> None:
    _, records = metrics(without=("p03",))
    for record in records:
        row = json.loads(json.dumps(record.row()))
        assert row["epsilon"]["p03"] is None
        assert RoundRecord.from_row(row).epsilon == record.epsilon
    plain = RunMetrics(played()[0])
    for report in played()[2]:
        plain.on_report(0.0, report)
    assert "epsilon" not in plain.records[0].row()
    assert RoundRecord.from_row(json.loads(json.dumps(plain.records[0].row()))).epsilon is None


def test_a_resumed_simulation_counts_the_rounds_before() -> None:
    config, of, reports = played()
    _, records = metrics()
    resumed = RunMetrics(config, earlier=[RoundRecord.from_row(record.row()) for record in records[:2]])
    resumed.account_for(accounts(of))
    ends = [index for index, report in enumerate(reports) if type(report).__name__ == "RoundDone"]
    for report in reports[ends[1] + 1 :]:
        resumed.on_report(0.0, report)
    assert [record.epsilon for record in resumed.records[2:]] == [record.epsilon for record in records[2:]]


def test_a_round_whose_model_an_earlier_server_was_killed_testing_counts() -> None:
    """The next server knows how it ended, and has neither drawn its clusters nor opened its sums."""
    config, of, reports = played()
    _, records = metrics()
    ends = [index for index, report in enumerate(reports) if isinstance(report, RoundDone)]
    done = reports[ends[1]]
    assert isinstance(done, RoundDone)
    assert done.opened
    assert not done.lost

    def goes_on(earlier: Sequence[RoundRecord], *rest: AnyReport) -> tuple[RoundRecord, ...]:
        resumed = RunMetrics(config, earlier=[RoundRecord.from_row(record.row()) for record in earlier])
        resumed.account_for(accounts(of))
        for report in rest:
            resumed.on_report(0.0, report)
        return resumed.records

    made = goes_on(records[:1], *reports[ends[1] :])
    assert [record.epsilon for record in made] == [record.epsilon for record in records]
    assert made[1].counted == records[1].counted
    again = goes_on(made[:2], *reports[ends[1] + 1 :])
    assert [record.epsilon for record in again] == [record.epsilon for record in records]


def summary(found: RunMetrics) -> Summary:
    return summarise(run="r", scenario=played()[0], metrics=found, insecure=False, seconds=1.0, files={})


def printed(found: RunMetrics) -> str:
    return printed_summary(summary(found))


def printed_summary(shown: Summary) -> str:
    console = Console(width=200, record=True, file=None, force_terminal=False)
    with console.capture() as caught:
        print_summary(console, shown)
    return caught.get()


def test_omniscient_attackers_pass_on_what_has_no_noise() -> None:
    """They make their uploads of what honest parties trained, and the sums that hold those are opened."""
    known = "[{kind='alie', z=1.0, knowledge='omniscient', parties=['p03', 'p04']}]"
    assert why_none(settled(behaviours=known).behaviours, seeded=False) == OMNISCIENT
    assert why_none(settled(behaviours=known).behaviours, seeded=True) == SEEDED
    among_themselves = known.replace("omniscient", "coalition")
    assert why_none(settled(behaviours=among_themselves).behaviours, seeded=False) is None


def test_too_little_noise_for_any_epsilon_is_named() -> None:
    """Header and summary stated "none" without a reason, in a run that adds noise (`make realistic`)."""
    of = plan(privacy__multiplier="0.02", privacy__budget="", encoding__scale_bits="12")
    assert sentences(of.scenario, of.limits, of.mechanism, void=None)[-1] == TOO_LITTLE
    found = RunMetrics(of.scenario)
    counted = accounts(of)
    counted.count([PartyId(f"p{number:02d}") for number in range(12)])
    found.account_for(counted)
    assert "differential privacy: none (no finite epsilon bounds so little noise" in printed(found)


def test_the_summary_says_it_in_words_and_in_numbers() -> None:
    found, _ = metrics(without=("p03",))
    text = printed(found)
    assert "differential privacy: epsilon " in text
    assert "party level, add-remove, no sampling" in text
    assert "no guarantee for p03" in text
    told = summary(found).to_json()
    view, privacy = told["server_view"], told["privacy"]
    assert isinstance(view, dict)
    assert isinstance(privacy, dict)
    assert view["differential_privacy"] == privacy["guarantee"]
    assert privacy["unit"] == "party"
    assert privacy["colluding_mates"] == 2
    assert privacy["without_guarantee"] == ["p03"]
    seeded, _ = metrics(seeded=True)
    assert "differential privacy: none (noise, rounding and batches follow from --seed" in printed(seeded)
    json.dumps(told, allow_nan=False)


def test_the_header_names_all_that_an_epsilon_needs() -> None:
    of = plan()
    assert of.mechanism is not None
    lines = sentences(of.scenario, of.limits, of.mechanism, void=None)
    std = of.mechanism.table.std
    assert f"each party adds {std:.4g} steps (h = 3)" in lines[0]
    assert "multiplier 1 on a sensitivity of" in lines[0]
    assert lines[1] == (
        "privacy budget: all 4 releases: epsilon 30 at delta 0.065 (party level, add-remove, no sampling)"
    )
    assert lines[-2].startswith("LARGE DELTA: epsilon may fail with chance 6.5 %")
    assert "state a smaller privacy.delta, or have more parties" in lines[-2]
    assert ", delta 0.065 for each party (add-remove, no sampling): at most epsilon" in lines[-1]
    stated = plan(privacy__delta="0.01")
    assert stated.mechanism is not None
    said = sentences(stated.scenario, stated.limits, stated.mechanism, void=None)
    assert not [line for line in said if "LARGE DELTA" in line]
    last = lines[-1]
    for part in ("at most epsilon", "PLD; RDP", "at delta 0.065", "party level", "add-remove", "no sampling"):
        assert part in last
    assert sentences(of.scenario, of.limits, of.mechanism, void=SEEDED)[-1] == SEEDED
    public = plan_of(scenario(6), LENGTH)
    assert sentences(public.scenario, public.limits, None, void=None) == []


def test_the_header_says_what_a_small_budget_buys() -> None:
    of = plan(privacy__budget="3")
    allowed = of.scenario.privacy.releases
    assert allowed is not None
    assert 1 <= allowed < 4
    said = "\n".join(sentences(of.scenario, of.limits, of.mechanism, void=None))
    assert "releases, then the party leaves: epsilon 3 at delta" in said
    assert f"privacy budget: {allowed} of 4 releases, then the party leaves" in said
    assert f"{allowed} step" in said.splitlines()[-1]


def test_the_header_warns_of_a_scale_at_which_rounding_costs_much_and_shows_the_transfer() -> None:
    coarse = plan(encoding__scale_bits="0", privacy__multiplier="8", privacy__transfer="{multiplier=2}")
    said = "\n".join(sentences(coarse.scenario, coarse.limits, coarse.mechanism, void=SEEDED))
    assert "a finer encoding.scale_bits costs less noise" in said
    assert "server learning rate: 1 x 2 / 8 = 0.25" in said


def test_without_the_accountants_library_only_seeded_runs_are_possible(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    of = plan()
    monkeypatch.setattr("securefl.methods.privacy.accountant.importlib.util.find_spec", lambda _name: None)
    with pytest.raises(ConfigError, match=r"securefl\[dp\]"):
        accounts(of)
    accounts(of, seeded=True)
