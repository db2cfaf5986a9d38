"""Parties of the roster that start in mid-run, or come back: counted from the next round on."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from securefl.base.crypto.keyfiles import read_identity
from securefl.lab import run_page
from securefl.runtime.account.file import AccountFile
from securefl.runtime.account.head import AccountHead
from securefl.runtime.account.summary import by_run, key_digest
from tests.live.deployed import Site, site, stopped, until_said
from tests.live.federated import BROKERS, LIMIT
from tests.live.forked import Forked
from tests.live.test_resumed import killed
from tests.unit.cli.programs import call

pytestmark = pytest.mark.live

NEWCOMER = "p04"
ROUNDS = 6


def settings(*lines: str) -> tuple[str, ...]:
    return tuple(word for line in lines for word in ("--set", line))


ACTIVE = settings(
    "secure_sum.server=active",
    "secure_sum.verify=all",
    "secure_sum.threshold=4",
    "secure_sum.min_survivors=4",
    "secure_sum.colluders=1",
    "secure_sum.colluders_per_cluster=1",
    "clustering.size=4",
    "deadlines.verify=60",
    "deadlines.join=4",
)
PRIVATE = settings(
    "encoding.clip=1.0",
    "encoding.scale_bits=9",
    "privacy.unit=party",
    "privacy.multiplier=2.0",
    "deadlines.submit=2",
    "secure_sum.threshold=3",
    "secure_sum.min_survivors=3",
    "clustering.size=4",
    "deadlines.join=4",
)


def entries(place: Site, name: str) -> list[dict[str, Any]]:
    """Complete entries of a process's transcripts."""
    paths = sorted((place.out(name) / "transcripts").glob("*.jsonl"))
    return [json.loads(line) for path in paths for line in path.read_bytes().split(b"\n")[:-1]]


def starts(place: Site, server: Forked, *more: str) -> Forked:
    """The newcomer, connected; meanwhile the server stands still, and the run cannot end."""
    with stopped({"server": server}):
        party = place.start(NEWCOMER, *more, before=("--log-level", "info"))
        while "connected to" not in (party.stderr.read_text() if party.stderr.exists() else ""):
            party.process.join(0.05)
            assert party.process.exitcode is None, party.wait(LIMIT)
    return party


def collected(place: Site) -> Path:
    """The server's folder with the transcripts of all, as the guide has them copied."""
    for name in place.parties:
        shutil.copytree(
            place.out(name) / "transcripts", place.out("server") / "transcripts", dirs_exist_ok=True
        )
    return place.out("server")


def ended(server: Forked, parties: dict[str, Forked]) -> str:
    code, said, complaint = server.wait(LIMIT)
    assert (code, complaint) == (0, ""), said
    for name, party in parties.items():
        code, own, complaint = party.wait(LIMIT)
        assert code == 0, (name, own, complaint)
    return said


def joined_in(place: Site, said: str) -> int:
    """The round in which the newcomer joined, the same in line, rows, page and counts."""
    found = re.findall(rf"^server: {NEWCOMER} joined in round (\d+)$", said, re.MULTILINE)
    assert len(found) == 1, said
    first = int(found[0])
    rows = place.rows()
    assert [row.get("joined", {}).get(NEWCOMER, "no") for row in rows[: first + 1]] == ["no"] * first + [None]
    assert [NEWCOMER in row["survivors"] for row in rows[: first + 1]] == [False] * first + [True]
    page = place.folder / "page.html"
    page.write_text(run_page.run_page(run_page.read_run(place.out("server"))))
    assert "Parties that joined late" in page.read_text()
    return first


@pytest.mark.parametrize("broker", BROKERS)
def test_a_fifth_party_joins_a_verified_run_after_round_two(broker: str, tmp_path: Path) -> None:
    with site(tmp_path, broker, parties=5, rounds=ROUNDS, size=4) as place:
        parties = {name: place.start(name, *ACTIVE) for name in place.parties[:4]}
        server = place.start("server", *ACTIVE)
        assert "4 of 5 parties present; missing: p04" in until_said(server, "round 2: ")
        parties[NEWCOMER] = starts(place, server, *ACTIVE)
        said = ended(server, parties)
        first = joined_in(place, said)
        assert 3 <= first < ROUNDS
        assert place.counted() == [4] * first + [5] * (ROUNDS - first)
        models = {(place.out(name) / f"{name}.last.safetensors").read_bytes() for name in parties}
        assert len(models) == 1
        folder = collected(place)
        for command in ("audit", "verify"):
            result = call(command, folder)
            assert result.exit_code == 0, result.output
        assert not [e for name in place.parties for e in entries(place, name) if e["kind"] == "rejected"]


def test_a_newcomer_pays_for_its_own_rounds_and_may_leave_and_return(tmp_path: Path) -> None:
    """With noise: what its account has is what the server counted, and a return is no new start."""
    with site(tmp_path, "mosquitto", parties=5, rounds=8, size=4) as place:
        settled = tmp_path / "settled.toml"
        done = call(
            "dp", "settle", place.scenario, *PRIVATE, "--data", tmp_path / "data.npz", "--out", settled
        )
        assert done.exit_code == 0, done.output
        place.scenario = settled
        early = {name: place.start(name) for name in place.parties[:4]}
        server = place.start("server")
        until_said(server, "round 1: ")
        newcomer = starts(place, server)
        until_said(server, f"{NEWCOMER} joined in round ")
        until_said(newcomer, "is in the sum")
        killed(newcomer)
        before = server.stdout.read_text().count(" counted, ")
        until_said(server, " counted, ", before + 2)
        early[NEWCOMER] = starts(place, server)
        said = ended(server, early)
        joined_in(place, said)
        back = re.search(rf"{NEWCOMER} returned in round (\d+), absent since round (\d+)", said)
        assert back is not None, said
        at, since = map(int, back.groups())
        rows = place.rows()
        assert rows[at]["joined"] == {NEWCOMER: since}
        drawn = [
            row["round"]
            for row in rows
            if not {(NEWCOMER, "did not turn up")} & {(o["party"], o["reason"]) for o in row["left_out"]}
        ]
        assert not set(range(since, at)) & set(drawn)
        assert drawn[-1] == rows[-1]["round"]
        epsilons = rows[-1]["epsilon"]
        assert 0 < epsilons[NEWCOMER] < epsilons["p00"]
        identity = read_identity(tmp_path / f"{NEWCOMER}.key")
        head = AccountHead.of(key_digest(identity.public))
        with AccountFile(tmp_path / f"{NEWCOMER}.account", identity.public, head) as file:
            (run,) = by_run(file.entries)
        counted = {row["round"] for row in rows if NEWCOMER in row["survivors"]}
        assert counted <= {*run.rounds} <= {*drawn}
        assert call("audit", collected(place)).exit_code == 0


def test_a_simulation_repeats_the_late_start(tmp_path: Path) -> None:
    with site(tmp_path, "embedded", parties=5, rounds=ROUNDS, size=4) as place:
        data = tmp_path / "data"
        exported = call("data", "export", place.scenario, "--seed", "7", "--out", data, *ACTIVE)
        assert exported.exit_code == 0, exported.output
        seeded = ("--insecure-seeded-entropy", "--seed", "7", *ACTIVE)

        def own(name: str) -> tuple[str, ...]:
            return (*seeded, "--data", str(data / f"{name}.npz"))

        parties = {name: place.start(name, *own(name)) for name in place.parties[:4]}
        server = place.start("server", *own("test"))
        until_said(server, "round 1: ")
        parties[NEWCOMER] = starts(place, server, *own(NEWCOMER))
        first = joined_in(place, ended(server, parties))
        again = tmp_path / "again"
        like = ("--exact", "--like", place.out("server"))
        simulated = call("simulate", place.scenario, *seeded, *like, "--out", again)
        assert simulated.exit_code == 0, simulated.output
        assert f"{NEWCOMER} joined in round {first}" in simulated.output
        ours, theirs = (
            (folder / "model.safetensors").read_bytes() for folder in (place.out("server"), again)
        )
        assert ours == theirs
        rows = [json.loads(line) for line in (again / "metrics.jsonl").read_text().splitlines()]
        assert [row.get("joined") for row in rows] == [row.get("joined") for row in place.rows()]
