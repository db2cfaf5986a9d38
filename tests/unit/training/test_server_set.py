"""The samples that the server holds: a few of each class, and those of another data set."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from securefl.base.arrays import I64
from securefl.base.errors import ConfigError
from securefl.base.ids import PartyId
from securefl.scenario.data import Data, Partition, Standardise
from securefl.training.data.dataset import Dataset
from securefl.training.data.datasets import load_data
from securefl.training.data.partitions.labels import LabelsPerParty
from securefl.training.data.shards import load_shard, shards_of, write_shards
from securefl.training.data.split import split
from tests.tiers import examples

PARTIES = tuple(PartyId(f"p{i}") for i in range(5))


def labelled(y: I64, name: str = "labelled", offset: float = 0.0) -> Dataset:
    """Samples that say which row they are; 6 of them are for the test."""
    x = offset + np.arange(len(y), dtype=np.float32)[:, None]
    return Dataset(name, x, y, x[:6], y[:6], int(y.max()) + 1, (1,), 0.0, 1.0)


def balanced(samples: int = 100, classes: int = 4) -> Dataset:
    return labelled(np.arange(samples, dtype=np.int64) % classes)


@settings(deadline=None, max_examples=examples(40))
@given(
    counts=st.lists(st.integers(0, 9), min_size=2, max_size=6),
    each=st.integers(1, 7),
    seed=st.integers(0, 2**32),
)
def test_so_many_of_each_class_and_the_parties_the_rest(counts: list[int], each: int, seed: int) -> None:
    counts[-1] += 1
    data = labelled(np.repeat(np.arange(len(counts), dtype=np.int64), counts))
    config = Data(server_per_class=each)
    if each > min(counts):
        with pytest.raises(ConfigError) as caught:
            split(data, config, PARTIES[:1], seed)
        assert caught.value.path == "data.server_per_class"
        assert (
            f"class {counts.index(min(counts))} of labelled has {min(counts)} samples" in caught.value.reason
        )
        assert ("at most" in caught.value.remedy) == (min(counts) > 0)
        return
    if sum(counts) == each * len(counts):
        return  # nothing is left for a party
    whole = split(data, config, PARTIES[:1], seed)
    assert np.bincount(data.y_train[whole.server]).tolist() == [each] * len(counts)
    rows = np.concatenate([*whole.parties.values(), whole.server])
    assert sorted(rows.tolist()) == list(range(sum(counts)))


def test_a_class_that_the_limit_leaves_out_is_missing() -> None:
    data = balanced(100, 10)
    with pytest.raises(
        ConfigError, match=r"2 of each class, but class \d of labelled has [01] samples"
    ) as caught:
        split(data, Data(server_per_class=2, train_limit=12), PARTIES, 1)
    assert "data.train_limit" in caught.value.remedy


@pytest.mark.parametrize("config", [Data(server_per_class=2), Data(server_fraction=0.2)])
def test_another_set_that_lacks_a_class_is_refused(config: Data) -> None:
    """Class 2 is in its test half only, as a set of the user's own may be."""
    lacking = labelled(np.array([0, 1, 3] * 20, dtype=np.int64), "foreign")
    with pytest.raises(ConfigError, match=r"class 2 of foreign has (0|no) samples") as caught:
        split(replace(balanced(), servers=lacking), config, PARTIES, 1)
    assert caught.value.remedy.endswith("another set")


@pytest.mark.parametrize("config", [Data(server_per_class=3), Data(server_fraction=0.2)])
def test_another_set_gives_samples_and_takes_none(config: Data, tmp_path: Path) -> None:
    other = labelled(np.arange(60, dtype=np.int64) % 4, "other", 1000.0)
    data = replace(balanced(), servers=replace(other, mean=1000.0, std=2.0))
    whole = split(data, config, PARTIES, 7)
    assert sorted(np.concatenate(list(whole.parties.values())).tolist()) == list(range(100))
    parties, _, server = shards_of(data, whole)
    assert server is not None
    assert sum(len(shard.y) for shard in parties.values()) == 100
    assert np.bincount(server.y).tolist() == [3] * 4
    rows = (2 * server.x[:, 0]).astype(np.int64)
    assert rows.tolist() == whole.server.tolist()
    np.testing.assert_array_equal(server.y, rows % 4)
    files = write_shards(data, config, PARTIES, 7, tmp_path)
    assert files.server is not None
    np.testing.assert_array_equal(load_shard(files.server).x, server.x)
    np.testing.assert_array_equal(load_shard(files.server).y, server.y)


@pytest.mark.parametrize("kind", [LabelsPerParty(labels=1), Data().partition])
def test_limits_are_on_what_the_parties_share(kind: Partition) -> None:
    data = replace(balanced(), servers=labelled(np.arange(8, dtype=np.int64) % 4, "other"))
    whole = split(data, Data(partition=kind, server_per_class=2, train_limit=20), PARTIES, 7)
    assert sorted(whole.server.tolist()) == list(range(8))
    assert len(np.concatenate(list(whole.parties.values()))) == 20


def write_npz(path: Path, classes: int, width: int = 64) -> str:
    rng = np.random.default_rng(classes)
    y = np.arange(5 * classes) % classes
    x = rng.random((len(y), 1, 8, width // 8)).astype(np.float32)
    np.savez(path, x_train=x, y_train=y, x_test=x[:classes], y_test=y[:classes])
    return f"npz:{path}"


def test_both_sets_are_loaded_and_must_be_alike(tmp_path: Path) -> None:
    alike = write_npz(tmp_path / "alike.npz", 10)
    data = load_data(Data(server_set=alike, server_per_class=2), None)
    assert data.name == "digits"
    assert data.servers is not None
    assert data.servers.name == "alike"
    assert data.servers.mean != data.mean
    constants = Data(server_set=alike, server_per_class=2, standardise=Standardise(mean=0.5, deviation=2))
    data = load_data(constants, None)
    assert data.servers is not None
    assert [(one.mean, one.std) for one in (data, data.servers)] == [(0.5, 2.0)] * 2
    assert load_data(Data(server_per_class=2), None).servers is None
    for other in (write_npz(tmp_path / "few.npz", 4), write_npz(tmp_path / "wide.npz", 10, 80)):
        with pytest.raises(ConfigError, match=r"digits samples of shape \(1, 8, 8\) in 10 classes") as caught:
            load_data(Data(server_set=other, server_per_class=2), None)
        assert caught.value.path == "data.server_set"
        assert caught.value.remedy


def test_a_missing_set_is_named_by_its_field() -> None:
    with pytest.raises(ConfigError, match="mnist is read from files") as caught:
        load_data(Data(server_set="mnist", server_per_class=2), None)
    assert caught.value.path == "data.server_set"
