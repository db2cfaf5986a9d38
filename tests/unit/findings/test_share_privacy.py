"""What SHARE (Velicheti, Xia, Koyejo 2021) says about privacy and cost, against exact counts.

Findings S1 to S5 of docs/results/what-we-found.md.
"""

from __future__ import annotations

import math
from itertools import product

import numpy as np
import pytest

from securefl.base.crypto.prg import add_masks
from securefl.base.ids import PartyId
from securefl.methods.clustering import odds
from securefl.methods.encoding.ring import to_ring
from securefl.protocol.messages.masking import MaskedInput, ShareBoxes
from tests.simulation.world import World, scenario
from tests.unit.findings.partitions import Clusters, drawn, exposed, opened, partitions, rank

# S1: section 5.3, the chance that the server decodes an update.


def as_printed_in_5_3(parties: int, size: int, reclusterings: int) -> float:
    one_clustering: float = math.factorial(size) ** (parties // size) / math.factorial(parties)
    return 1.0 - one_clustering**reclusterings


@pytest.mark.parametrize(
    ("parties", "size", "reclusterings", "true"),
    [(4, 2, 1, 0), (4, 2, 2, 0), (4, 2, 3, 6 / 27), (4, 2, 4, 36 / 81), (6, 2, 2, 0), (6, 3, 3, 0)],
)
def test_5_3_the_chance_to_decode_is_another(
    parties: int, size: int, reclusterings: int, true: float
) -> None:
    """Over all R-tuples of clusterings."""
    every = list(partitions(range(parties), size))
    cases = list(product(every, repeat=reclusterings))
    decoded = sum(bool(exposed(opened(case, parties))) for case in cases) / len(cases)
    assert decoded == pytest.approx(true)
    assert as_printed_in_5_3(parties, size, reclusterings) > 0.8 > true


def test_5_3_one_reclustering_decodes_nothing_however_many_parties() -> None:
    clusters = drawn(np.random.default_rng(1), 60, 3)
    assert exposed(opened([clusters], 60)) == set()
    assert as_printed_in_5_3(60, 3, 1) == 1.0


# S2: appendix C.3, how many reclusterings the server needs.

TWELVE: tuple[Clusters, ...] = (
    ((1, 2, 3, 4), (5, 6, 7, 8), (0, 9, 10, 11)),
    ((0, 2, 3, 4), (1, 7, 8, 11), (5, 6, 9, 10)),
    ((0, 1, 5, 6), (2, 3, 4, 11), (7, 8, 9, 10)),
)


def test_c3_everybody_takes_more_than_n_over_c() -> None:
    """All c sums of a reclustering add up to the same total: rank at most 1 + R (c - 1)."""
    generator = np.random.default_rng(2)
    for parties, size in ((12, 3), (20, 4), (30, 5), (60, 3)):
        clusters = parties // size
        enough = math.ceil((parties - 1) / (clusters - 1))
        assert enough > parties / clusters
        rows = opened([drawn(generator, parties, size) for _ in range(enough + 2)], parties)
        for reclusterings in range(1, enough + 1):
            most = 1 + reclusterings * (clusters - 1)
            assert rank(rows[: reclusterings * clusters]) <= min(most, parties)
        assert rank(rows[: size * clusters]) < parties
        assert rank(rows) == parties


def test_c3_one_update_falls_to_fewer() -> None:
    """12 parties in clusters of four: n / c = 4, and three reclusterings give three parties away."""
    assert all(sorted(sum(clusters, ())) == list(range(12)) for clusters in TWELVE)
    assert exposed(opened(TWELVE, 12)) == {0, 1, 11}
    assert exposed(opened(TWELVE[:2], 12)) == set()
    x = np.random.default_rng(3).normal(size=12)
    (_, p1, p2), (q1, q2, q3), (s1, s2, _) = [[x[list(m)].sum() for m in row] for row in TWELVE]
    assert p1 + 2 * p2 + q1 - q2 - 2 * q3 + s1 - s2 == pytest.approx(4 * x[0])


def test_c3_three_pairs() -> None:
    pairs: list[Clusters] = [((0, 1), (2, 3)), ((1, 2), (0, 3)), ((0, 2), (1, 3))]
    assert exposed(opened(pairs[:2], 4)) == set()
    assert exposed(opened(pairs, 4)) == {0, 1, 2, 3}


def test_c3_two_reclusterings_of_unequal_clusters() -> None:
    """Where m does not divide n, as for the 50 parties in threes of the captions."""
    rows: list[Clusters] = [((0, 1, 2), (3, 4, 5, 6)), ((0, 1, 2, 3), (4, 5, 6))]
    assert exposed(opened(rows, 7)) == {3}


@pytest.mark.parametrize("size", [3, 5])
def test_c3_in_the_experiments_the_server_learns_every_update(size: int) -> None:
    """60 parties and the paper's default R = 10. At R = 3, clusters of three still hide everybody."""
    generator = np.random.default_rng(4)
    assert rank(opened([drawn(generator, 60, size) for _ in range(10)], 60)) == 60
    if size == 3:
        assert exposed(opened([drawn(generator, 60, size) for _ in range(3)], 60)) == set()


# S3: appendix C.4, colluding parties.


def as_printed_in_c4(parties: int, colluders: int, size: int) -> float:
    """Without the O."""
    return size * math.factorial(parties - size) / math.factorial(colluders - 1 - size)


def test_c4_the_bound_bounds_nothing() -> None:
    true = odds.alone_among(60, 12, 3)
    assert true == pytest.approx(math.comb(12, 2) / math.comb(59, 2))
    assert as_printed_in_c4(60, 12, 3) > 1e70
    # Two colluders are enough, as the paper says itself; the formula is not defined for fewer than m + 1.
    assert odds.alone_among(60, 2, 3) > 0
    with pytest.raises(ValueError, match="negative"):
        as_printed_in_c4(60, 2, 3)


def test_c4_how_often_somebody_is_alone_among_colluders() -> None:
    """1.85 parties in each reclustering of 60 parties, 12 colluders and clusters of three."""
    draws = 2_000
    generator = np.random.default_rng(5)
    hits = np.empty(draws)
    for index in range(draws):
        colluding = (generator.permutation(60) < 12).reshape(20, 3).sum(axis=1)
        hits[index] = np.count_nonzero(colluding == 2)
    expected = 48 * odds.alone_among(60, 12, 3)
    assert expected == pytest.approx(1.85, abs=0.005)
    # Five standard errors: a false alarm in two million seeds.
    assert abs(hits.mean() - expected) <= 5 * hits.std() / math.sqrt(draws)
    assert odds.once_in(odds.alone_among(60, 12, 3), 10) == pytest.approx(0.325, abs=0.001)


def test_c4_fewer_than_m_minus_1_colluders_who_never_meet_their_victim() -> None:
    """Two sums of three that differ in one place give x_2 - x_3, and so party 3 the update of party 2."""
    rows: list[Clusters] = [((0, 1, 2), (3, 4, 5)), ((0, 1, 3), (2, 4, 5))]
    assert all((2 in members) + (3 in members) < 2 for clusters in rows for members in clusters)
    assert exposed(opened(rows, 6)) == set()
    assert exposed(opened(rows, 6, colluders=[3])) == {2}


def test_c4_just_below_full_rank_two_colluders_expose_nearly_everybody() -> None:
    generator = np.random.default_rng(6)
    found = []
    for _ in range(5):
        rows = opened([drawn(generator, 60, 3) for _ in range(3)], 60, colluders=[0, 1])
        # Full rank in the other 58 columns determines them all.
        found.append(rank(rows) == 58)
    assert sum(found) >= 3


# S4: the remark of section 4.1 against appendix C.5, communication.


@pytest.mark.parametrize("reclusterings", [1, 2])
def test_c5_a_party_exchanges_keys_with_its_mates_and_sends_its_vector_each_time(reclusterings: int) -> None:
    """R (m - 1) boxes and R d words, as in C.5; neither is the R n / m of the remark."""
    parties, size, length = 15, 3, 40
    world = World(scenario(parties, size=str(size), reclusterings=str(reclusterings)), length=length).run()
    for number in range(parties):
        party = PartyId(f"p{number:02d}")
        boxes = sum(len(message.boxes) for message in world.messages(ShareBoxes, party))
        words = sum(len(message.vector) for message in world.messages(MaskedInput, party)) // 4
        assert boxes == reclusterings * (size - 1)
        assert words == reclusterings * length
    assert reclusterings * (size - 1) < reclusterings * parties // size


# S5: appendix C.2, double masking as an option.


def test_c2_without_a_second_mask_a_late_input_is_an_open_one() -> None:
    """The server recovered the pairwise masks of a party that it took for dropped; then its input arrives."""
    update = to_ring(np.arange(-4, 4, dtype=np.int64) * 1000, 32)
    pairwise, own = [bytes([k] * 32) for k in (1, 2)], bytes([3] * 32)
    single = update.copy()
    for key in pairwise:
        add_masks(single, [(key, 1)])
    double = single.copy()
    add_masks(double, [(own, 1)])
    for sent in (single, double):
        for key in pairwise:
            add_masks(sent, [(key, -1)])
    np.testing.assert_array_equal(single, update)
    assert np.count_nonzero(double == update) == 0
