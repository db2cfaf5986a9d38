"""What is asked of the ledger in a round, and what a launcher tries before a run."""

from __future__ import annotations

import re

import msgspec
import pytest

from securefl.base.errors import ConfigError
from securefl.base.ids import PartyId
from securefl.methods.attacks.assignment import party_names
from securefl.methods.clustering.assignment import Assignment
from securefl.methods.leakage.limits import LeakageLimits
from securefl.protocol.round.shared.leakage import (
    LedgerQuestion,
    certified_prime_seed,
    first_crossing,
    leakage_limits,
    trial_sentences,
    try_draws,
    withheld_report,
)
from securefl.protocol.round.shared.plan import published_limits
from securefl.protocol.round.shared.reports import SumsWithheld
from securefl.scenario.scenario import Scenario
from tests.simulation.world import scenario

P = [PartyId(name) for name in party_names(5)]
ALONE = Assignment(tuple(P), (((P[0], P[1], P[2]), (P[3], P[4])), ((P[1], P[2]), (P[0], P[3], P[4]))))
SAID = published_limits(scenario(5, size="2"))
REPORTING = msgspec.structs.replace(SAID, leakage="report")


def sentences(made: Scenario) -> list[str]:
    return [one.whole for one in trial_sentences(made)]


def asked(**limits: object) -> LedgerQuestion:
    said = dict.fromkeys(P, SAID) | {PartyId(name): one for name, one in limits.items()}
    return LedgerQuestion(2, ALONE, frozenset(P), said, new_work=False)  # type: ignore[arg-type] # limits only


def test_demands_are_those_of_whoever_vetoes() -> None:
    one = msgspec.structs.replace(SAID, colluders=1, k_anonymity=3, leverage=250_000)
    assert leakage_limits({P[0]: one, P[1]: REPORTING}) == {P[0]: LeakageLimits(3, 1, 0.25)}


def test_one_party_that_vetoes_is_enough() -> None:
    everybody = asked(**dict.fromkeys(P, REPORTING))
    assert everybody.answer().admitted == (0, 1)
    assert asked(**dict.fromkeys(P[1:], REPORTING)).answer().admitted == (0,)
    assert asked(p00=REPORTING).answer().admitted == (0, 1)


def test_the_answer_does_not_hang_on_the_seed() -> None:
    assert asked().answer() == asked().answer(b"another")
    assert asked().answer(b"") == asked().answer()


def test_what_is_withheld_is_said() -> None:
    answer = asked().answer()
    assert withheld_report(2, answer) == (
        SumsWithheld(2, (1,), ((P[0],),), "p00, its update follows from the sums"),
    )
    assert first_crossing(answer).startswith("p00")
    harmless = asked(**dict.fromkeys(P, REPORTING)).answer()
    assert withheld_report(2, harmless) == ()
    assert first_crossing(harmless) == ""


def test_primes_after_the_certificate_follow_from_all_signatures() -> None:
    seed = certified_prime_seed(b"statement", [b"a", b"b"])
    assert seed == certified_prime_seed(b"statement", [b"b", b"a"])
    assert (
        len({seed, certified_prime_seed(b"statement", [b"a"]), certified_prime_seed(b"", [b"a", b"b"])}) == 3
    )


def test_draws_are_tried_before_a_run() -> None:
    assert try_draws(scenario(12, reclusterings="2")) == (2, 2, 2)
    (line,) = sentences(scenario(12, reclusterings="2"))
    assert line.startswith("leakage ledger: 2 of 2 reclusterings may be opened in 3 tried draws")


def test_the_header_says_what_the_declared_colluders_find() -> None:
    """Just below R*, 4 for (60, 3), two colluders expose nearly everybody else."""
    made = scenario(60, reclusterings="3", secure_sum__colluders="2", leakage__colluders="0")
    _, line = sentences(made)
    told = re.search(r"q = 2 random colluders find (?:\d+ to )?(\d+) updates", line)
    assert told is not None
    assert 50 <= int(told.group(1)) <= 58


@pytest.mark.parametrize(
    "sets",
    [
        {},
        {"reclusterings": "3", "clustering__new_work": "true"},
        {"reclusterings": "9", "leakage__mode": "report"},
    ],
)
def test_where_there_is_no_choice_nothing_is_tried(sets: dict[str, str]) -> None:
    assert try_draws(scenario(12, **sets)) == ()
    assert not sentences(scenario(12, **sets))


def test_what_no_draw_allows_is_refused() -> None:
    """Of 60 parties in threes, some two of two clusters differ by one party nearly always."""
    made = scenario(
        60,
        reclusterings="2",
        min_survivors="3",
        secure_sum__colluders="1",
        secure_sum__colluders_per_cluster="1",
    )
    with pytest.raises(ConfigError) as caught:
        try_draws(made)
    assert caught.value.path == "clustering.reclusterings"
    assert "2, but 3 trial draws allow at most 1" in str(caught.value)
