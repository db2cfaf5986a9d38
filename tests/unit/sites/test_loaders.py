"""Samples of a loader: those that it gives in an epoch, which are a site's weight."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.utils.data import (
    BatchSampler,
    DataLoader,
    IterableDataset,
    SequentialSampler,
    SubsetRandomSampler,
    TensorDataset,
    WeightedRandomSampler,
)

from securefl.base.errors import ConfigError
from securefl.training.sites.loaders import samples_of

ROWS = TensorDataset(torch.zeros(100, 1))


class Stream(IterableDataset[Any]):
    def __iter__(self) -> Any:
        return iter(())


class OwnBatches:
    """A batch sampler of one's own, whose batches may have any size."""

    def __iter__(self) -> Any:
        yield [0]

    def __len__(self) -> int:
        return 1


@pytest.mark.parametrize(
    ("loader", "samples"),
    [
        (DataLoader(ROWS, batch_size=8), 100),
        (DataLoader(ROWS, batch_size=8, drop_last=True), 96),
        (DataLoader(ROWS, batch_size=100, drop_last=True), 100),
        (DataLoader(ROWS, batch_size=101, drop_last=True), 100),
        (DataLoader(ROWS, batch_size=None), 100),
        (DataLoader(ROWS, batch_size=4, sampler=SubsetRandomSampler(range(4))), 4),
        (DataLoader(ROWS, batch_size=4, sampler=SubsetRandomSampler(range(7)), drop_last=True), 4),
        (DataLoader(ROWS, batch_size=4, sampler=WeightedRandomSampler([1.0] * 100, 1000)), 100),
        (DataLoader(ROWS, batch_sampler=BatchSampler(SequentialSampler(range(10)), 4, drop_last=True)), 8),
    ],
    ids=["plain", "drop_last", "one batch", "none", "unbatched", "subset", "both", "replacement", "batches"],
)
def test_they_are_those_of_an_epoch(loader: Any, samples: int) -> None:
    """A loader without a whole batch has none; its training fails, and its weight does not matter."""
    assert samples_of(loader, None) == samples
    assert samples_of(loader, samples) == samples
    with pytest.raises(ConfigError, match=f"{samples + 1} are stated, and the loader gives {samples}"):
        samples_of(loader, samples + 1)


@pytest.mark.parametrize(
    "loader",
    [None, DataLoader(Stream()), DataLoader(ROWS, batch_sampler=OwnBatches())],
    ids=["none", "stream", "own"],
)
def test_where_nobody_can_tell_they_are_stated(loader: Any) -> None:
    with pytest.raises(ConfigError, match=r"has no length \(pass samples=\)"):
        samples_of(loader, None)
    assert samples_of(loader, 7) == 7
