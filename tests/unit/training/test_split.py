from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from securefl.base.arrays import I64
from securefl.base.errors import ConfigError, UsageError
from securefl.base.ids import PartyId
from securefl.scenario.data import Data, Partition
from securefl.training.data.dataset import Dataset, Roles
from securefl.training.data.partitions.class_shares import ClassShares
from securefl.training.data.partitions.dirichlet import Dirichlet
from securefl.training.data.partitions.iid import Iid
from securefl.training.data.partitions.labels import LabelsPerParty
from securefl.training.data.partitions.log_normal import LogNormal
from securefl.training.data.partitions.roles import ByRole
from securefl.training.data.shards import shards_of
from securefl.training.data.split import Split, split

PARTIES = tuple(PartyId(f"p{i}") for i in range(5))


def labelled(y: I64) -> Dataset:
    x = np.arange(len(y), dtype=np.float32)[:, None]
    return Dataset("labelled", x, y, x[:7], y[:7], int(y.max()) + 1, (1,), 0.0, 1.0)


def balanced(samples: int = 1000, classes: int = 10) -> Dataset:
    return labelled(np.arange(samples, dtype=np.int64) % classes)


def text(train: tuple[int, ...] = (40, 7, 20, 30), test: tuple[int, ...] = (10, 2, 5, 8)) -> Dataset:
    """A text whose role i has ``train[i]`` and ``test[i]`` sequences of 3 characters."""
    x, x_test = (np.zeros((sum(sizes), 3), dtype=np.int64) for sizes in (train, test))
    own, own_test = (np.repeat(np.arange(len(sizes), dtype=np.int64), sizes) for sizes in (train, test))
    roles = Roles(tuple(f"role {i}" for i in range(len(train))), own, own_test)
    return Dataset("text", x, x, x_test, x_test, 2, (3,), 0.0, 1.0, roles=roles)


def all_rows(whole: Split) -> list[int]:
    return sorted(np.concatenate([*whole.parties.values(), whole.server]).tolist())


@pytest.mark.parametrize(
    "kind", [Iid(), LabelsPerParty(labels=2), LabelsPerParty(labels=5), Dirichlet(alpha=0.3), LogNormal()]
)
def test_the_server_gets_as_many_of_each_class_and_the_parties_the_rest(kind: Partition) -> None:
    data = balanced()
    config = Data(partition=kind, server_fraction=0.05)
    whole = split(data, config, PARTIES, 3)
    assert np.bincount(data.y_train[whole.server]).tolist() == [5] * 10
    assert all_rows(whole) == list(range(1000))
    assert all(len(own) for own in whole.parties.values())


@settings(deadline=None)
@given(
    counts=st.lists(st.integers(20, 60), min_size=2, max_size=6),
    fraction=st.floats(0.11, 0.3),
    seed=st.integers(0, 2**32),
)
def test_uneven_classes_give_the_server_an_even_set(counts: list[int], fraction: float, seed: int) -> None:
    data = labelled(np.repeat(np.arange(len(counts), dtype=np.int64), counts))
    each = int(fraction * sum(counts) / len(counts) + 1e-9)
    config = Data(server_fraction=fraction)
    if each > min(counts):
        with pytest.raises(ConfigError, match="of each class, but class"):
            split(data, config, PARTIES, seed)
        return
    whole = split(data, config, PARTIES, seed)
    assert np.bincount(data.y_train[whole.server]).tolist() == [each] * len(counts)
    assert all_rows(whole) == list(range(sum(counts)))


def test_the_seed_draws_the_server_set_and_a_limit_holds_for_both() -> None:
    config = Data(server_fraction=0.1, train_limit=200)
    one, again, other = (split(balanced(), config, PARTIES, seed) for seed in (1, 1, 2))
    assert one.server.tolist() == again.server.tolist()
    assert sorted(one.server.tolist()) != sorted(other.server.tolist())
    assert len(one.server) == 20
    assert len(all_rows(one)) == 200


def test_without_a_fraction_there_is_no_server_set() -> None:
    assert len(split(balanced(), Data(), PARTIES, 3).server) == 0


def test_server_sets_that_cannot_be() -> None:
    with pytest.raises(ConfigError, match=r"0\.05 of 100 samples is less than one of each of 10") as caught:
        split(balanced(), Data(server_fraction=0.05, train_limit=100), PARTIES, 3)
    assert caught.value.path == "data.server_fraction"
    scarce = labelled(np.array([0] * 90 + [1] * 10, dtype=np.int64))
    with pytest.raises(ConfigError, match="is 25 of each class, but class 1 has 10") as caught:
        split(scarce, Data(server_fraction=0.5), PARTIES, 3)
    assert "at most 0.2" in caught.value.remedy
    with pytest.raises(ConfigError, match="5 parties cannot share 4 samples") as caught:
        split(balanced(24, 4), Data(server_fraction=0.9), PARTIES, 3)
    assert "data.server_fraction" in caught.value.remedy


@pytest.mark.parametrize("labels", [2, 5])
def test_label_partitions_that_the_server_set_empties(labels: int) -> None:
    data = balanced(60, 10)
    taken = Data(partition=LabelsPerParty(labels=labels), server_fraction=0.84)
    parties = tuple(PartyId(f"p{i:02}") for i in range(10))
    assert len(split(data, taken, parties, 3).parties) == 10
    many = tuple(PartyId(f"p{i:02}") for i in range(11))
    with pytest.raises(ConfigError, match="11 parties cannot share 10 samples"):
        split(data, taken, many, 3)
    # 12 samples for 12 parties, but a class with one sample left cannot serve all who hold it.
    lopsided = labelled(np.array([0] * 12 + [1] * 2, dtype=np.int64))
    with pytest.raises(ConfigError, match="parties would have no samples"):
        split(lopsided, Data(partition=LabelsPerParty(labels=1), server_fraction=0.15), many, 3)


def test_by_role_each_party_is_one_role_and_is_tested_on_its_own_text() -> None:
    data = text()
    assert data.roles is not None
    whole = split(data, Data(partition=ByRole()), PARTIES[:3], 3)
    for number, own in enumerate(whole.parties.values()):
        assert sorted(own.tolist()) == np.flatnonzero(data.roles.train == number).tolist()
    assert sorted(whole.test.tolist()) == np.flatnonzero(data.roles.test < 3).tolist()


@settings(deadline=None)
@given(limit=st.integers(3, 80), sizes=st.tuples(*[st.integers(1, 30)] * 4), seed=st.integers(0, 2**32))
def test_by_role_a_limit_shortens_each_alike(limit: int, sizes: tuple[int, ...], seed: int) -> None:
    data = text(sizes)
    whole = split(data, Data(partition=ByRole(), train_limit=limit), PARTIES[:3], seed)
    total = sum(sizes[:3])
    assert len(all_rows(whole)) == min(limit, total)
    for own, size in zip(whole.parties.values(), sizes, strict=False):
        assert 1 <= len(own) <= size
        if limit < total:
            assert abs(len(own) - 1 - (limit - 3) * (size - 1) / (total - 3)) < 1


def test_by_role_the_server_draws_from_the_roles_in_use() -> None:
    data = text()
    assert data.roles is not None
    whole = split(data, Data(partition=ByRole(), server_fraction=0.2), PARTIES[:2], 3)
    assert len(whole.server) == 9
    assert set(data.roles.train[whole.server].tolist()) <= {0, 1}
    assert all_rows(whole) == list(range(47))


def test_roles_that_cannot_be() -> None:
    with pytest.raises(
        ConfigError, match="roles needs a text with speakers, and labelled is not one"
    ) as caught:
        split(balanced(), Data(partition=ByRole()), PARTIES, 3)
    assert caught.value.path == "data.partition"
    with pytest.raises(ConfigError, match="5 parties, but 4 roles of text have enough text") as caught:
        split(text(), Data(partition=ByRole()), PARTIES, 3)
    assert caught.value.path == "parties"
    assert "at most 4" in caught.value.remedy
    with pytest.raises(ConfigError, match="is 2, fewer than 3 parties"):
        split(text(), Data(partition=ByRole(), train_limit=2), PARTIES[:3], 3)
    with pytest.raises(ConfigError, match="1 of 2 roles would have no samples") as caught:
        split(text((40, 1)), Data(partition=ByRole(), server_fraction=0.97), PARTIES[:2], 0)
    assert caught.value.path == "data.partition"


@pytest.mark.parametrize("kind", [LabelsPerParty(labels=2), Dirichlet(alpha=1.0), ClassShares()])
def test_texts_have_no_label_to_go_by(kind: Partition) -> None:
    with pytest.raises(
        ConfigError, match="needs one label per sample, and text has one per character"
    ) as caught:
        split(text(), Data(partition=kind), PARTIES, 3)
    assert "use roles, iid or log-normal" in caught.value.remedy


@pytest.mark.parametrize("kind", [Iid(), LogNormal()])
def test_texts_without_roles_use_everything(kind: Partition) -> None:
    whole = split(text(), Data(partition=kind, server_fraction=0.1), PARTIES, 3)
    assert all_rows(whole) == list(range(97))
    assert len(whole.server) == 9
    assert sorted(whole.test.tolist()) == list(range(25))


@pytest.mark.parametrize("names", [("a", "a"), ("a", "test"), ("a", "server")])
def test_names_that_would_share_a_file(names: tuple[str, ...]) -> None:
    with pytest.raises(UsageError, match="distinct"):
        split(balanced(), Data(), tuple(PartyId(name) for name in names), 3)


@settings(deadline=None)
@given(shares=st.integers(1, 5), behind=st.sets(st.sampled_from(PARTIES), max_size=4), seed=st.integers(0, 9))
def test_shares_are_taken_in_turn_and_those_behind_come_last(
    shares: int, behind: set[PartyId], seed: int
) -> None:
    data = balanced(100)
    cut = list(split(data, Data(server_per_class=1), PARTIES[:shares], seed).parties.values())
    whole = split(data, Data(server_per_class=1, shares=shares), PARTIES, seed, behind)
    queue = [p for p in PARTIES if p not in behind] + [p for p in PARTIES if p in behind]
    assert list(whole.parties) == list(PARTIES)
    for turn, party in enumerate(queue):
        np.testing.assert_array_equal(whole.parties[party], cut[turn % shares])


def test_without_shares_it_makes_no_difference_who_misbehaves() -> None:
    one, other = (split(balanced(), Data(), PARTIES, 3, behind) for behind in ((), PARTIES[:2]))
    for party in PARTIES:
        np.testing.assert_array_equal(one.parties[party], other.parties[party])


def test_copies_of_a_share_are_in_memory_once() -> None:
    data = balanced(100)
    shards, _, _ = shards_of(data, split(data, Data(shares=2), PARTIES, 3))
    assert len({id(shard) for shard in shards.values()}) == 2
    assert shards[PARTIES[0]] is shards[PARTIES[2]] is shards[PARTIES[4]]
