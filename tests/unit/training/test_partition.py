from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from securefl.base.arrays import I64
from securefl.base.errors import ConfigError, UsageError
from securefl.scenario.data import Partition
from securefl.training.data.partition import partition
from securefl.training.data.partitions.class_shares import ClassShares
from securefl.training.data.partitions.dirichlet import Dirichlet
from securefl.training.data.partitions.iid import Iid
from securefl.training.data.partitions.labels import LabelsPerParty
from securefl.training.data.partitions.log_normal import LogNormal
from securefl.training.data.partitions.log_normal_dirichlet import LogNormalDirichlet

KINDS: st.SearchStrategy[Partition] = st.one_of(
    st.sampled_from([Iid(), ClassShares()]),
    st.integers(1, 12).map(lambda labels: LabelsPerParty(labels=labels)),
    st.sampled_from([5e-324, 1e-9, 0.01, 0.3, 1.0, 100.0, 1e300, 1.7e308]).map(lambda a: Dirichlet(alpha=a)),
    st.sampled_from([1e-9, 0.5, 3.45, 50.0, 1e300]).map(lambda s: LogNormal(sigma=s)),
    st.tuples(st.sampled_from([-20.0, 1.5, 20.0]), st.sampled_from([1e-9, 3.45, 20.0])).map(
        lambda drawn: LogNormalDirichlet(mu=drawn[0], sigma=drawn[1], drawn=50)
    ),
)
LABELS = st.lists(st.integers(0, 9), min_size=1, max_size=200).map(lambda ys: np.array(ys, dtype=np.int64))


def balanced(samples: int = 1000, classes: int = 10) -> I64:
    return np.arange(samples, dtype=np.int64) % classes


@settings(deadline=None)
@given(labels=LABELS, parties=st.integers(1, 40), config=KINDS, seed=st.integers(0, 2**64 - 1))
def test_shares_are_disjoint_and_none_is_empty(
    labels: I64, parties: int, config: Partition, seed: int
) -> None:
    try:
        shares = partition(labels, parties, config, seed)
    except ConfigError:
        if len(labels) >= parties:
            assert isinstance(config, LabelsPerParty)
        return
    assert len(shares) == parties
    assert all(share.dtype == np.int64 and share.size for share in shares)
    used = np.concatenate(shares)
    assert len(np.unique(used)) == len(used)
    assert used.min() >= 0
    assert used.max() < len(labels)
    if not isinstance(config, LabelsPerParty):
        assert len(used) == len(labels)
    else:
        assert all(len(np.unique(labels[share])) <= config.labels for share in shares)


@settings(deadline=None)
@given(config=KINDS, seed=st.integers(0, 2**32))
def test_the_seed_decides(config: Partition, seed: int) -> None:
    if isinstance(config, LabelsPerParty) and config.labels > 10:
        return
    once, again = (partition(balanced(), 7, config, seed) for _ in range(2))
    other = partition(balanced(), 7, config, seed + 1)
    assert all(np.array_equal(a, b) for a, b in zip(once, again, strict=True))
    assert any(not np.array_equal(a, b) for a, b in zip(once, other, strict=True))


@settings(deadline=None)
@given(samples=st.integers(1, 300), parties=st.integers(1, 50), seed=st.integers(0, 100))
def test_equal_kinds_differ_by_at_most_one_sample(samples: int, parties: int, seed: int) -> None:
    if samples < parties:
        return
    for config in (Iid(), Dirichlet(alpha=0.1), ClassShares()):
        sizes = [len(share) for share in partition(balanced(samples), parties, config, seed)]
        assert max(sizes) - min(sizes) <= 1


def test_labels_per_party_gives_exactly_so_many_and_uses_everything() -> None:
    labels = balanced(2000)
    shares = partition(labels, 15, LabelsPerParty(labels=2), 3)
    held = [set(labels[share].tolist()) for share in shares]
    assert all(len(classes) == 2 for classes in held)
    holders = [sum(label in classes for classes in held) for label in range(10)]
    assert holders == [3] * 10
    assert sum(len(share) for share in shares) == 2000
    # 200 samples of a class over its 3 holders: 66 or 67 each.
    assert {len(share) for share in shares} <= {132, 133, 134}


def test_labels_per_party_does_not_put_parties_into_fixed_groups() -> None:
    labels = balanced(3000)
    shares = partition(labels, 30, LabelsPerParty(labels=2), 0)
    assert len({frozenset(labels[share].tolist()) for share in shares}) > 5


def test_few_holders_leave_classes_unused() -> None:
    labels = balanced()
    shares = partition(labels, 2, LabelsPerParty(labels=3), 0)
    assert sum(len(share) for share in shares) == 600


def test_small_alpha_is_uneven_and_large_alpha_even() -> None:
    labels = balanced(5000)

    def largest_class_share(alpha: float) -> float:
        shares = partition(labels, 20, Dirichlet(alpha=alpha), 5)
        return float(np.mean([np.bincount(labels[s], minlength=10).max() / len(s) for s in shares]))

    assert largest_class_share(0.05) > 0.6
    assert largest_class_share(1e6) < 0.16


def test_log_normal_sizes_follow_sigma() -> None:
    def sizes(sigma: float) -> list[int]:
        return sorted(len(s) for s in partition(balanced(10_000), 20, LogNormal(sigma=sigma), 5))

    assert sizes(1e-9) == [500] * 20
    spread = sizes(1.0)
    assert spread[-1] > 3 * spread[10] > 0
    assert sizes(1e300) == [1] * 19 + [9981]


def get_non_iid(labels: I64, parties: int, seed: int) -> list[list[int]]:
    """Algorithm 4 of Xiang et al. 2023 line by line, on lists; random numbers in the order of the program."""
    rng = np.random.Generator(np.random.PCG64(seed))
    taken: list[list[int]] = [[] for _ in range(parties)]
    for label in sorted(set(labels.tolist())):
        group = rng.permutation(np.flatnonzero(labels == label)).tolist()
        uniform = [1.0 - float(value) for value in rng.random(parties)]
        ideal = [len(group) * value / sum(uniform) for value in uniform]
        sizes = [int(value) for value in ideal]
        by_rest = sorted(range(parties), key=lambda i: sizes[i] - ideal[i])
        for party in by_rest[: len(group) - sum(sizes)]:
            sizes[party] += 1
        for own, size in zip(taken, sizes, strict=True):
            own.extend(group[:size])
            group = group[size:]
    line = [sample for own in taken for sample in own]
    size = -(-len(line) // parties)
    return [line[party * size : (party + 1) * size] for party in range(parties)]


@settings(deadline=None)
@given(
    each=st.integers(1, 12), parties=st.integers(1, 12), classes=st.integers(1, 8), seed=st.integers(0, 2**32)
)
def test_class_shares_are_those_of_the_algorithm(each: int, parties: int, classes: int, seed: int) -> None:
    labels = np.random.default_rng(seed).integers(0, classes, each * parties)
    expected = get_non_iid(labels, parties, seed)
    shares = partition(labels, parties, ClassShares(), seed)
    assert [sorted(share.tolist()) for share in shares] == [sorted(part) for part in expected]


@pytest.mark.parametrize(("samples", "parties"), [(1010, 100), (7291, 10), (60_000, 19)])
def test_class_shares_leave_no_party_with_the_rest(samples: int, parties: int) -> None:
    """Parts of ceil(n / parties), as the paper has them, leave 8 of 100 parties without any of 1,010."""
    assert sum(not part for part in get_non_iid(balanced(1010), 100, 1)) == 8
    sizes = [len(share) for share in partition(balanced(samples), parties, ClassShares(), 1)]
    assert max(sizes) - min(sizes) == 1


def test_class_shares_are_as_uneven_as_figure_5() -> None:
    """10 classes over 20 parties: a class from 0 to about 0.3 of a party's samples, where iid has 0.1."""
    labels = balanced(60_000)
    lowest, highest = [], []
    for seed in range(5):
        shares = partition(labels, 20, ClassShares(), seed)
        ratios = np.array([np.bincount(labels[share], minlength=10) / len(share) for share in shares])
        lowest.append(ratios.min())
        highest.append(ratios.max())
    assert max(lowest) < 0.005
    assert 0.2 < min(highest) <= max(highest) < 0.45


def test_every_kind_works_with_one_sample_per_party() -> None:
    for config in (
        Iid(),
        Dirichlet(alpha=0.1),
        ClassShares(),
        LogNormal(sigma=2.0),
        LabelsPerParty(labels=1),
    ):
        assert [len(share) for share in partition(balanced(10), 10, config, 0)] == [1] * 10


def test_infeasible_splits_name_field_and_remedy() -> None:
    with pytest.raises(ConfigError, match="11 parties cannot share 10 samples") as caught:
        partition(balanced(10), 11, Iid(), 0)
    assert caught.value.path == "parties"
    assert "data.train_limit" in caught.value.remedy
    with pytest.raises(ConfigError, match="11 classes per party, but the data has 10") as caught:
        partition(balanced(), 2, LabelsPerParty(labels=11), 0)
    assert caught.value.path == "data.partition.labels"
    lopsided = np.array([0] * 50 + [1], dtype=np.int64)
    with pytest.raises(ConfigError, match="1 of 4 parties would have no samples"):
        partition(lopsided, 4, LabelsPerParty(labels=1), 0)


def test_misuse() -> None:
    with pytest.raises(UsageError, match="parties must be at least 1"):
        partition(balanced(), 0, Iid(), 0)
    with pytest.raises(UsageError, match="shape"):
        partition(balanced().reshape(10, 100), 2, Iid(), 0)


def test_multinomial_sizes_are_the_largest_of_those_drawn() -> None:
    """With the paper's parameters most of 60,000 samples are with a few of 80 parties."""
    sizes = [len(own) for own in partition(balanced(60_000), 80, LogNormalDirichlet(), 0)]
    assert sum(sorted(sizes)[-8:]) > 0.7 * 60_000
    assert min(sizes) == 1
    even = [len(own) for own in partition(balanced(60_000), 80, LogNormalDirichlet(mu=20, sigma=1e-9), 0)]
    assert max(even) - min(even) < 12_500, "20 dropped parties' samples are the largest one's"
    with pytest.raises(ConfigError, match="100 sizes are fewer than 101"):
        partition(balanced(), 101, LogNormalDirichlet(), 0)


class Broken(Partition, frozen=True, kw_only=True):
    """Whatever ``how`` says is wrong with a split."""

    how: str

    def split(self, labels: I64, parties: int, rng: np.random.Generator) -> list[I64]:
        good = np.array_split(np.arange(len(labels)), parties)
        match self.how:
            case "fewer":
                return good[1:]
            case "floats":
                return [own.astype(np.float64) for own in good]
            case "lists no party":
                return [np.empty(0, dtype=np.int64), *good[1:]]
            case "outside":
                return [good[0] + len(labels), *good[1:]]
            case _:
                return [good[1], *good[1:]]


@pytest.mark.parametrize(
    ("how", "reason"),
    [
        ("fewer", "returned 3 shares for 4 parties"),
        ("floats", "returned a share that is not a one-dimensional i64 array"),
        ("lists no party", "leaves 1 of 4 parties without a sample"),
        ("outside", "returned samples outside of 0 to 99"),
        ("twice", "assigned a sample to two parties"),
    ],
)
def test_ones_own_partition_is_held_to_what_a_split_is(how: str, reason: str) -> None:
    with pytest.raises(ConfigError, match=rf"^data\.partition\.type: .*Broken {reason}"):
        partition(np.zeros(100, dtype=np.int64), 4, Broken(how=how), 0)
