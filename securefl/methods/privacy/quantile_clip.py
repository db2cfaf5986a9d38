"""Quantile clipping: the clip follows a quantile of update norms, from noisy counts that the server learns.

Each party adds one word to its masked sum: K if its update is no longer than the clip C, else -K; 0 without
an update. With n members the share of short updates is ``1/2 + sum / (2 K n)``, and ``C <- C exp(-rate (share
- quantile))`` within the limits of ``[privacy.clip]``. A party's presence moves a sum of such bits by 1/2 bit
(add-remove), a change by 1 bit (replace-one). So noise of s_b bits is a Gaussian release of multiplier ``2
s_b``; replace-one halves all multipliers.

Source: Andrew et al. 2021, "Differentially private learning with adaptive clipping" (Algorithm 1, Theorem 1),
where all parties share one sum.
"""

import functools
import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from securefl.base.arrays import I64
from securefl.base.entropy import Entropy
from securefl.base.errors import ConfigError
from securefl.methods import clustering
from securefl.methods.privacy.components import Placement, plan_shares
from securefl.methods.privacy.table import MAX_STD, MIN_STD, NoiseTable, noise_table
from securefl.scenario import QuantileClip, Scenario

FINEST = 30
"""Largest log2 K."""
WORDS = 1
"""Number of words that one party adds."""
TIMES = 3.0
"""Default ratio of the noise of bits to the multiplier of updates, which bits then lower by 1.4 %."""
BELIEVED = 6
"""Standard deviations of noise that an honest sum of bits exceeds with probability at most 1e-9 a side."""


@dataclass(frozen=True, slots=True, eq=False)
class ClipWords:
    """Conversion of the bits of a run to words, and of sums of words to clips; made by :func:`clip_words`."""

    config: QuantileClip
    scale: int
    """log2 K: a word of K is half a bit."""
    table: NoiseTable
    """Table of one party's noise on its word."""

    def word(self, norm: float, clip: float) -> int:
        """Return the word of a party.

        ``norm`` is the L2 norm of its update before the clip, in the unit of ``clip``; 0 without an update.
        """
        if norm == 0.0:
            return 0
        return 1 << self.scale if norm <= clip else -1 << self.scale

    def noise(self, entropy: Entropy) -> I64:
        """Return one party's noise on its word, i64 ``(1,)``."""
        return self.table.sample(WORDS, entropy)

    def share(self, total: int, members: int) -> float | None:
        """Return the noisy share of updates no longer than the clip; None for an impossible sum.

        ``total`` is the opened sum of the words of ``members`` parties.
        """
        bound = math.ldexp(members, self.scale) + BELIEVED * self.table.std * math.sqrt(members)
        if abs(total) > bound:
            return None
        return 0.5 + math.ldexp(total, -self.scale - 1) / members

    def pool_shares(self, sums: Sequence[tuple[int, int]], *, median: bool) -> float | None:
        """Return the share over several sums, each a total and its number of members; None if none counts.

        ``median`` takes the median over the sums, which a minority of false ones moves within the others.
        """
        found = [(self.share(*one), one) for one in sums]
        shares = [(share, one) for share, one in found if share is not None]
        if not shares:
            return None
        if median:
            return statistics.median(share for share, _ in shares)
        totals = [one for _, one in shares]
        whole, members = math.fsum(total for total, _ in totals), math.fsum(n for _, n in totals)
        return 0.5 + math.ldexp(whole, -self.scale - 1) / members

    def following(self, clip: float, share: float) -> float:
        """Return the clip of the next round, given the noisy ``share`` of short updates."""
        moved = clip * exactly_exp(-self.config.rate * (share - self.config.quantile))
        return min(max(moved, self.config.minimum), self.config.maximum)


@functools.lru_cache(maxsize=16)
def clip_words(scenario: Scenario, ring_bits: int) -> ClipWords | None:
    """Return the words of a settled scenario's quantile clipping, in a ring of ``ring_bits``; None without.

    Raises:
        ConfigError: no K fits the ring and has noise tables.
    """
    config, sums = scenario.privacy.clip, scenario.secure_sum
    if config is None:
        return None
    members, placement = clustering.largest_cluster(scenario), _placement(scenario)
    for scale in range(FINEST, -1, -1):
        target = math.ldexp(noise_of_bits(scenario), scale + 1)
        shares = plan_shares(placement, target, sums.min_survivors, sums.colluders_per_cluster)
        if not MIN_STD <= shares.share_std <= MAX_STD:
            continue
        table = noise_table(scenario.privacy.law, shares.share_std, "privacy.clip.noise")
        if members * ((1 << scale) + table.largest) < 2 ** (ring_bits - 1):
            return ClipWords(config, scale, table)
    reason = f"noise of {noise_of_bits(scenario):g} times one party's bit does not fit into {ring_bits} bits"
    raise ConfigError("privacy.clip.noise", reason, "set encoding.ring_bits = 64, or less noise")


def words_of(scenario: Scenario) -> int:
    """Return the number of words of bits in a sum of reclustering 0."""
    return WORDS if scenario.privacy.clip is not None else 0


def noise_of_bits(scenario: Scenario) -> float:
    """Return s_b: standard deviation, in bits, of the unknown noise on a sum of bits.

    It is ``privacy.clip.noise``, by default :data:`TIMES` the multiplier of updates.
    """
    privacy = scenario.privacy
    if privacy.clip is not None and privacy.clip.noise is not None:
        return privacy.clip.noise
    return TIMES * (privacy.multiplier or 1.0)


def combined_multiplier(scenario: Scenario) -> float:
    """Return the multiplier of a whole release over that of its updates: 1 for updates alone, else less.

    Updates with noise of z, metrics with r z and bits with 2 s_b, in units of the sensitivity of each, are
    one Gaussian release of multiplier ``1 / sqrt(1 / z^2 + 1 / (r z)^2 + 1 / (2 s_b)^2)``.
    """
    others = _metrics(scenario)
    if scenario.privacy.clip is not None:
        others += ((scenario.privacy.multiplier or 1.0) / (2 * noise_of_bits(scenario))) ** 2
    return 1 / math.sqrt(1 + others)


def of_updates(scenario: Scenario, whole: float) -> float:
    """Return the multiplier of updates with which a whole release has the multiplier ``whole``.

    Raises:
        ConfigError: the noise on bits alone has a smaller multiplier.
    """
    clip, others = scenario.privacy.clip, _metrics(scenario)
    if clip is None or clip.noise is None:
        return whole / combined_multiplier(scenario)
    left = 1 - (whole / (2 * clip.noise)) ** 2
    if left <= 0:
        raise ConfigError(
            "privacy.clip.noise",
            f"{clip.noise:g} bits of noise alone spend more than epsilon, multiplier {whole:.4g}",
            f"set it above {whole / 2:.4g}, as {math.ceil(TIMES * whole)}, or leave it out",
        )
    return whole * math.sqrt((1 + others) / left)


def _metrics(scenario: Scenario) -> float:
    evaluation = scenario.evaluation
    return evaluation.noise**-2 if evaluation.metrics else 0.0


def exactly_exp(exponent: float) -> float:
    """Return ``exp(exponent)``, the same bits on every machine; ``math.exp`` depends on the C library.

    A Taylor sum of ``exponent / 2^k`` in a fixed order, squared k times. Relative error below 1e-12;
    abs(exponent) is cut to 100.
    """
    if not math.isfinite(exponent) or abs(exponent) > 100.0:
        exponent = math.copysign(100.0, exponent)
    halvings = max(0, math.frexp(exponent)[1] + 3)
    small, value = math.ldexp(exponent, -halvings), 1.0
    for term in range(16, 0, -1):
        value = 1.0 + small / term * value
    for _ in range(halvings):
        value *= value
    return value


def _placement(scenario: Scenario) -> Placement:
    # Dropout-exact shares remove noise of updates only.
    return "local" if scenario.privacy.placement == "local" else "threshold"
