"""What checks leave out is counted against who deviates; the power of the noise floor is stated."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import cache
from itertools import product

import numpy as np
import pytest
from rich.console import Console

from securefl.base.errors import ConfigError
from securefl.base.ids import PartyId
from securefl.methods.attacks.parts.scale import Scale
from securefl.methods.privacy.checks.energy import floor_power
from securefl.protocol.kernel.effects import Aborted
from securefl.protocol.round.party.upload import Seams
from securefl.protocol.round.server.features.checking import agreed_terms
from securefl.protocol.round.shared.reports import ModelStepped, RoundDone
from securefl.runtime.report.checks import check_lines, on_power, verdict_of
from securefl.runtime.report.metrics import RunMetrics
from securefl.runtime.report.outcome import RunEnd
from securefl.runtime.report.present import print_summary
from securefl.runtime.report.records import RoundRecord
from securefl.runtime.report.summary import summarise
from securefl.scenario.behaviours import Behaviour, NoNoise
from securefl.scenario.load import parse_scenario
from tests.simulation.world import Op, World, scenario
from tests.unit.scenario.samples import refusal

SETS = {
    "privacy__unit": "party",
    "privacy__multiplier": "0.5",
    "privacy__delta": "0.05",
    "encoding__clip": "1.0",
    "encoding__scale_bits": "7",
    "checks__kind": "corrected",
    "clustering__fixed": "true",
    "leakage__mode": "report",
}
SILENT = Seams(noise=lambda noise, _occasion: np.zeros_like(noise))


def party(index: int) -> PartyId:
    return PartyId(f"p{index:02d}")


@cache
def world(*skippers: int, rounds: int = 2, drop: bool = False) -> World:
    """Six parties in two fixed clusters of three; skippers add no noise, p05 may fall silent in round 1."""
    ops = (Op("drop", party(5), "MaskedInput", 1),) if drop else ()
    config = scenario(6, rounds=str(rounds), **SETS)
    return World(config, length=1024, seams={party(i): SILENT for i in skippers}, ops=ops).run()


def metrics_of(played: World, cast: dict[PartyId, tuple[Behaviour, ...]]) -> RunMetrics:
    metrics = RunMetrics(played.plan.scenario)
    metrics.watch(played.plan, cast)
    for report in played.server.reports:
        metrics.on_report(0.0, report)
    return metrics


def homes(played: World) -> dict[PartyId, int]:
    """The fixed cluster of each party."""
    first = played.reports(RoundDone)[0]
    assert first.opened == ((0, 0), (0, 1))
    record = metrics_of(played, {}).records[0]
    return {one: seen.cluster for seen in record.sums for one in seen.members}


def test_sums_are_counted_by_survivors_and_by_who_adds_no_noise() -> None:
    played = world(2, drop=True)
    metrics = metrics_of(played, {party(2): (NoNoise(parties=("p02",)),)})
    found = metrics.check_results()
    assert found is not None
    expected: dict[tuple[int, int], tuple[int, int]] = {}
    for record, seen in ((one, seen) for one in metrics.records for seen in one.sums):
        kind = len(seen.counted), int(party(2) in seen.counted)
        sums, failed = expected.get(kind, (0, 0))
        expected[kind] = sums + 1, failed + ((0, seen.cluster) in record.failed)
    assert {(one.survivors, one.silent): (one.sums, one.failed) for one in found.tallies} == expected
    assert {2, 3} == {survivors for survivors, _ in expected}
    outcome = metrics.outcome()
    assert (outcome.checks_failed, outcome.skippers_failed, outcome.false_alarms) == (2, 1.0, 0)
    assert [list(record.failed) for record in metrics.records] == [[(0, homes(played)[party(2)])]] * 2
    assert all(record.rejected == () for record in metrics.records)
    for one in found.tallies:
        assert (one.power is None) == (one.silent == 0)
        assert one.power is None or one.power > 0.99


def test_whoever_is_not_said_to_skip_makes_for_false_alarms() -> None:
    """Of a real skipper that the scenario does not know, or only in other rounds; an attacker is none."""
    played = world(2)
    later = metrics_of(played, {party(2): (NoNoise(parties=("p02",), rounds=(1,)),)}).outcome()
    assert (later.checks_failed, later.skippers_failed, later.false_alarms) == (2, 1.0, 1)
    known = metrics_of(played, {party(2): (Scale(parties=("p02",), factor=-5.0),)}).outcome()
    assert (known.checks_failed, known.skippers_failed, known.false_alarms) == (2, None, 0)
    plain = RunMetrics(played.plan.scenario).outcome()
    assert (plain.checks_failed, plain.skippers_failed, plain.false_alarms) == (None, None, None)


def test_rows_and_summary_hold_what_failed_and_why() -> None:
    played = world(2)
    cast: dict[PartyId, tuple[Behaviour, ...]] = {party(2): (NoNoise(parties=("p02",)),)}
    metrics = metrics_of(played, cast)
    metrics.on_end(RunEnd(reason="done"))
    record = metrics.records[0]
    row = json.loads(json.dumps(record.row()))
    (entry,) = row["clusters"]["failed"]
    assert entry["reason"].startswith("noise floor: energy -")
    assert RoundRecord.from_row(row).failed == record.failed
    del row["clusters"]["failed"]
    assert RoundRecord.from_row(row).failed == {}, "rows of former versions"
    summary = summarise(
        run="r", scenario=played.plan.scenario, metrics=metrics, insecure=False, seconds=1.0, files={}
    )
    told = json.loads(json.dumps(summary.to_json(), allow_nan=False))
    assert told["checks"]["failed"] == 2
    assert told["rounds"][0]["failed"] == 1
    (with_skipper,) = [one for one in told["checks"]["by_members"] if one["without_noise"]]
    assert with_skipper["failed"] == with_skipper["sums"] == 2
    console = Console(record=True, width=200, force_terminal=False, file=None)
    with console.capture() as shown:
        print_summary(console, summary)
    text = shown.get()
    assert "2 of 4 sums left out; of those 0 where all keep to what was agreed" in text
    assert "sums of 3 of whom 1 adds no noise: 2 of 2 left out; without signals more than 99.9 %" in text
    assert "1 sum out by checks" in text
    assert "1 cluster left out by the checks" in played.reports(RoundDone)[0].line()


def test_evidence_is_kept_over_rounds_and_names_the_cluster_of_a_skipper() -> None:
    played = world(2)
    cast: dict[PartyId, tuple[Behaviour, ...]] = {party(2): (NoNoise(parties=("p02",)),)}
    metrics = metrics_of(played, cast)
    home = homes(played)
    mates = tuple(sorted(p for p in home if home[p] == home[party(2)]))
    rows = [json.loads(json.dumps(record.row())) for record in metrics.records]
    (first,), (second,) = ([e for e in row["evidence"] if e["parties"] == list(mates)] for row in rows)
    assert 2 < first["highest"] < second["highest"] - 2, "products grow"
    assert [RoundRecord.from_row(row).suspects[0].parties for row in rows] == [
        record.suspects[0].parties for record in metrics.records
    ]
    found = metrics.check_results()
    assert found is not None
    assert found.verdict is not None
    assert [one.parties for one in found.verdict.named] == [mates]
    told = json.loads(json.dumps(found.to_json()))["evidence"]
    assert told["named"] == [list(mates)]
    assert told["false_alarm_rate"] == 0.01
    assert told["at_most_byzantine"] is None
    assert (
        f"evidence over rounds names {'+'.join(mates)}; wrongly with probability at most 1 % in the whole run"
        in check_lines(found)
    )
    honest = metrics_of(world(), {}).check_results()
    assert honest is not None
    assert honest.verdict is not None
    assert honest.verdict.named == ()
    assert "evidence over rounds names nobody: at most 10^0." in honest.verdict.text
    resumed = RunMetrics(played.plan.scenario, earlier=[RoundRecord.from_row(row) for row in rows])
    resumed.watch(played.plan, cast)
    again = resumed.check_results()
    assert again is not None
    assert again.verdict is not None
    assert again.verdict.named[0].parties == mates
    changing = replace(
        world(2).plan, scenario=scenario(6, rounds="2", **{**SETS, "clustering__fixed": "false"})
    )
    assert verdict_of(changing, metrics.records) is None, "no Byzantine parties are reckoned with"


def test_together_they_cost_a_cluster_and_apart_the_round_which_ends_like_any_other() -> None:
    """A run of four rounds does not end by the three in a row that have no update; only at its end."""
    home = homes(world(2))
    mate = next(p for p in home if p != party(2) and home[p] == home[party(2)])
    longer = homes(world(2, rounds=4))
    stranger = next(p for p in longer if longer[p] != longer[party(2)])
    together, apart = world(2, int(mate[1:])), world(2, int(stranger[1:]), rounds=4)
    assert [done.failed for done in together.reports(RoundDone)] == [((0, home[party(2)]),)] * 2
    assert all(report.update_norm is not None for report in together.reports(ModelStepped))
    done = apart.reports(RoundDone)
    assert [one.failed for one in done] == [((0, 0), (0, 1))] * 4
    assert all((one.kept, one.rejected, one.lost) == ((), (), ()) for one in done)
    assert all(report.update_norm is None for report in apart.reports(ModelStepped))
    assert apart.server.outcome == Aborted("4 rounds done, and none of them gave an update")


def test_the_header_states_the_power_for_sums_that_may_be_opened() -> None:
    plan = world(2).plan
    assert plan.mechanism is not None
    lines = [one.whole for one in on_power(plan.scenario, plan.limits, plan.mechanism)]
    agreed = agreed_terms(plan.scenario, plan.mechanism)
    assert len(lines) == 4
    for line, (survivors, silent) in zip(lines, product((3, 2), (1, 2)), strict=True):
        assert f"a sum of {survivors} of whom {silent} add" in line
        # A budget of 0.01 a round for two sums with six checks each.
        missing = silent * plan.mechanism.shares.share_std**2
        power = floor_power(agreed.null(survivors), 1024, 0.01 / 12, missing)
        assert power > 0.999
        assert "more than 99.9 % if signals cancel, 90.0 % if their sum has norm" in line
    silenced = parse_scenario(
        'name="x"\nparties=6\n[secure_sum]\nthreshold=2\nmin_survivors=2\n[stop]\nrounds=1'
    )
    assert list(on_power(silenced, plan.limits, plan.mechanism)) == []
    found = metrics_of(world(2), {}).check_results()
    assert found is not None
    assert len(list(check_lines(found))) == 2


@pytest.mark.parametrize("metric", ["checks_failed", "skippers_failed", "false_alarms"])
def test_claims_about_checks_need_checks(metric: str) -> None:
    error = refusal(f"expect=[{{metric='{metric}', at_most=1}}]")
    assert isinstance(error, ConfigError)
    assert error.path == "expect.0.metric"
    assert "is about checks of noise, and checks are off" in error.reason
