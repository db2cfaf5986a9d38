"""The benchmark of the median under CrypTen: the liar moves the mean everywhere, the median nowhere."""

from __future__ import annotations

import json

import pytest

from securefl.base.entropy import InsecureSeededEntropy
from securefl.base.errors import UsageError
from securefl.lab.bench.order import order_json, run_order
from securefl.protocol.secure_sum.validated.order import median_trim, order_cost


@pytest.mark.parametrize("members", [3, 4])
def test_counts_are_those_that_sizes_say_and_one_liar_moves_no_median(members: int) -> None:
    (run,) = run_order([(members, 20)], 1, InsecureSeededEntropy(1))
    cost = order_cost(members, 20, median_trim(members))
    assert run.rounds == cost.rounds
    assert run.sent == 8 * cost.words_sent * (members - 1)
    assert run.dealt == 8 * cost.words_dealt + 32
    assert run.mean_beyond > 0.5
    assert run.median_beyond == 0
    assert min(run.dealer_seconds, run.wall_seconds) > 0
    assert json.loads(order_json([run]))[0]["members"] == members


def test_two_members_have_no_median() -> None:
    with pytest.raises(UsageError, match="3 members"):
        run_order([(2, 10)], 1)
