"""A party whose model raises on its data takes part as all do, with zeros; only its own log says so."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.live.federated import BROKERS, Run, run
from tests.live.scenarios import write_scenario

pytestmark = pytest.mark.live

FACTORY = "tests.unit.training.factories:that_dislikes_bright_pictures"


def sent(ended: Run, party: str) -> Counter[str]:
    """What a party sent in rounds, by kind of message; how often it joined is a matter of who came first."""
    entries: list[dict[str, Any]] = [dict(entry.fields) for entry in ended.transcript(party).of_kind("sent")]
    return Counter(fields["message"] for fields in entries if fields["place"][0] >= 0)


@pytest.mark.parametrize("broker", BROKERS)
def test_a_model_that_raises_on_some_data_silences_nobody(broker: str, tmp_path: Path) -> None:
    model = f"model={{ type = 'custom', factory = '{FACTORY}' }}"
    ended = run(write_scenario(tmp_path), tmp_path / "run", "--broker", broker, "--set", model)
    assert ended.exit_code == 0, ended.stderr
    parties = [f"p{index:02}" for index in range(6)]
    assert [row["survivors"] for row in ended.rows] == [parties] * 2
    assert len({tuple(sorted(sent(ended, party).items())) for party in parties}) == 1
    notes = {party: ended.transcript(party).of_kind("nothing_learned") for party in parties}
    failing = {party for party, found in notes.items() if found}
    assert 0 < len(failing) < 6
    for party in failing:
        assert [entry.fields["round"] for entry in notes[party]] == [0, 1]
        for entry in notes[party]:
            reason = str(entry.fields["reason"])
            assert re.fullmatch(r"factories\.py:\d+ in forward: IndexError: too bright", reason)
    assert not ended.transcript("server").of_kind("nothing_learned")
