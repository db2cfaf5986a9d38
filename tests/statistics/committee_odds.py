"""A table of the odds of committees: ``python -m tests.statistics.committee_odds``."""

from __future__ import annotations

from collections.abc import Iterator

from securefl.base.text import percent
from securefl.methods.clustering.committee import committee_failure, committee_size, failure_of
from securefl.methods.clustering.presence import fewest_participants
from securefl.methods.clustering.sizes import MAX_DRAWS
from securefl.scenario.load import parse_scenario
from securefl.scenario.scenario import Scenario

PARTIES = (60, 100, 300, 1_000, 3_000, 10_000)
SHARES = (10, 5)
"""One colluder in so many parties."""
SIZES = (11, 21, 31)
ROUNDS = 100

_SCENARIO = """
name = "odds"
parties = {parties}
[clustering]
size = 10
reclusterings = {again}
[secure_sum]
server = "active"
verify = "committee"
colluders = {colluders}
colluders_per_cluster = 1
threshold = 7
min_survivors = 7
[stop]
rounds = {rounds}
"""


def made(parties: int, colluders: int, rounds: int = ROUNDS, again: int = 1) -> Scenario:
    """Return a scenario whose rounds have a committee."""
    text = _SCENARIO.format(parties=parties, colluders=colluders, rounds=rounds, again=again)
    return parse_scenario(text)


def failure(scenario: Scenario, size: int) -> float:
    """Return the probability that colluders are a quorum of some committee of ``size``, redraws included."""
    draws = MAX_DRAWS * scenario.stop.rounds
    return failure_of(fewest_participants(scenario), scenario.secure_sum.colluders, size, draws)


def rows() -> Iterator[str]:
    """Yield the table of ``docs/results/verified-rounds.md``."""
    sizes = " | ".join(f"{size} members fail" for size in SIZES)
    yield f"| N | q | present | committee | fails | never fails | {sizes} |"
    yield "|---|---|---|---|---|---|" + "---|" * len(SIZES)
    for share in SHARES:
        for parties in PARTIES:
            q = parties // share
            chosen = made(parties, q)
            fails = [percent(failure(chosen, size)) for size in SIZES]
            cells = (
                f"{parties:,}",
                f"{q:,}",
                f"{fewest_participants(chosen):,}",
                str(committee_size(chosen)),
                percent(committee_failure(chosen)),
                f"{2 * q + 1:,}",
                *fails,
            )
            yield f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    for line in rows():
        print(line)
