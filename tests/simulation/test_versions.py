"""Whole rounds between two versions of Python: an honest server is believed, and all have the same bits.

``make versions`` makes the other interpreters' environments. ``SECUREFL_OTHER_PYTHON`` names one more.
"""

from __future__ import annotations

import os
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

from tests.simulation.halves import Case, Half, Results, run_halves

ROOT = Path(__file__).parents[2]
OWN = sys.version_info[:2]


def verified(parties: int = 12, **settings: str) -> Case:
    """Verified rounds: three clusters of four, unless ``settings`` have other ones."""
    base = {
        "size": "4",
        "threshold": "3",
        "min_survivors": "3",
        "server": "active",
        "rounds": "3",
        "secure_sum__verify": '"committee"',
        "secure_sum__colluders": "2",
        "secure_sum__colluders_per_cluster": "1",
    }
    return Case(parties, base | settings)


def seven(**settings: str) -> Case:
    """Seven clusters of three, enough for rules that leave some out."""
    return verified(
        21,
        size="3",
        secure_sum__colluders="1",
        secure_sum__k_anonymity="2",
        server_optimiser="{momentum = 0.5}",
        **settings,
    )


CASES = {
    "committee": verified(),
    "everybody": verified(secure_sum__verify='"all"'),
    "truncated weights": verified(weighting__mode='"truncate"', weighting__cap="61"),
    "ring of 64 bits": verified(encoding__ring_bits="64"),
    "two reclusterings": verified(reclusterings="2", leakage__mode='"report"'),
    "median": seven(aggregation__rule='{type = "median"}'),
    "trimmed mean": seven(aggregation__rule='{type = "trimmed-mean", trim = 1}'),
    "Krum": seven(aggregation__rule='{type = "krum", byzantine = 1}'),
    "geometric median": seven(aggregation__rule='{type = "geometric-median"}'),
    "momentum": verified(server_optimiser="{momentum = 0.9}"),
    "Adam": verified(server_optimiser='{type = "adam", learning_rate = 0.5}'),
    "Yogi": verified(server_optimiser='{type = "yogi", learning_rate = 0.5}'),
    "not verified": Case(6, {"rounds": "3", "aggregation__rule": '{type = "median"}'}),
}


@cache
def other_pythons() -> tuple[tuple[str, Path], ...]:
    """Interpreters of other versions that have what the machines need, by version."""
    named = os.environ.get("SECUREFL_OTHER_PYTHON")
    folders = (ROOT / ".venv", *sorted(ROOT.glob(".venv-3.*")))
    candidates = (*((Path(named),) if named else ()), *(folder / "bin" / "python" for folder in folders))
    code = "import sys, numpy, msgspec, cryptography, scipy; print('%d.%d' % sys.version_info[:2])"
    found: dict[str, Path] = {}
    for python in candidates:
        if python.exists():
            done = subprocess.run([python, "-c", code], capture_output=True, text=True, check=False)
            version = done.stdout.strip()
            if done.returncode == 0 and version != f"{OWN[0]}.{OWN[1]}":
                found.setdefault(version, python)
    return tuple(found.items())


PAIRS = [pytest.param(python, id=version) for version, python in other_pythons()] or [
    pytest.param(
        None, marks=pytest.mark.skip(reason="needs a second version of Python: make versions"), id="none"
    )
]


@cache
def undivided(name: str) -> Results:
    """The results of the case in this process alone."""
    half = Half(CASES[name], "both")
    half.run()
    return half.results()


def check_rounds(name: str, server: Results, parties: Results) -> None:
    """All rounds are done, confirmed if they are verified, and about the same models."""
    assert set(server.outcomes.values()) == {"Finished"}
    assert set(parties.outcomes.values()) == {"Finished"}
    assert (server.rejects, parties.rejects) == ([], [])
    assert server.void == []
    rounds = list(range(3))
    assert [round_ for round_, _ in server.opened] == rounds
    assert all(opened for _, opened in server.opened)
    verifies = "secure_sum__verify" in CASES[name].settings
    assert server.confirmed == (rounds if verifies else [])
    assert len(parties.trained) == CASES[name].parties
    for party, trained in parties.trained.items():
        assert dict(trained) == {round_: server.models[round_] for round_ in rounds}, party
    assert len({tuple(links) for links in parties.links.values()}) == 1
    assert len({*server.models.values(), server.final}) == len(rounds) + 1
    alone = undivided(name)
    assert (alone.models, alone.final, alone.links) == (server.models, server.final, parties.links)


@pytest.mark.parametrize("python", PAIRS)
@pytest.mark.parametrize("name", CASES)
def test_parties_of_another_version_believe_an_honest_server(name: str, python: Path) -> None:
    server, parties = run_halves(CASES[name], "server", python)
    assert server.python[:2] == OWN != parties.python[:2]
    check_rounds(name, server, parties)


@pytest.mark.parametrize("python", PAIRS)
@pytest.mark.parametrize("name", ["everybody", "Adam"])
def test_parties_believe_an_honest_server_of_another_version(name: str, python: Path) -> None:
    server, parties = run_halves(CASES[name], "parties", python)
    assert server.python[:2] != parties.python[:2] == OWN
    check_rounds(name, server, parties)


@pytest.mark.parametrize("name", ["committee", "not verified"])
def test_two_processes_of_one_version_run_as_one(name: str) -> None:
    """The bench itself, without a second version."""
    server, parties = run_halves(CASES[name], "server", Path(sys.executable))
    assert server.python == parties.python
    check_rounds(name, server, parties)
