"""Open choices of task groups: kept by the journal, added up, and no help to colluders."""

from __future__ import annotations

from pathlib import Path

import pytest

from securefl.base.errors import ConfigError
from securefl.methods.feasibility.limits import check
from securefl.protocol.kernel.effects import CHOSE
from securefl.protocol.round.shared.choices import NO_CHOICE, LastChoice, choices_epsilon
from securefl.runtime.process.journal import FileJournal
from tests.simulation.world import RUN, scenario

OPEN = {"groups__count": "3", "size": "2", "groups__choice_epsilon": "1.5"}


def test_a_restarted_party_knows_its_last_choice_of_this_run(tmp_path: Path) -> None:
    path = tmp_path / "p00.journal"
    assert FileJournal(path, RUN).choice in {None, NO_CHOICE}
    for round_, made, group in ((0, 1, 2), (3, 2, 1)):
        FileJournal(path, RUN).note(round_, f"{CHOSE}{made} {group}")
    FileJournal(path, type(RUN)("other")).note(4, f"{CHOSE}3 0")
    assert FileJournal(path, RUN).choice == LastChoice(2, 1)


@pytest.mark.parametrize(("choices", "rounds", "told"), [("1", "9", 1.5), ("3", "9", 4.5), ("9", "2", 3.0)])
def test_what_choices_tell_adds_up_over_those_that_are_made(choices: str, rounds: str, told: float) -> None:
    assert choices_epsilon(scenario(12, **OPEN, groups__choices=choices, rounds=rounds)) == told
    assert choices_epsilon(scenario(12, groups__count="3", size="2")) is None


@pytest.mark.parametrize("f", [0, 1])
def test_all_colluders_may_be_in_one_cluster_of_a_group(f: int) -> None:
    sums = {"size": "4", "threshold": "3", "min_survivors": "3", "server": "active"}
    more = {"secure_sum__colluders": "1", "secure_sum__colluders_per_cluster": str(f)}
    made = scenario(12, **OPEN | sums, **more)
    if f:
        check(made)
        return
    with pytest.raises(ConfigError) as refused:
        check(made)
    assert refused.value.path == "secure_sum.colluders_per_cluster"
