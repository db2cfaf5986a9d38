from __future__ import annotations

import bisect
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from securefl.base.arrays import F64, I64, U64
from securefl.base.crypto import prg
from securefl.base.crypto.agreement import derive_key
from securefl.base.entropy import InsecureSeededEntropy, OsEntropy
from securefl.base.errors import ConfigError, UsageError
from securefl.methods.privacy.laws import NoiseLaw
from securefl.methods.privacy.table import BLOCK, MAX_STD, WORST_ERROR, NoiseTable, noise_table
from tests.tiers import examples
from tests.unit.privacy.oracles import exact_law, law_of_table, masses

LAWS: tuple[NoiseLaw, ...] = ("skellam", "discrete-gaussian")
EVERY = [(law, std) for law in LAWS for std in (4.0, 16.0, 333.3, MAX_STD)]


def chi_square(draws: I64, law: F64) -> tuple[float, int]:
    """The statistic over cells of at least 50 expected draws, and its degrees of freedom.

    ``law`` is P(-L) ... P(L); neighbouring values share a cell where they are rare.
    """
    half = law.size // 2
    seen = np.bincount(draws + half, minlength=law.size).astype(np.float64)
    wanted = law * draws.size
    edges, held = [0], 0.0
    for k, more in enumerate(wanted.tolist()):
        held += more
        if held >= 50:
            edges.append(k + 1)
            held = 0.0
    starts = edges[:-1]  # what follows the last full cell joins it
    seen, wanted = np.add.reduceat(seen, starts), np.add.reduceat(wanted, starts)
    return float((np.square(seen - wanted) / wanted).sum()), seen.size - 1


def z_score(statistic: float, freedom: int) -> float:
    """Chi-square as a standard normal value (Wilson and Hilferty 1931)."""
    share = 2 / (9 * freedom)
    return float(((statistic / freedom) ** (1 / 3) - (1 - share)) / math.sqrt(share))


def unread() -> U64:
    raise AssertionError("the first bits decide")


def drawn(table: NoiseTable, uniform: list[int]) -> list[int]:
    """The draws of these 127 bits each, first with a plus, then with a minus."""
    words = np.array([2 * (u >> 64) + sign for u in uniform for sign in (0, 1)], dtype=np.uint64)
    rest = np.array([u % 2**64 for u in uniform for _ in (0, 1)], dtype=np.uint64)
    draws: list[int] = table.from_words(words, lambda: rest).tolist()
    return draws


@pytest.mark.parametrize(("law", "std"), EVERY)
class TestTable:
    def test_thresholds_rise_and_end_below_the_whole(self, law: NoiseLaw, std: float) -> None:
        table = noise_table(law, std)
        assert min(masses(table)) >= 0
        assert sum(masses(table)) == 2**127
        assert 13 * std <= table.largest < min(17 * std, 14 * std + 64)
        assert not table.leading.flags.writeable
        assert not table.further.flags.writeable

    def test_the_error_is_within_half_a_unit_for_each_threshold(self, law: NoiseLaw, std: float) -> None:
        table = noise_table(law, std)
        assert 0 < table.table_error <= Fraction(table.largest + 2, 2**128)
        assert table.table_error <= WORST_ERROR

    def test_variance_is_the_laws_up_to_the_rounding(self, law: NoiseLaw, std: float) -> None:
        table = noise_table(law, std)
        variance = sum(k * k * mass for k, mass in enumerate(masses(table))) / Fraction(2**127)
        assert abs(variance / Fraction(std) ** 2 - 1) < Fraction(1, 10**13)

    def test_every_threshold_parts_two_magnitudes(self, law: NoiseLaw, std: float) -> None:
        """All bits just below and at each threshold, with either sign, against bisection by Python."""
        table = noise_table(law, std)
        steps = table.thresholds
        chosen = steps[:: max(1, len(steps) // 300)] + steps[-50:]
        uniform = sorted({u for t in chosen for u in (max(t - 1, 0), t)} | {0, 2**127 - 1})
        assert drawn(table, uniform) == [s * bisect.bisect_right(steps, u) for u in uniform for s in (1, -1)]

    def test_the_first_63_bits_draw_what_they_always_drew(self, law: NoiseLaw, std: float) -> None:
        """Thresholds rounded to 63 bits, as they once were, and words that do not begin as one does."""
        table = noise_table(law, std)
        rounded = [(step + 2**63) >> 64 for step in table.thresholds]
        rng = np.random.default_rng(9)
        uniform = rng.integers(0, 2**63, 20_000).tolist()
        uniform += [min(step + by, 2**63 - 2) for step in rounded[::7] for by in (-2, 2) if step + by >= 0]
        uniform = sorted(set(uniform) - set(table.leading.tolist()) - set(rounded))
        words = np.array([2 * u for u in uniform], dtype=np.uint64)
        old = [bisect.bisect_right([step for step in rounded if step < 2**63], u) for u in uniform[::50]]
        assert table.from_words(words, unread)[::50].tolist() == old

    def test_draws_follow_the_law(self, law: NoiseLaw, std: float) -> None:
        """Chi-square, mean and variance, each at 5.2 standard deviations: 2e-7 (two-sided) over seeds."""
        table = noise_table(law, std)
        n = 150_000
        draws = table.sample(n, InsecureSeededEntropy(41).child(law, str(std)))
        assert z_score(*chi_square(draws, law_of_table(table))) < 5.2
        assert abs(draws.mean()) < 5.2 * std / math.sqrt(n)
        # Var(X^2) = 2 s^4 + s^2 at most (Skellam's fourth cumulant is s^2).
        assert abs(np.square(draws).mean() - std**2) < 5.2 * math.sqrt((2 * std**4 + std**2) / n)


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("std", [4, 16])
def test_the_table_error_is_the_distance_to_the_true_law(law: NoiseLaw, std: int) -> None:
    """Half the sum of |table - law|, with the law to 50 digits from the definition."""
    table = noise_table(law, float(std))
    true = [Fraction(p) for p in exact_law(law, std, table.largest)]
    gap = Fraction(0)
    for k, (mass, p) in enumerate(zip(masses(table), true, strict=True)):
        gap += abs(Fraction(mass, 2**127) - p * (2 if k else 1))
    gap += 1 - (2 * sum(true) - true[0])
    assert abs(table.table_error - gap / 2) < Fraction(1, 10**48)
    assert table.table_error > gap / 2 - Fraction(1, 10**55)


def test_the_chi_square_test_finds_a_wrong_law() -> None:
    """Power: 3 % too little noise is found, and Skellam is told from a discrete Gaussian at 4 steps."""
    draws = noise_table("skellam", 15.5).sample(150_000, InsecureSeededEntropy(42))
    assert z_score(*chi_square(draws, law_of_table(noise_table("skellam", 16.0)))) > 5.2
    draws = noise_table("skellam", 4.0).sample(1_500_000, InsecureSeededEntropy(43))
    wide = np.pad(law_of_table(noise_table("discrete-gaussian", 4.0)), 8)
    assert z_score(*chi_square(draws, wide)) > 5.2


def test_a_sum_of_skellams_is_skellam() -> None:
    """Exactly: the convolution of two tables, in floats. Variances add: 3^2 + 4^2 = 5^2, here times 2^2."""
    first, second = (law_of_table(noise_table("skellam", std)) for std in (6.0, 8.0))
    both = np.convolve(first, second)
    whole = law_of_table(noise_table("skellam", 10.0))
    trim = (both.size - whole.size) // 2
    np.testing.assert_allclose(both[trim : both.size - trim], whole, rtol=0, atol=1e-16)


def test_draws_of_different_parties_sum_to_the_law_of_the_sum() -> None:
    table = noise_table("skellam", 4.0)
    root = InsecureSeededEntropy(44)
    total = sum(
        (table.sample(100_000, root.child("party", i)) for i in range(9)), np.zeros(100_000, np.int64)
    )
    assert z_score(*chi_square(total, law_of_table(noise_table("skellam", 12.0)))) < 5.2


def test_neighbouring_draws_are_uncorrelated() -> None:
    """|r| sqrt(n) > 5.5 has probability 4e-8 for each lag."""
    n = 150_000
    draws = noise_table("discrete-gaussian", 50.0).sample(n, InsecureSeededEntropy(45)).astype(np.float64)
    for lag in (1, 2, BLOCK):
        assert abs(float(np.corrcoef(draws[:-lag], draws[lag:])[0, 1])) * math.sqrt(n - lag) < 5.5


@settings(deadline=None, max_examples=examples(30))
@given(st.lists(st.integers(0, 2**64 - 1), max_size=40), st.sampled_from([4.0, 333.3, 4096.0]))
def test_look_up_agrees_with_bisection(words: list[int], std: float) -> None:
    table = noise_table("skellam", std)
    steps, rest = table.thresholds, [word * 0x9E3779B97F4A7C15 % 2**64 for word in words]
    bits = [(word // 2 << 64) + more for word, more in zip(words, rest, strict=True)]
    wanted = [
        (-1 if word % 2 else 1) * bisect.bisect_right(steps, u) for word, u in zip(words, bits, strict=True)
    ]
    found = table.from_words(np.array(words, dtype=np.uint64), lambda: np.array(rest, dtype=np.uint64))
    assert found.tolist() == wanted
    assert all(abs(draw) <= table.largest for draw in wanted)


@pytest.mark.parametrize("size", [0, 1, BLOCK - 1, BLOCK, BLOCK + 1, 2 * BLOCK + 5])
def test_the_number_of_draws_does_not_change_the_first_ones(size: int) -> None:
    table = noise_table("skellam", 4.0)
    draws = table.sample(size, InsecureSeededEntropy(46))
    assert draws.shape == (size,)
    assert draws.dtype == np.int64
    np.testing.assert_array_equal(draws, table.sample(3 * BLOCK, InsecureSeededEntropy(46))[:size])


def test_known_draws() -> None:
    """The draws of a seed stay what they are: recorded runs must replay."""
    draws = noise_table("skellam", 100.0).sample(8, InsecureSeededEntropy(47))
    assert draws.tolist() == [96, -130, 94, 11, 198, 6, -44, -66]
    draws = noise_table("discrete-gaussian", 4.0).sample(8, InsecureSeededEntropy(48))
    assert draws.tolist() == [-1, -1, 5, -6, -4, -4, 0, 2]


def test_the_further_bits_are_a_stream_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of one key the same, of two keys two; asked for only where the first bits leave a draw open."""
    table, keys = noise_table("skellam", 64.0), (bytes(32), bytes(31) + b"x")
    asked: list[bytes] = []
    real = prg.expand

    def expand(key: bytes, words: int, dtype: type[np.uint64]) -> U64:
        asked.append(key)
        stream = real(key, words, dtype)
        if key in keys:
            # As if the stream began as one threshold does, and a draw at the other end were open, too.
            stream[1], stream[-1] = (2 * int(table.leading[at]) for at in (100, 0))
        return stream

    monkeypatch.setattr(prg, "expand", expand)
    size = 2 * BLOCK + 3
    for key in keys:
        draws = table.from_key(key, size)
        assert [one for one in asked if one not in keys] == [derive_key(key, "noise, further bits", b"")] * 2
        more = real(derive_key(key, "noise, further bits", b""), size, np.uint64)
        for place, at in ((1, 100), (-1, 0)):
            whole = (int(table.leading[at]) << 64) + int(more[place])
            assert draws[place] == bisect.bisect_right(table.thresholds, whole)
        asked.clear()
    monkeypatch.undo()
    assert len({table.from_key(key, 8).tobytes() for key in keys}) == 2


def test_the_operating_system_gives_fresh_draws() -> None:
    table = noise_table("skellam", 64.0)
    assert not np.array_equal(table.sample(50, OsEntropy()), table.sample(50, OsEntropy()))


def test_tables_are_kept() -> None:
    assert noise_table("skellam", 16.0) is noise_table("skellam", 16)


@pytest.mark.parametrize(
    ("std", "remedy"),
    [
        (3.999, "finer scale"),
        (0.0, "finer"),
        (-5.0, "finer"),
        (4096.5, "coarser scale"),
        (math.inf, "coarser"),
        (math.nan, "a number"),
    ],
)
def test_refuses_steps_out_of_range(std: float, remedy: str) -> None:
    with pytest.raises(ConfigError, match=r"outside 4 to 4096 steps") as caught:
        noise_table("skellam", std, "privacy.sigma")
    assert caught.value.path == "privacy.sigma"
    assert remedy in caught.value.remedy
    assert "\n" not in str(caught.value)


def test_refuses_wrong_words_and_sizes() -> None:
    table: NoiseTable = noise_table("skellam", 4.0)
    with pytest.raises(UsageError, match="dtype"):
        table.from_words(np.zeros(2, dtype=np.int64), unread)
    at_a_threshold = np.array([2 * int(table.leading[3])], dtype=np.uint64)
    with pytest.raises(UsageError, match="further bits"):
        table.from_words(at_a_threshold, lambda: np.zeros(2, dtype=np.uint64))
    with pytest.raises(UsageError, match="words"):
        table.sample(-1, InsecureSeededEntropy(1))
