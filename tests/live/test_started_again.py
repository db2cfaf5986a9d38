"""A server that is started again on a run that has ended: refused, nothing overwritten."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.live.deployed import contents, site
from tests.live.federated import BROKERS, LIMIT

pytestmark = pytest.mark.live


@pytest.mark.parametrize("broker", BROKERS)
def test_a_server_started_again_after_the_end_is_refused_and_overwrites_nothing(
    broker: str, tmp_path: Path
) -> None:
    with site(tmp_path, broker, rounds=1) as place:
        parties = place.start_parties()
        code, _, complaint = place.start("server").wait(LIMIT)
        assert (code, complaint) == (0, "")
        for party in parties.values():
            assert party.wait(LIMIT)[0] == 0
        left = contents(place.out("server"))
        assert {"model.safetensors", "summary.json", "transcripts/server.jsonl"} <= left.keys()
        code, said, complaint = place.start("server").wait(LIMIT)
        assert (code, said, len(complaint.splitlines())) == (2, "", 1), complaint
        assert "without a checkpoint, and is not overwritten" in complaint
        assert contents(place.out("server")) == left
