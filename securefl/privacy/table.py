"""Sampling of integer noise: one secret word, one look-up in a table of integer thresholds (step 5).

Floating-point noise leaks through the gaps of its grid (Mironov 2012, "On significance of the least
significant bits for differential privacy"); this noise is an integer from the start, and its law is known
exactly: every probability is a multiple of 2^-64.

A 64-bit word gives one draw. Its lowest bit is the sign; the other 63, read as an integer u, give the
magnitude #{k : T_k <= u}, where T_k is P(|X| <= k) * 2^63 rounded to the nearest integer. The leading 16 bits
of u name the magnitude, unless thresholds lie among the u that begin with them; there it is found by
bisection.

Hazard: the time does not depend on single draws, but on how many of a block are found by bisection (0.03 to
17 % of the law), and the addresses that are read depend on the draws. This is no constant-time code for a
machine that is shared with the adversary.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from securefl.arrays import I64, U64, expect
from securefl.crypto import prg
from securefl.entropy import Entropy
from securefl.errors import ConfigError, UsageError
from securefl.privacy.laws import NoiseLaw, Weights, weights

MIN_STD = 4.0
"""Smallest standard deviation in steps: from here on the bounds for sums of discrete noise are negligible."""

MAX_STD = 4096.0
"""Largest standard deviation in steps: the table has 38,000 thresholds (300 kB)."""

BLOCK = 1 << 14
"""Draws looked up at a time: the temporaries stay in the second-level cache."""

_WORD_BITS = 63
_SLOT_BITS = 16
_UNSETTLED = 2**16 - 1
"""Instead of a magnitude, of which none is so large."""


@dataclass(frozen=True, slots=True, eq=False)
class NoiseTable:
    """The law of one draw, as made by :func:`noise_table`."""

    law: NoiseLaw
    std: float
    """Standard deviation s of the true law, steps. The variance of a draw is s^2 up to a relative 10^-13."""
    thresholds: I64
    """T_0 <= T_1 <= ... < 2^63, read-only: P(|draw| <= k) = T_k / 2^63, and 1 from ``largest`` on."""
    table_error: Fraction
    """At least the statistical (total variation) distance between one draw and the true law."""
    _settled: npt.NDArray[np.uint16]
    """For each value of the leading bits of u: the magnitude, or that it depends on the others."""

    @property
    def largest(self) -> int:
        """The largest magnitude of a draw, steps: for the proof that sums do not wrap in the ring."""
        return int(self.thresholds.size)

    def sample(self, size: int, entropy: Entropy) -> I64:
        """Independent draws, i64 ``(size,)``, steps.

        Args:
            size: how many, >= 0.
            entropy: 32 bytes are drawn as the key of an AES-256-CTR stream of ``size`` words.

        Raises:
            UsageError: a negative size.
        """
        return self.from_words(prg.expand(entropy.draw(prg.KEY_BYTES), size, np.uint64))

    def from_words(self, words: U64) -> I64:
        """The draws that uniform ``words``, u64 ``(n,)``, stand for: i64 ``(n,)``.

        Raises:
            UsageError: the wrong dtype or shape.
        """
        expect(words, "words", np.uint64, (None,))
        draws = np.empty(words.size, dtype=np.int64)
        for start in range(0, words.size, BLOCK):
            block = slice(start, start + BLOCK)
            self._look_up(words[block], draws[block])
        return draws

    def _look_up(self, words: U64, out: I64) -> None:
        # Every index is in range; this mode is the one that numpy does not copy for.
        magnitudes = self._settled.take((words >> np.uint64(64 - _SLOT_BITS)).view(np.int64), mode="wrap")
        out[:] = magnitudes
        unsettled = np.flatnonzero(magnitudes == _UNSETTLED)
        uniform = (words[unsettled] >> np.uint64(1)).view(np.int64)
        out[unsettled] = np.searchsorted(self.thresholds, uniform, side="right")
        sign = -(words & np.uint64(1)).view(np.int64)
        out ^= sign
        out -= sign


def noise_table(law: NoiseLaw, std: float, path: str = "privacy.noise") -> NoiseTable:
    """The table of a law; the last few are kept.

    Args:
        law: ``skellam`` (closed under addition) or ``discrete-gaussian``.
        std: standard deviation s in steps, 4 <= s <= 4096.
        path: the scenario's field to blame.

    Raises:
        ConfigError: ``std`` out of range.
    """
    if not MIN_STD <= std <= MAX_STD:
        finer = "a finer scale or more noise" if std < MIN_STD else "a coarser scale or less noise"
        raise ConfigError(
            path,
            f"noise with a standard deviation of {std:g} steps per party lies outside the"
            f" table's range of {MIN_STD:g} to {MAX_STD:g} steps",
            "a standard deviation that is a number" if math.isnan(std) else finer,
        )
    return _build(law, float(std))


@functools.lru_cache(maxsize=8)
def _build(law: NoiseLaw, std: float) -> NoiseTable:
    steps, error = _rounded(weights(law, std))
    thresholds = np.array(steps, dtype=np.int64)
    thresholds.flags.writeable = False
    starts = np.arange(1 << _SLOT_BITS, dtype=np.int64) << (_WORD_BITS - _SLOT_BITS)
    ends = starts + ((1 << (_WORD_BITS - _SLOT_BITS)) - 1)
    first, last = (np.searchsorted(thresholds, at, side="right") for at in (starts, ends))
    settled = np.where(first == last, first, _UNSETTLED).astype(np.uint16)
    return NoiseTable(law, std, thresholds, error, settled)


def _rounded(true: Weights) -> tuple[list[int], Fraction]:
    """The thresholds below 2^63, and an upper bound of the distance, a multiple of 2^-128."""
    low_total = 2 * sum(true.low) - true.low[0]
    high_total = 2 * (sum(true.high) + true.beyond) - true.high[0]
    whole = 1 << _WORD_BITS
    thresholds: list[int] = []
    cumulative, previous, excess = 0, 0, true.beyond << (_WORD_BITS + 1)
    for k, (low, high) in enumerate(zip(true.low, true.high, strict=True)):
        sides = 2 if k else 1
        cumulative += sides * low
        threshold = min(whole, ((cumulative << (_WORD_BITS + 1)) // low_total + 1) >> 1)
        mass, previous = threshold - previous, threshold
        # |mass / 2^63 - sides * w_k / total|, times 2^63 * total, whichever end of the brackets is the truth.
        excess += max(
            mass * high_total - (sides * low << _WORD_BITS), (sides * high << _WORD_BITS) - mass * low_total
        )
        if threshold < whole:
            thresholds.append(threshold)
    if previous != whole:
        raise UsageError("the weights end before the law does")
    unit = 1 << 128
    return thresholds, Fraction(-(-excess * unit // (low_total << (_WORD_BITS + 1))), unit)
