"""Runs with privacy: parties keep to their budgets, and the summary says what was spent."""

from __future__ import annotations

import math
import re
from pathlib import Path

import dp_accounting
import pytest
from dp_accounting.pld import PLDAccountant

import scenarios
from tests.live.federated import PATIENT, Run, events, run
from tests.live.scenarios import behaviour, write_scenario

pytestmark = pytest.mark.live

PRIVACY = (
    "encoding.clip=1.0",
    "encoding.scale_bits=9",
    "privacy.unit=party",
    "privacy.multiplier=1.5",
    "privacy.budget=1.2",
    "deadlines.submit=12",  # a training that takes longer, on a busy machine, sends zeros
)


def test_parties_leave_when_their_budget_is_spent_and_then_the_run_is_over(tmp_path: Path) -> None:
    """With entropy of the system. The budget lasts for some of five rounds; p02 never adds its noise."""
    scenario = write_scenario(tmp_path, behaviour("no-noise", "p02"), rounds=5)
    ended = run(scenario, tmp_path / "run", *(part for one in PRIVACY for part in ("--set", one)))
    assert ended.exit_code == 0, ended.stderr
    privacy = ended.directory.read_scenario().privacy
    assert privacy.settled
    assert privacy.releases is not None
    assert 1 <= privacy.releases < 5
    assert len(ended.rows) == privacy.releases
    assert "parties have privacy budget left" in ended.summary["reason"]
    for party in (f"p{index:02d}" for index in range(6)):
        submitted = {
            entry.fields["place"][0]  # type: ignore[index]
            for entry in ended.transcript(party).of_kind("sent")
            if entry.fields["message"] == "MaskedInput"
        }
        assert len(submitted) == privacy.releases
    spent = [row["epsilon"] for row in ended.rows]
    assert all(row["p02"] is None for row in spent)
    course = [row["p00"] for row in spent]
    assert course == sorted(course)
    assert 0 < course[0] <= course[-1] <= 1.2
    account = ended.summary["privacy"]
    assert account["without_guarantee"] == ["p02"]
    assert account["epsilon"] == ended.summary["outcome"]["epsilon"] <= 1.2


ROUNDS = 5
SKIPPERS = {"p03", "p07"}
SHORT = (
    f"stop.rounds={ROUNDS}",
    # As of 60 rounds at epsilon = 2: with the noise that so few rounds need, signals would hide skippers.
    "privacy.epsilon=",
    "privacy.multiplier=1.48",
    "privacy.budget=2.0",
    "expect=["
    "{metric='skippers_failed', at_least=0.8}, {metric='false_alarms', at_most=1},"
    "{metric='survivors', at_least=11, at_most=11}, {metric='clusters_lost', at_most=0},"
    "{metric='epsilon', at_most=2.0}]",
)


def epsilon_by_hand(ended: Run, honest: int) -> float:
    """Epsilon from the noise and sensitivity of the explanation, without the package."""
    header = "\n".join(events(ended.stdout)[0]["explanation"])
    found = re.search(r"sensitivity of ([\d.]+) steps.*each party adds ([\d.]+) steps \(h = (\d)\)", header)
    assert found is not None
    sensitivity, share, h = float(found[1]), float(found[2]), int(found[3])
    scenario = ended.directory.read_scenario()
    records, delta = scenario.privacy.records, scenario.privacy.delta
    assert isinstance(delta, float)
    assert records is not None
    assert h == honest
    # A record's gradient has length 1; an update is the sum over the expected 16, in steps of 2^-13.
    assert sensitivity > 2**13 / 16
    sigma = math.sqrt(honest) * share / sensitivity
    step = dp_accounting.PoissonSampledDpEvent(16 / records, dp_accounting.GaussianDpEvent(sigma))
    accountant = PLDAccountant()
    accountant.compose(step, ROUNDS)
    epsilon: float = accountant.get_epsilon(delta)
    return epsilon


@pytest.mark.parametrize(("name", "honest"), [("dp_mqtt", 3), ("dp_local", 1)])
def test_the_bundled_runs_with_a_dropout_a_round_and_two_skippers(
    name: str, honest: int, tmp_path: Path
) -> None:
    """Cut short, with entropy of the system. Two honest sums fail in a run with a probability below 1e-3."""
    path = Path(scenarios.__file__).parent / f"{name}.toml"
    ended = run(path, tmp_path / "run", *(part for one in SHORT for part in ("--set", one)), *PATIENT)
    # The two are in different clusters in 6 rounds of 11, and both sums fail: in all five one time in 20.
    taught = any(row["clusters"]["kept"] for row in ended.rows)
    assert ended.exit_code == (0 if taught else 3), ended.stdout[-2000:] + ended.stderr
    assert taught or ended.summary["reason"] == "5 rounds done, and none of them gave an update"
    header, account = events(ended.stdout)[0]["explanation"], ended.summary["privacy"]
    expected = epsilon_by_hand(ended, honest)
    spent = ended.rows[-1]["epsilon"]
    assert len(ended.rows) == ROUNDS
    assert {party for party, epsilon in spent.items() if epsilon is None} == SKIPPERS
    # A dropout has been in a cluster, too: others may open a sum with its masked input.
    for party in spent.keys() - SKIPPERS:
        assert expected * 0.999 < spent[party] < expected * 1.02
    assert account["epsilon"] == pytest.approx(expected, rel=0.02)
    assert account["without_guarantee"] == sorted(SKIPPERS)
    assert sum("noise floor: a sum of" in line for line in header) == 4
    tally = {(one["survivors"], one["without_noise"]): one for one in ended.summary["checks"]["by_members"]}
    seen = dict.fromkeys(tally, 0)
    for round_, row in enumerate(ended.rows):
        assert [out["party"] for out in row["left_out"]] == [f"p0{(0, 1, 2, 4, 5)[round_]}"]
        failed = {one["cluster"]: one["reason"] for one in row["clusters"].get("failed", [])}
        kept = {cluster for _, cluster in row["clusters"]["kept"]}
        for one in row["clusters"]["opened"]:
            silent = len(SKIPPERS.intersection(one["survivors"]))
            loud = len(one["survivors"]) - silent
            # A sum of skippers alone hides nobody who was promised anything.
            assert loud >= honest or not loud, "so much noise hides everybody"
            seen[len(one["survivors"]), silent] += 1
            assert (one["cluster"] in kept) != (one["cluster"] in failed)
        # Without a sum the model stays; otherwise it moves.
        assert (row["update_norm"] is None) == (not kept)
    assert seen == {kind: one["sums"] for kind, one in tally.items()}
    assert all(one["power_without_signal"] > 0.99 for kind, one in tally.items() if kind[1])
