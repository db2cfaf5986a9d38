"""Recorded runs of earlier code: the machines of this one repeat each of them, message by message.

``python -m tests.vectors.test_recordings`` records them anew, where a change of messages or reports is meant.
"""

from __future__ import annotations

import io
import lzma
import sys
import tarfile
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from securefl.base.ids import SERVER
from securefl.lab.audit.finding import Severity
from securefl.lab.audit.load import load, load_truth
from securefl.scenario import statistics_round
from securefl.scenario.scenario import Scenario
from tests.nets.features import FEATURES, NOISE, PLACES, learn, parity
from tests.recorded.restepping import restepped
from tests.simulation.world import Op, scenario
from tests.unit.audit.runs import record

FOLDER = Path(__file__).parent / "recordings"
MOST_BYTES = 120 * 1024


@dataclass(frozen=True)
class Recording:
    """A run that is recorded, and how much of it can be repeated."""

    parties: int
    settings: Mapping[str, str] = field(default_factory=dict)
    ops: tuple[Op, ...] = ()
    machines: int = 0
    """Machines that are repeated; all of them unless given."""

    @property
    def scenario(self) -> Scenario:
        """The scenario, of two rounds unless its settings have another number."""
        made = scenario(self.parties, **{"rounds": "2", **self.settings})
        return statistics_round(made) if made.statistics.features else made


def _in(place: str, feature: str = "base", **more: Any) -> Recording:
    parties, settings = PLACES[place]
    return Recording(parties, {**settings, **FEATURES[feature].settings}, **more)


RECORDINGS: Mapping[str, Recording] = {
    "mean": _in("plain"),
    "dropout": Recording(6, {"deadlines__training": "9"}, (Op("drop", "p04", "MaskedInput", 1),)),
    "robust": Recording(12, {"aggregation__rule": '{type="median"}'}),
    "hidden groups": Recording(4, {**PLACES["hidden"][1], "rounds": "1"}, machines=1),
    "open groups": _in("plain", "open groups"),
    "verified": _in("verified"),
    "metrics": _in("plain", "metric stops", machines=1),
    "statistics": _in("plain", "statistics", machines=1),
    "private": Recording(6, NOISE),
    "removable noise": _in("plain", "removable noise"),
    "adam": _in("plain", "adam"),
    "resumed": _in("plain", ops=(Op("restart", "p05", "Release", 0),), machines=6),
    "resumed with a void round": _in("plain", ops=(Op("restart", SERVER, "KeyList", 0),), machines=6),
    "resumed verified": _in("verified", ops=(Op("restart", "p05", "Release", 0),), machines=8),
}


def file_of(name: str) -> Path:
    return FOLDER / f"{name.replace(' ', '_')}.tar.xz"


def packed(run: Path) -> bytes:
    """Return the files of a run in one archive, the same for the same files."""
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        for path in sorted(run.rglob("*")):
            if path.is_file():
                info = tarfile.TarInfo(path.relative_to(run).as_posix())
                info.size = path.stat().st_size
                tar.addfile(info, io.BytesIO(path.read_bytes()))
    return lzma.compress(archive.getvalue(), preset=9 | lzma.PRESET_EXTREME)


@pytest.mark.parametrize("name", RECORDINGS)
def test_its_machines_are_repeated(name: str, tmp_path: Path) -> None:
    content = file_of(name).read_bytes()
    assert len(content) <= MOST_BYTES
    with tarfile.open(fileobj=io.BytesIO(lzma.decompress(content))) as tar:
        tar.extractall(tmp_path / "run", filter="data")
    recorded = load(tmp_path / "run")
    findings = list(restepped(recorded, load_truth(tmp_path / "run", recorded)))
    assert not [one.claim for one in findings if one.severity is Severity.BREACH]
    (whole,) = [one for one in findings if one.severity is Severity.HOLDS]
    machines = RECORDINGS[name].machines or RECORDINGS[name].parties + 1
    assert whole.claim.startswith(f"{machines} machine"), [one.claim for one in findings]


def test_every_recording_is_there() -> None:
    assert {path.name for path in FOLDER.iterdir()} == {file_of(name).name for name in RECORDINGS}


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for name in sys.argv[1:] or RECORDINGS:
        one = RECORDINGS[name]
        with tempfile.TemporaryDirectory() as folder:
            out = Path(folder) / "run"
            record(out, one.scenario, ops=one.ops, length=4, train=learn, choose=parity, lab=True)
            file_of(name).write_bytes(packed(out))
