"""A party in a container that is started anew has another home, and the state and name that it was given."""

from __future__ import annotations

import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from tests.live.deployed import Site, site, stopped
from tests.live.federated import LIMIT, environment
from tests.live.test_resumed import check_end, until_recorded

pytestmark = pytest.mark.live


def party(place: Site, home: Path) -> subprocess.Popen[str]:
    """p05 as a program of its own, with this home."""
    home.mkdir()
    folder = place.folder
    arguments = [
        *("party", "--name", "p05", str(place.scenario), "--key", str(folder / "p05.key")),
        *("--data", str(folder / "data.npz"), "--roster", str(folder / "roster.toml")),
        *("--broker", str(place.broker), "--run", place.run, "--out", str(place.out("p05"))),
    ]
    named = {"HOME": str(home), "SECUREFL_STATE": str(folder / "state"), "SECUREFL_MACHINE": "north"}
    return subprocess.Popen(
        [sys.executable, "-m", "securefl", *arguments],
        env={**environment(), **named},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def until_connected(place: Site, second: subprocess.Popen[str]) -> None:
    """Wait for the transcript that a party begins once it has reached the broker."""
    while not (place.out("p05") / "transcripts" / "p05.2.jsonl").exists():
        with suppress(subprocess.TimeoutExpired):
            second.wait(0.05)
        assert second.returncode is None, second.communicate()


def test_a_fresh_home_costs_the_round_that_was_left_and_no_other(tmp_path: Path) -> None:
    with site(tmp_path, "embedded", parties=6, size=3, rounds=8) as place:
        names = [name for name in place.parties if name != "p05"]
        others = {name: place.start(name, training=1.0) for name in names}
        with party(place, tmp_path / "home-1") as first:
            server = place.start("server")
            until_recorded(place, server, kind="step_reached", round=1, step="training")
            first.kill()
        with party(place, tmp_path / "home-2") as second:
            # The round waits for p00, so that rounds are left when p05 is back.
            with stopped({"p00": others["p00"]}):
                until_connected(place, second)
            check_end(place, server, others, 8)
            said, complaint = second.communicate(timeout=LIMIT)
        assert (second.returncode, complaint) == (0, ""), said
        counted = place.counted()
        assert counted[0] == 6
        assert min(counted) >= 3
        assert 6 in counted[2:], "it is back"
