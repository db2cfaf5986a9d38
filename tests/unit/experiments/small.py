"""A paper with two tables and a figure on one sheet, small enough to be run in a test."""

from __future__ import annotations

from pathlib import Path

STUDY = """
title = "The small paper"
values = { batch = 8 }
overrides = ["parties=$parties", "stop.rounds=$rounds", "training.batch_size=$batch"]

[[datasets]]
name = "digits"
title = "DIGITS"
values = { honest = 4, train = 160 }
overrides = ["data.train_limit=$train"]
at = { paper = ["data.test_limit=60"] }

[[datasets]]
name = "own"
title = "OWN"
place = "own.npz"
scheme = "npz:"
remedy = "make one"
values = { honest = 2, train = 40 }
"""

SCENARIO = """
name = "small"
description = "digits for the real thing"
parties = 4
[data]
test_limit = 50
[model]
type = "softmax"
[training]
device = "cpu"
[clustering]
size = 1
[secure_sum]
threshold = 1
min_survivors = 1
k_anonymity = 1
[stop]
rounds = 1
[leakage]
mode = "report"
"""

SHEET = """
title = "Scaled updates"
claim = "They break the mean."
settings = "Section 1"
chosen = ["everything"]
last = 1
tolerance = 0.1
values = { epochs = 0.4 }

[scale.desk]
scenario = "_desk.toml"
note = "half of the attackers"
keep = { factor = ["1/2", "-10"] }

[scale.paper]
scenario = "_desk.toml"
values = { epochs = 0.6 }

[[axes]]
name = "malicious"
[[axes.choices]]
label = "none"
baseline = true
values = { share = 0 }
overrides = ["behaviours=[]"]
[[axes.choices]]
label = "half"
values = { share = 0.5 }

[[axes]]
name = "factor"
[[axes.choices]]
label = "1/2"
values = { factor = 0.5 }
[[axes.choices]]
label = "-1"
values = { factor = -1 }
[[axes.choices]]
label = "-10"
values = { factor = -10 }

[[items]]
kind = "table"
number = "2"
title = "as it is"
overrides = ["behaviours=[{ kind = 'scale', factor = $factor, count = $byzantine }]"]
published = { digits = [[0.8, 0.8, 0.8], [0.8, 0.5, 0.1]], own = [[0.9, 0.9, 0.9], [0.9, 0.5, 0.1]] }
spread = { digits = [[0.3, 0.3, 0.3], [0.3, 0.3, 0.3]] }
quoted = [{ what = "others, half malicious", accuracy = 0.2 }]

[[items]]
kind = "table"
number = "10"
title = "on digits only"
only = ["digits"]
overrides = ["behaviours=[{ kind = 'scale', factor = $factor, count = $byzantine }]"]

[[items]]
kind = "figure"
number = "1"
title = "Krum"
overrides = [
  "behaviours=[{ kind = 'scale', factor = $factor, count = $byzantine }]",
  "aggregation.rule={ type = 'krum', byzantine = 3 }",
]

[[claims]]
kind = "below"
says = "the attack hurts"
curves = ["half, -10"]
than = ["none, -10"]
margin = 0.1
[[claims]]
kind = "below"
says = "the sign alone hurts"
curves = ["half, -1"]
than = ["none, -1"]
"""


def shelf(folder: Path, sheet: str = SHEET, study: str = STUDY) -> Path:
    """Write the paper ``small`` and return the folder of all papers."""
    place = folder / "papers" / "small"
    place.mkdir(parents=True)
    (place / "_study.toml").write_text(study)
    (place / "_desk.toml").write_text(SCENARIO)
    (place / "scaled.toml").write_text(sheet)
    return folder / "papers"
