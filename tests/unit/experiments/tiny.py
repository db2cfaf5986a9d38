"""A paper with one panel, small enough to be drawn in a test."""

from __future__ import annotations

from pathlib import Path

SCENARIO = """
name = "tiny"
description = "digits for the real thing"
parties = 6
[data]
set = "digits"
train_limit = 120
test_limit = 50
[model]
type = "softmax"
[training]
device = "cpu"
[clustering]
size = 3
[secure_sum]
threshold = 2
min_survivors = 2
[stop]
rounds = 4
"""

FIGURE = """
panel = "7b"
title = "Two attackers"
claim = "The mean breaks."
settings = "6 parties"
chosen = ["all of it"]
last = 2
[scale.desk]
scenario = "_tiny.toml"
[scale.paper]
scenario = "_tiny.toml"
overrides = ["stop.rounds=5"]
[[curves]]
label = "no attack"
baseline = true
[[curves]]
label = "attack"
overrides = ["behaviours=[{ kind = 'scale', factor = -10, count = 2 }]"]
[[claims]]
kind = "below"
says = "the attack hurts"
curves = ["attack"]
than = ["no attack"]
margin = 0.1
"""


def shelf(folder: Path, figure: str = FIGURE, scenario: str = SCENARIO) -> Path:
    """Write the paper ``tiny`` and return the folder of all papers."""
    (folder / "papers" / "tiny").mkdir(parents=True)
    (folder / "papers" / "tiny" / "_tiny.toml").write_text(scenario)
    (folder / "papers" / "tiny" / "7b.toml").write_text(figure)
    return folder / "papers"
