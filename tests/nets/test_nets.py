"""Small seeded runs of the real machines against their committed traces: no effect has changed.

The fast tier runs a third of them, ``make slow`` the rest, and ``python tools/unchanged.py --nets`` all.
With ``--write`` it writes them anew, where a change is meant.
"""

from __future__ import annotations

import pytest

from tests.nets import committed
from tests.nets.nets import NETS
from tests.nets.torch_sites import TORCH_NETS
from tests.tiers import sampled


@pytest.mark.parametrize("net", sampled(NETS, [*NETS][::3]))
def test_every_effect_is_as_committed(net: str) -> None:
    assert not committed.difference(committed.read(net), NETS[net]())


def test_every_committed_net_is_run() -> None:
    assert committed.everything().keys() == {*NETS, *TORCH_NETS}


SENT = "server Send Invite round=1 to=* model=ab frames=01"


@pytest.mark.parametrize(
    ("found", "named"),
    [
        ("server Send Invite round=1 to=* model=ff frames=02", "model is ff, was ab; frames is 02, was 01"),
        ("server Send Invite round=1 model=ab to=* frames=01", "another order: round, model, to, frames"),
        ("server Send Freeze round=1 to=* frames=01", "server Send Freeze in place of server Send Invite"),
    ],
)
def test_a_difference_is_named(found: str, named: str) -> None:
    known = ["server WakeAt when=1.0", SENT]
    line = committed.difference(known, [known[0], found])
    assert line.startswith("line 1: server Send")
    assert line.endswith(named)


def test_lines_that_lack_or_are_new_are_named() -> None:
    assert committed.difference([SENT], []) == "line 0: no longer server Send Invite"
    assert committed.difference([], [SENT]) == "line 0: in addition server Send Invite"
    assert committed.difference(None, [SENT]) == "is not committed"
    assert not committed.difference([SENT], [SENT])
