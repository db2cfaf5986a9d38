"""Small seeded runs of the real machines against their committed traces: no effect has changed.

``python tools/unchanged.py --nets --write`` writes them anew, where a change is meant.
"""

from __future__ import annotations

import pytest

from tests.nets import committed
from tests.nets.nets import NETS
from tests.nets.torch_sites import TORCH_NETS


@pytest.mark.parametrize("net", NETS)
def test_every_effect_is_as_committed(net: str) -> None:
    assert not committed.difference(committed.read(net), NETS[net]())


def test_every_committed_net_is_run() -> None:
    assert committed.everything().keys() == {*NETS, *TORCH_NETS}
