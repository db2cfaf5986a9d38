"""A party's budget as a value, and what it says."""

from __future__ import annotations

import math
from dataclasses import replace

from securefl.methods.privacy.accountant import epsilon
from securefl.methods.privacy.release import ReleaseEvent
from securefl.methods.privacy.spending import Ledger

ROUND = ReleaseEvent(
    noise_multiplier=2.0, steps=50, sampler="poisson", records=1000, batch=20, denominator=20, survivors=(3,)
)
EMPTY = Ledger(unit="record", relation="add-remove", delta=5e-4)


def spent(*events: ReleaseEvent) -> Ledger:
    return replace(EMPTY, events=events)


def test_epsilon_grows_with_every_event() -> None:
    once, twice = spent(ROUND), spent(ROUND, ROUND)
    assert (EMPTY.epsilon(), len(EMPTY.events)) == (0.0, 0)
    assert 0 < once.epsilon() < twice.epsilon()
    assert twice.epsilon() == epsilon([replace(ROUND, steps=100)], 5e-4)
    assert twice.epsilon() <= twice.epsilon("rdp")


def test_a_guarantee_names_its_assumptions() -> None:
    said = str(spent(ROUND, ROUND).guarantee(colluders=2, failure=0.013))
    found = spent(ROUND, ROUND)
    assert said.startswith(
        f"epsilon {found.epsilon():.4g} (PLD; RDP {found.epsilon('rdp'):.4g}) at delta 0.0005: "
    )
    assert "record level, add-remove, Poisson sampling, q = 20/1000, denominator 20, 100 steps" in said
    assert said.endswith(
        "if at most 2 of the other parties in a cluster collude or add no noise,"
        " which fails with probability at most 0.013 over this run"
    )
    assert str(spent(ROUND).guarantee(colluders=0)).endswith(
        "if none of the other parties in a cluster collude or add no noise"
    )
    assert "collude" not in str(spent(ROUND).guarantee())
    assert str(spent(replace(ROUND, leverage=math.inf)).guarantee()) == "none"
