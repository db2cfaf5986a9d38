"""Sampling of integer noise: one secret word and one look-up in a table of integer thresholds (step 5).

Floating-point noise leaks through the gaps of its grid (Mironov 2012, "On significance of the least
significant bits for differential privacy"). Here every probability is a multiple of 2^-128.

A draw takes a sign and 127 bits, an integer U: the magnitude is #{k : T_k <= U}, T_k the nearest integer to
P(|X| <= k) 2^127. The sign is the lowest bit of a 64-bit word, its other 63 bits, u, are the first of the
127. The other 64 are read, from a stream with its own key, only if some T_k begins with u (at most one of
10^14 draws). The leading 16 bits of u determine the magnitude, unless thresholds begin with them; then a
bisection does. With 63 bits only, the distance from the law would be 2^-50 per draw, too much for many draws
(docs/adr/0035).

Hazard: this is not constant-time code. Time and addresses depend on the draws (bisections are 0.03 to 17 % of
the law). Do not share the machine with the adversary.
"""

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from securefl.base import sums
from securefl.base.arrays import I64, U64, expect
from securefl.base.crypto import derive_key, prg
from securefl.base.entropy import Entropy
from securefl.base.errors import ConfigError, UsageError
from securefl.methods.privacy import laws

MIN_STD = 4.0
"""Smallest standard deviation, steps, from which on the bounds for sums of discrete noise are negligible."""

MAX_STD = 4096.0
"""Largest standard deviation, steps: the table has 54,000 thresholds (900 kB)."""

BLOCK = 1 << 14
"""Number of draws per block, whose temporaries stay in the second-level cache."""

WORST_ERROR = 2.0**-113
"""Upper bound on the distance of any table from its law."""

_WORD_BITS = 63
_FURTHER_BITS = 64
_FURTHER = "noise, further bits"
_SLOT_BITS = 16
_UNSETTLED = 2**16 - 1
"""Marker in place of a magnitude; no magnitude is as large."""


@dataclass(frozen=True, slots=True, eq=False)
class NoiseTable:
    """Table that turns uniform bits into draws of one noise law; made by :func:`noise_table`.

    127 bits u give the magnitude, the smallest k with u < T_k; one more bit gives the sign. Each threshold
    T_k = 2^127 P(|draw| <= k) is stored as 63 leading and 64 further bits.
    """

    law: laws.NoiseLaw
    std: float
    """Standard deviation s of the true law, steps. The variance of a draw is s^2 up to a relative 10^-13."""
    leading: I64
    """The first 63 bits of T_0 <= T_1 <= ... < 2^127, read-only. P(|draw| <= k) = T_k / 2^127, and 1 from
    ``largest`` on."""
    further: U64
    """The last 64 bits of each threshold."""
    table_error: Fraction
    """Upper bound on the statistical (total variation) distance between one draw and the true law."""
    _settled: npt.NDArray[np.uint16]
    """For each value of the leading bits of u: the magnitude, or a marker if it depends on the other bits."""

    @property
    def largest(self) -> int:
        """Largest magnitude of a draw, steps; used to prove that sums do not wrap in the ring."""
        return int(self.leading.size)

    @property
    def thresholds(self) -> list[int]:
        """T_0, T_1, ... as integers."""
        pairs = zip(self.leading.tolist(), self.further.tolist(), strict=True)
        return [(first << _FURTHER_BITS) | rest for first, rest in pairs]

    def sample(self, size: int, entropy: Entropy) -> I64:
        """Return ``size`` independent draws, i64 ``(size,)``, steps, by :meth:`from_key` with a fresh key."""
        return self.from_key(entropy.draw(prg.KEY_BYTES), size)

    def from_key(self, key: bytes, size: int) -> I64:
        """Return the draws of a 32-byte key, i64 ``(size,)``, steps.

        An AES-256-CTR stream under the key gives the words; one under a derived key gives the further bits.

        Raises:
            UsageError: a negative size, or an invalid key.
        """

        def more() -> U64:
            return prg.expand(derive_key(key, _FURTHER, b""), size, np.uint64)

        return self.from_words(prg.expand(key, size, np.uint64), more)

    def from_words(self, words: U64, more: Callable[[], U64]) -> I64:
        """Return the draws of uniform ``words``, u64 ``(n,)``: i64 ``(n,)``.

        Args:
            words: sign and first bits of each draw.
            more: returns the further bits of all draws, u64 ``(n,)``, the same in each call; called only if
                first bits do not decide.

        Raises:
            UsageError: the wrong dtype or shape.
        """
        expect(words, "words", np.uint64, (None,))
        draws = np.empty(words.size, dtype=np.int64)
        for start in range(0, words.size, BLOCK):
            block = slice(start, start + BLOCK)
            magnitudes = draws[block]
            undecided = self._look_up(words[block], magnitudes)
            if undecided.size:
                further = more()
                expect(further, "further bits", np.uint64, (words.size,))
                for at in undecided.tolist():
                    magnitudes[at] = self._decide(int(words[start + at]) >> 1, further[start + at])
            sign = -(words[block] & np.uint64(1)).view(np.int64)
            magnitudes ^= sign
            magnitudes -= sign
        return draws

    def _look_up(self, words: U64, out: I64) -> I64:
        """Write magnitudes by the first bits to ``out``; return the indices of undecided draws.

        For those, ``out`` holds the upper end.
        """
        # Every index is in range; numpy does not copy in this mode.
        magnitudes = self._settled.take((words >> np.uint64(64 - _SLOT_BITS)).view(np.int64), mode="wrap")
        out[:] = magnitudes
        unsettled = np.flatnonzero(magnitudes == _UNSETTLED)
        uniform = (words[unsettled] >> np.uint64(1)).view(np.int64)
        found = np.searchsorted(self.leading, uniform, side="right")
        out[unsettled] = found
        # Below the first threshold this compares with the last one, which no smaller number equals.
        open_: I64 = unsettled[self.leading.take(found - 1, mode="wrap") == uniform]
        return open_

    def _decide(self, first: int, rest: np.uint64) -> int:
        """Return the magnitude from all bits."""
        low, high = (int(np.searchsorted(self.leading, first, side=side)) for side in ("left", "right"))
        return low + int(np.searchsorted(self.further[low:high], rest, side="right"))


def noise_table(law: laws.NoiseLaw, std: float, path: str = "privacy.noise") -> NoiseTable:
    """Return the table of a law, from a small cache; errors name the scenario field ``path``.

    Args:
        law: ``skellam`` (closed under addition) or ``discrete-gaussian``.
        std: standard deviation s in steps, 4 <= s <= 4096, else a ConfigError.
        path: field.
    """
    if not MIN_STD <= std <= MAX_STD:
        finer = "use a finer scale or more noise" if std < MIN_STD else "use a coarser scale or less noise"
        raise ConfigError(
            path,
            f"the noise of a party has a standard deviation of {std:g} steps, outside {MIN_STD:g} to"
            f" {MAX_STD:g} steps",
            "give a standard deviation that is a number" if math.isnan(std) else finer,
        )
    return _build(law, float(std))


@functools.lru_cache(maxsize=8)
def _build(law: laws.NoiseLaw, std: float) -> NoiseTable:
    steps, error = _round_thresholds(laws.weights(law, std))
    leading = np.array([step >> _FURTHER_BITS for step in steps], dtype=np.int64)
    further = np.array([step & ((1 << _FURTHER_BITS) - 1) for step in steps], dtype=np.uint64)
    for part in (leading, further):
        part.flags.writeable = False
    starts = np.arange(1 << _SLOT_BITS, dtype=np.int64) << (_WORD_BITS - _SLOT_BITS)
    ends = starts + ((1 << (_WORD_BITS - _SLOT_BITS)) - 1)
    # No threshold begins with any 63 bits of a settled slot, so a settled slot needs no further bits.
    first, last = np.searchsorted(leading, starts, side="left"), np.searchsorted(leading, ends, side="right")
    settled = np.where(first == last, first, _UNSETTLED).astype(np.uint16)
    return NoiseTable(law, std, leading, further, error, settled)


def _round_thresholds(true: laws.Weights) -> tuple[list[int], Fraction]:
    """Return the thresholds below 2^127 and an upper bound on the distance, a multiple of 2^-192."""
    low_total = 2 * sums.exact_sum(true.low) - true.low[0]
    high_total = 2 * (sums.exact_sum(true.high) + true.beyond) - true.high[0]
    bits = _WORD_BITS + _FURTHER_BITS
    whole = 1 << bits
    thresholds: list[int] = []
    cumulative, previous, excess = 0, 0, true.beyond << (bits + 1)
    for k, (low, high) in enumerate(zip(true.low, true.high, strict=True)):
        sides = 2 if k else 1
        cumulative += sides * low
        threshold = min(whole, ((cumulative << (bits + 1)) // low_total + 1) >> 1)
        mass, previous = threshold - previous, threshold
        # |mass / 2^127 - sides * w_k / total|, times 2^127 total, for the worse end of the brackets.
        excess += max(mass * high_total - (sides * low << bits), (sides * high << bits) - mass * low_total)
        if threshold < whole:
            thresholds.append(threshold)
    if previous != whole:
        raise UsageError(
            "cannot build the table of the law: its weights end before probability 1: a bug in securefl"
        )
    unit = 1 << 192
    return thresholds, Fraction(-(-excess * unit // (low_total << (bits + 1))), unit)


DELTA_SHARE = 100
"""The summed distance must be below delta / 100."""


def summed_distance(table: NoiseTable, draws: int) -> Fraction:
    """Return an upper bound on the statistical distance of ``draws`` independent draws from the true law.

    ``draws``, at least 0, are all of the guarantee: coordinates x releases x parties whose noise in a sum
    counts.
    """
    if draws < 0:
        raise UsageError(f"draws must be at least 0, found {draws}")
    return draws * table.table_error


def check_distance(table: NoiseTable, draws: int, delta: float, path: str = "privacy.delta") -> Fraction:
    """Return the summed distance of ``draws`` draws, which must be below ``delta`` / 100.

    Raises:
        ConfigError: the distance is too large, or ``delta`` is outside (0, 1); the error names ``path``.
    """
    if not 0 < delta < 1:
        raise ConfigError(path, f"delta must be between 0 and 1, not {delta:g}")
    distance = summed_distance(table, draws)
    if distance * DELTA_SHARE >= Fraction(delta):
        raise ConfigError(
            path,
            f"{draws:.3g} draws of noise of {table.std:g} steps differ from its law by {float(distance):.2g}"
            f" in all, the limit is delta / {DELTA_SHARE} = {delta / DELTA_SHARE:.2g}",
            "use a coarser scale (the error of a draw grows with the steps), fewer rounds, or a larger delta",
        )
    return distance


def added_delta(distance: Fraction, epsilon: float) -> float:
    """Return what statistical ``distance`` from the proof's law adds to delta: (1 + e^epsilon) ``distance``.

    Each of the two neighbouring inputs loses ``distance``, one of them multiplied by e^epsilon. For delta /
    100 that is 8 % of delta at epsilon = 2, 30 times delta at epsilon = 8. Infinite on overflow; a negative
    ``epsilon`` is a UsageError.
    """
    if not epsilon >= 0:
        raise UsageError(f"epsilon must be at least 0, found {epsilon}")
    if distance == 0:
        return 0.0
    return float(distance) * (1 + math.exp(epsilon)) if epsilon < 700 else math.inf
