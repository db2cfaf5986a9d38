"""Every frame of seeded runs of the real machines, against committed digests: no bit has changed.

``python -m tests.vectors.test_transcripts`` writes them anew, where a change of the wire is meant.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest

from tests.simulation.world import Op, World, scenario

COMMITTED = Path(__file__).parent / "transcripts.json"
CRYPTEN = {"secure_sum__kind": "crypten"}
PARTY_NOISE = {
    "privacy__unit": "party",
    "privacy__multiplier": "0.5",
    "privacy__delta": "0.05",
    "encoding__clip": "64.0",
    "encoding__scale_bits": "2",
}
HIDDEN = {
    "size": "4",
    "threshold": "4",
    "min_survivors": "4",
    "clustering__atoms": "4",
    "weighting__mode": "ignore",
    "groups__count": "2",
    "groups__mode": "hidden",
}
MODES: dict[str, dict[str, str]] = {
    "masking": {"rounds": "2"},
    "active": {"server": "active", "size": "6", "threshold": "4", "min_survivors": "5"},
    "reclustered": {"reclusterings": "2", "leakage__mode": "report"},
    "atoms": {"rounds": "2", "clustering__atoms": "2", "size": "4"},
    "hidden": HIDDEN,
    "open": {"groups__count": "2", "groups__mode": "open", "size": "2", "weighting__mode": "ignore"},
    "noise": PARTY_NOISE,
    "threshold noise": PARTY_NOISE | {"privacy__placement": "threshold"},
    "removable noise": PARTY_NOISE | {"privacy__placement": "dropout-exact"},
    "weights": {"weighting__mode": "ignore"},
    "crypten": CRYPTEN,
    "validated": {
        "secure_sum__kind": "crypten",
        "secure_sum__validate": "{ norm = 4.0 }",
        "encoding__clip": "3.6",
        "weighting__mode": "ignore",
    },
}
LOSSES = {
    "whole": (),
    "input lost": (Op("drop", "p01", "MaskedInput"), Op("drop", "p01", "PeerBox")),
    "dead in shares": (Op("crash", "p02", "Hello"), Op("crash", "p04", "Receipt")),
}


def digest(mode: str, losses: str) -> str:
    """SHA-256 of all frames in the order in which they were sent, and of the models that were announced."""
    parties = 8 if mode == "hidden" else 6
    world = World(scenario(parties, **MODES[mode]), ops=LOSSES[losses]).run()
    told = hashlib.sha256()
    for frame in world.frames:
        told.update(hashlib.sha256(frame).digest())
    for _, model in sorted(world.models.items()):
        told.update(model.tobytes())
    return f"{len(world.frames)} {told.hexdigest()}"


@pytest.mark.parametrize("losses", LOSSES)
@pytest.mark.parametrize("mode", MODES)
def test_frames(mode: str, losses: str) -> None:
    assert digest(mode, losses) == json.loads(COMMITTED.read_text())[mode][losses]


if __name__ == "__main__":
    made = {mode: {losses: digest(mode, losses) for losses in LOSSES} for mode in MODES}
    COMMITTED.write_text(json.dumps(made, indent=1) + "\n")
