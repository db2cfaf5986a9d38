"""What one record moves the sum of a batch by, others' rounding in single precision included."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import nn

from securefl.base.arrays import F64
from securefl.methods.privacy.sensitivity import COMPANY
from securefl.scenario.privacy import ClipEach, DpSgd, Normalise
from securefl.training.dpsgd.bounded import BoundedSums, PartyRows
from securefl.training.dpsgd.ways import Way, way_for
from securefl.training.models.flatten import dimension
from tests.unit.training import dp_models
from tests.unit.training.dp_models import images, made

OTHERS = (0, 1, 3, 7, 8, 15, 16, 24)
"""In the batch. Matrix products are cut into blocks of these sizes, or not."""


def total(way: Way, module: nn.Module, bound: Normalise | ClipEach, x: torch.Tensor, y: torch.Tensor) -> F64:
    """The sum of bounded gradients, not divided."""
    found = BoundedSums(DpSgd(bound=bound), 1, [None], dimension(module), torch.device("cpu"))
    examples = way.examples(x, y)
    with torch.inference_mode():
        found.add(examples, [PartyRows(0, slice(0, len(x)))])
    return found.results()[0]


@pytest.mark.parametrize(
    ("make", "bound"),
    [
        (lambda: dp_models.dense(32), Normalise()),
        (dp_models.elu, ClipEach(norm=0.5)),
        (dp_models.grouped, Normalise()),
    ],
    ids=["relu", "elu", "convolutions"],
)
def test_a_record_moves_a_sum_by_its_bound_and_what_company_is_reckoned_with(
    make: Callable[[], nn.Module], bound: Normalise | ClipEach
) -> None:
    module = made(make)
    x, y = (torch.from_numpy(array) for array in images(max(OTHERS) + 1))
    way, norm = way_for(module, x[:1], y[:1]), bound.norm if isinstance(bound, ClipEach) else 1.0
    moved = []
    for others in OTHERS:
        pair, alone = (slice(0, others + 1), slice(others, others + 1))
        longer = total(way, module, bound, x[pair], y[pair])
        shorter = total(way, module, bound, x[:others], y[:others]) if others else np.zeros(len(longer))
        assert np.linalg.norm(longer - shorter) <= norm * (1 + others * COMPANY)
        own = total(way, module, bound, x[alone], y[alone])
        moved.append(float(np.linalg.norm(longer - shorter - own)) / norm)
        assert moved[-1] <= (others + 1) * COMPANY
    assert max(moved) > 0, "nothing to reckon with: take it out of the sensitivity"
