from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Hashable, Iterable
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from securefl.base.errors import UsageError
from securefl.base.ids import PartyId
from securefl.methods.clustering.assignment import Assignment, draw_assignment
from securefl.methods.clustering.sizes import cluster_sizes
from tests.tiers import examples

CHI_SQUARE_1E6 = {5: 35.89, 23: 70.55}
"""Quantiles: a uniform draw exceeds them with probability 1e-6. Seeds are fixed, so the result is too."""
DRAWS = 2_400

KNOWN = ((("p000", "p003", "p004"), ("p001", "p002")), (("p000", "p002", "p004"), ("p001", "p003")))
KNOWN_DIGEST = "cac36af01de6dd7a24870f866f552e9ffbe2fd667c0a9f08ea7aa2684c64c420"


def parties(count: int) -> list[PartyId]:
    return [PartyId(f"p{i:03}") for i in range(count)]


def seed(number: int) -> bytes:
    return number.to_bytes(32, "big")


def chi_square(outcomes: Iterable[Hashable], possible: int) -> float:
    counts = Counter(outcomes)
    assert len(counts) == possible
    expected = counts.total() / possible
    return sum((count - expected) ** 2 / expected for count in counts.values())


@given(
    present=st.integers(1, 40),
    share=st.floats(0.1, 1.0),
    size=st.integers(1, 8),
    reclusterings=st.integers(1, 4),
    number=st.integers(0, 2**64),
)
@settings(max_examples=examples(60), deadline=None)
def test_everybody_is_in_one_cluster_per_reclustering(
    present: int, share: float, size: int, reclusterings: int, number: int
) -> None:
    wanted = max(1, int(present * share))
    size = min(size, wanted)
    drawn = draw_assignment(seed(number), parties(present), wanted, size, reclusterings)
    assert len(drawn.participants) == wanted
    assert set(drawn.participants) <= set(parties(present))
    assert list(drawn.participants) == sorted(drawn.participants)
    assert len(drawn.clusters) == reclusterings
    for row in drawn.clusters:
        assert tuple(map(len, row)) == cluster_sizes(wanted, size)
        assert sorted(itertools.chain(*row)) == list(drawn.participants)
        assert all(list(members) == sorted(members) for members in row)
    for party in parties(present):
        where = drawn.of(party)
        assert [r for r, _ in where] == (list(range(reclusterings)) if party in drawn.participants else [])
        assert all(party in drawn.clusters[r][j] for r, j in where)


@given(order=st.permutations(parties(9)))
@settings(max_examples=examples(30), deadline=None)
def test_order_of_the_parties_does_not_matter(order: list[PartyId]) -> None:
    assert draw_assignment(seed(1), order, 7, 2, 3) == draw_assignment(seed(1), parties(9), 7, 2, 3)


def test_known_answer() -> None:
    """A change here makes old and new versions draw different clusters from the same nonces."""
    drawn = draw_assignment(seed(1), parties(5), 5, 2, 2)
    assert drawn.clusters == KNOWN
    assert drawn.digest().hex() == KNOWN_DIGEST


def test_all_splits_into_two_clusters_are_equally_likely() -> None:
    drawn = (draw_assignment(seed(n), parties(4), 4, 2, 1).clusters for n in range(DRAWS))
    assert chi_square(drawn, 6) < CHI_SQUARE_1E6[5]


def test_all_choices_of_participants_are_equally_likely() -> None:
    drawn = (draw_assignment(seed(n), parties(4), 2, 2, 1).participants for n in range(DRAWS))
    assert chi_square(drawn, 6) < CHI_SQUARE_1E6[5]


def test_all_orders_are_equally_likely() -> None:
    drawn = (draw_assignment(seed(n), parties(4), 4, 1, 1).clusters for n in range(DRAWS))
    assert chi_square(drawn, 24) < CHI_SQUARE_1E6[23]


def test_reclusterings_of_one_round_are_independent() -> None:
    pairs = (draw_assignment(seed(n), parties(3), 3, 1, 2).clusters for n in range(DRAWS))
    first_places = ((a[0], b[0]) for a, b in pairs)
    outcomes = Counter(first_places)
    assert len(outcomes) == 9
    # Each of 9 outcomes has mean 266.7 and deviation 15.4; six deviations are exceeded with odds below 2e-8.
    assert all(abs(count - DRAWS / 9) < 6 * 15.4 for count in outcomes.values())


def test_one_bit_of_the_seed_changes_everything() -> None:
    first = draw_assignment(seed(0), parties(40), 40, 4, 1)
    assert all(draw_assignment(seed(1 << bit), parties(40), 40, 4, 1) != first for bit in range(0, 256, 16))


@pytest.mark.parametrize(("participants", "size"), [(0, 1), (2, 3), (3, 0), (3, -1)])
def test_sizes_that_cannot_be(participants: int, size: int) -> None:
    with pytest.raises(UsageError):
        cluster_sizes(participants, size)


@given(participants=st.integers(1, 500), size=st.integers(1, 60))
def test_sizes(participants: int, size: int) -> None:
    size = min(size, participants)
    sizes = cluster_sizes(participants, size)
    assert sum(sizes) == participants
    assert len(sizes) == participants // size
    assert size <= min(sizes) <= max(sizes) <= min(min(sizes) + 1, 2 * size - 1 or 1)


def test_digest_covers_participants_and_every_place() -> None:
    base = draw_assignment(seed(1), parties(6), 6, 3, 2)
    one, two = base.clusters
    others = [
        replace(base, participants=base.participants[:-1]),
        replace(base, clusters=(two, one)),
        replace(base, clusters=(one,)),
        replace(base, clusters=(one[::-1], two)),
        replace(base, clusters=((one[0] + one[1],), two)),
        replace(base, clusters=((one[0][::-1], one[1]), two)),
    ]
    assert len({other.digest() for other in [base, *others]}) == 1 + len(others)
    assert Assignment(base.participants, base.clusters).digest() == base.digest()
