"""A site's failure is no signal (attacks/n2): each party sends the same messages and is always counted."""

from __future__ import annotations

import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.live.federated import Run, run_program

pytestmark = pytest.mark.live

CASE = Path(__file__).parent / "attacks" / "n2"


@pytest.fixture
def case(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The case's files, in the working directory."""
    folder = tmp_path / "case"
    shutil.copytree(CASE, folder)
    monkeypatch.chdir(folder)
    return folder


def check_alike(ended: Run, parties: int, rounds: int) -> None:
    assert ended.exit_code == 0, ended.stderr
    names = [f"p{number:02d}" for number in range(parties)]
    assert [row["survivors"] for row in ended.rows] == [names] * rounds
    assert len({tuple(sorted(sent(ended, party).items())) for party in names}) == 1


def sent(ended: Run, party: str) -> Counter[str]:
    """A party's messages of rounds, by kind and round."""
    entries: list[dict[str, Any]] = [dict(entry.fields) for entry in ended.transcript(party).of_kind("sent")]
    return Counter(f"{one['message']} {one['place'][0]}" for one in entries if one["place"][0] >= 0)


def test_24_bits_about_single_records(case: Path) -> None:
    """Half of the sites fail on a model that the server may choose, under party-level privacy."""
    check_alike(run_program(case / "dp2.toml", case / "run", "--site", "dpsite:Site"), 24, 2)


@pytest.mark.parametrize("attack", ["hist", "cancel", "keyboard", "stop", "usage"])
def test_one_site_fails(attack: str, case: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the party's own process, by each class of exception that once ended or blocked it."""
    monkeypatch.setenv("OMP_ATTACK", attack)
    check_alike(run_program(case / "s4.toml", case / "run", "--site", "nansite:Site"), 12, 4)
