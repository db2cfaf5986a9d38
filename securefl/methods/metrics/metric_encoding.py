"""Metric words: a site's metrics of the received model, as integers appended to its update.

Words are counts of samples, or sums over samples, so their sum over sites equals the words of one site with
all samples. The first word is the number of samples; each metric follows in the order of the scenario.

==========  ===========================================================================  ==================
kind        words                                                                        at most, each
==========  ===========================================================================  ==================
mean        its mean times the samples, over the larger of abs(lower) and abs(upper)     the samples
sum         it times the cap, over the same                                              the cap
histogram   samples by class and bin                                                     the samples in all
confusion   samples by true and predicted class                                          the samples in all
classes     samples by class                                                             the samples in all
column      the sums of u and of u^2, u = (value - lower) / (upper - lower)              the samples
            samples by bin, those without a value in none                                the samples in all
==========  ===========================================================================  ==================

A site with more samples than the cap scales all words down to it. So each block (a metric's words; three of a
column) has an L2 norm of at most the cap, and all words of at most sqrt(1 + blocks) times the cap.
"""

import functools
import math
import numbers
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from securefl.base.arrays import F64, I64, expect
from securefl.base.entropy import Entropy
from securefl.base.errors import ConfigError, SecureflError
from securefl.base.sums import exact_sum
from securefl.methods import clustering
from securefl.methods.privacy import MAX_STD, NoiseTable, Placement, noise_table, plan_shares
from securefl.scenario import MOMENTS, Metric, Scenario, SiteEvaluation

FINEST = 30
COARSEST = -30


class MetricError(SecureflError):
    """Metrics of a site that cannot be counted. One line; it stays at the site."""


def parts_of(evaluation: SiteEvaluation) -> list[tuple[Metric, slice]]:
    """Return each metric and the slice of its words."""
    found, at = list[tuple[Metric, slice]](), 1
    for metric in evaluation.metrics:
        found.append((metric, slice(at, at + metric.words)))
        at += metric.words
    return found


def said_by(evaluation: SiteEvaluation, samples: object, values: Mapping[str, Any]) -> F64:
    """Return a site's metrics of a model, tested on ``samples`` samples, in samples: f64 ``(w,)``.

    ``values`` are by name; only declared ones are used.

    Raises:
        MetricError: one is missing, not finite, of another shape, or counts more than ``samples``.
    """
    whole_number = isinstance(samples, numbers.Real) and not isinstance(samples, bool)
    if not whole_number or not float(samples).is_integer() or samples < 1:  # type: ignore[arg-type, operator]
        raise MetricError(f"evaluate tested on {samples!r} samples, expected a whole number from 1")
    whole, cap = float(samples), float(evaluation.samples)  # type: ignore[arg-type]
    words = np.zeros(evaluation.words)
    words[0] = whole
    for metric, at in parts_of(evaluation):
        words[at] = _metric_words(metric, whole, values)
    words *= min(1.0, cap / whole)
    for metric, at in parts_of(evaluation):
        if metric.kind == "sum":
            # One number of a site counts fully, for any number of samples.
            words[at] = _metric_words(metric, whole, values) * cap
    return words


def beyond_range(evaluation: SiteEvaluation, values: Mapping[str, float]) -> Iterator[str]:
    """Yield a line for each number of a site that is clipped to its range; tables are ignored."""
    for one in evaluation.metrics:
        value = values.get(one.name)
        if value is not None and one.kind in {"mean", "sum"} and not one.lower <= value <= one.upper:
            most = one.upper if value > one.upper else one.lower
            declared = f"{one.lower:g} to {one.upper:g}"
            yield (
                f"{one.name} {value:.4g} is outside {declared} and counts as {most:g}: declare a wider range"
            )


@dataclass(frozen=True, slots=True, eq=False)
class MetricWords:
    """Conversion of a run's metrics to words, and of words to numbers; made by :func:`metric_words`."""

    evaluation: SiteEvaluation
    scale: int
    """A word of w means w 2^-scale samples."""
    table: NoiseTable | None
    """Table of one party's noise on each word; None without privacy."""
    slack: float
    """Standard deviation of one party's noise on a word, samples."""
    parties: int
    """Parties of the run, which all contribute rounding and noise to a pooled word."""

    @property
    def length(self) -> int:
        """w, the number of words."""
        return self.evaluation.words

    def encode_values(self, values: F64) -> I64:
        """Return a site's metrics as integers, i64 ``(w,)``; any input is clipped to the norm bound.

        ``values`` is f64 ``(w,)`` as from :func:`said_by`; zeros for a site without metrics.
        """
        expect(values, "metrics", np.float64, (self.length,))
        cap = float(self.evaluation.samples)
        bounded = np.nan_to_num(values, nan=0.0, posinf=cap, neginf=-cap)
        samples = bounded[0] = min(max(bounded[0], 0.0), cap)
        for metric, at in parts_of(self.evaluation):
            block = bounded[at]
            if metric.words > 1:
                np.clip(block, 0.0, samples, out=block)
                counts = block[first_count(metric) :]
                total = float(counts.sum())
                counts *= samples / total if total > samples else 1.0
            else:
                np.clip(block, *_ends(metric, cap if metric.kind == "sum" else samples), out=block)
        # Towards zero, so that no word grows.
        return np.trunc(np.ldexp(bounded, self.scale)).astype(np.int64)

    def noise(self, entropy: Entropy) -> I64:
        """Return one party's noise, i64 ``(w,)``; zeros without privacy."""
        return (
            np.zeros(self.length, dtype=np.int64)
            if self.table is None
            else self.table.sample(self.length, entropy)
        )

    def read(self, total: I64) -> F64:
        """Return a sum of words as samples, f64 ``(w,)``."""
        expect(total, "metrics", np.int64, (self.length,))
        read: F64 = np.ldexp(total.astype(np.float64), -self.scale)
        return read

    @property
    def resolution(self) -> float:
        """Largest error of a count, in samples: with noise, six standard deviations of a pooled word."""
        return self.rounding(self.parties) + 6 * self.deviation(self.parties)

    def rounding(self, members: int) -> float:
        """Return the rounding error of a word of a sum of ``members``, in samples: each rounds towards 0."""
        return math.ldexp(members, -self.scale)

    def deviation(self, members: int) -> float:
        """Return the standard deviation of the noise on a word of a sum of ``members``, in samples."""
        return self.slack * math.sqrt(members)

    def doubt(self, read: F64, members: int) -> str:
        """Return the reason why a sum is impossible for honest members, or "".

        With noise, words may exceed the noiseless bounds by six standard deviations.
        """
        cap, slack = float(self.evaluation.samples), 6 * self.slack * math.sqrt(members)
        samples = read[0]
        if not -slack <= samples <= members * cap + slack:
            return f"{samples:g} samples, and {members} members have at most {members * cap:g}"
        for metric, at in parts_of(self.evaluation):
            block = read[at]
            of = members * cap if metric.kind == "sum" else samples
            least, most = (0.0, of) if metric.words > 1 else _ends(metric, of)
            rounding = members * math.ldexp(1.0, -self.scale)
            # If the range does not start at 0, the number of samples adds its share of the noise too.
            noise = 2 * slack if metric.kind == "mean" else slack
            if block.min() < least - noise - (rounding if metric.words == 1 else 0.0):
                return f"{metric.name} is lower than possible"
            moments, counts = block[: first_count(metric)], block[first_count(metric) :]
            reached = max(float(counts.sum()), *moments.tolist(), -math.inf)
            if reached > most + slack * math.sqrt(metric.words) + slack + rounding:
                return f"{metric.name} counts more than all samples"
        return ""


@functools.lru_cache(maxsize=16)
def metric_words(scenario: Scenario, ring_bits: int) -> MetricWords | None:
    """Return the words of a scenario's metrics; None if it declares none.

    A scenario with privacy is settled. ``ring_bits`` is the size of the sums' ring.

    Raises:
        ConfigError: no unit is fine enough for a noise law and coarse enough that no sum wraps.
    """
    evaluation, privacy = scenario.evaluation, scenario.privacy
    if not evaluation.metrics:
        return None
    members = clustering.largest_cluster(scenario)
    norm = evaluation.samples * math.sqrt(1 + exact_sum(metric.blocks for metric in evaluation.metrics))
    target = 0.0 if privacy.unit == "none" else (privacy.multiplier or 1.0) * evaluation.noise * norm
    for scale in range(FINEST, COARSEST, -1):
        table = None
        if target:
            sums = scenario.secure_sum
            placement: Placement = "local" if privacy.placement == "local" else "threshold"
            steps = math.ldexp(target, scale)
            shares = plan_shares(placement, steps, sums.min_survivors, sums.colluders_per_cluster)
            if shares.share_std > MAX_STD:
                continue
            table = noise_table(privacy.law, shares.share_std, "evaluation.noise")
        reached = math.ldexp(evaluation.samples, scale) + (table.largest if table else 0)
        if members * reached < 2 ** (ring_bits - 1) and reached < 2**53:
            std = 0.0 if table is None else math.ldexp(table.std, -scale)
            return MetricWords(evaluation, scale, table, std, scenario.parties)
    reason = f"{members} members of {evaluation.samples} samples do not fit into {ring_bits} bits"
    raise ConfigError("evaluation.samples", reason, "set fewer, or encoding.ring_bits = 64")


def _metric_words(metric: Metric, samples: float, values: Mapping[str, Any]) -> F64:
    """Return one metric's words of a site, f64 ``(words,)``."""
    if metric.name not in values:
        given_names = ", ".join(sorted(map(str, values))[:8]) or "no metrics"
        raise MetricError(
            f"evaluate gave no metric {metric.name}, which the scenario declares; it gave {given_names}"
        )
    try:
        # Tensors may require a gradient.
        given = np.asarray(getattr(values[metric.name], "detach", lambda: values[metric.name])())
    except (TypeError, ValueError, RuntimeError) as error:
        raise _not_numbers(metric, values) from error
    if given.dtype.kind not in "fiu":
        # A boolean or a text of digits would count as a number.
        raise _not_numbers(metric, values)
    found = given.astype(np.float64)
    if not np.isfinite(found).all():
        raise MetricError(
            f"evaluate returned a {metric.name} that is NaN or infinite: return a finite number"
        )
    shape = _shape(metric)
    if found.shape != shape and not (metric.words == 1 and found.size == 1):
        raise MetricError(f"evaluate gave {metric.name} of shape {found.shape}, expected {shape}")
    found = found.reshape(-1)
    if metric.kind in {"mean", "sum"}:
        clipped = np.clip(found, metric.lower, metric.upper) / unit_of(metric)
        return clipped * samples if metric.kind == "mean" else clipped
    counted = found[first_count(metric) :].sum()
    if found.min() < 0 or max(counted, found.max()) > samples:
        raise MetricError(f"evaluate counted {counted:g} in {metric.name}, and tested on {samples:g} samples")
    return found


def _not_numbers(metric: Metric, values: Mapping[str, Any]) -> MetricError:
    return MetricError(f"evaluate gave {metric.name} = {values[metric.name]!r}, expected numbers")


def _shape(metric: Metric) -> tuple[int, ...]:
    match metric.kind:
        case "histogram":
            return (metric.classes, metric.bins) if metric.classes > 1 else (metric.bins,)
        case "confusion":
            return (metric.classes, metric.classes)
        case "column" | "classes":
            return (metric.words,)
        case _:
            return ()


def first_count(metric: Metric) -> int:
    """Return the index, among a metric's words, of the first one that counts samples."""
    return MOMENTS if metric.kind == "column" else 0


def _ends(metric: Metric, most: float) -> tuple[float, float]:
    """Return the smallest and largest word of a mean or a sum of ``most`` samples; a failing site sends 0."""
    low, high = metric.lower / unit_of(metric) * most, metric.upper / unit_of(metric) * most
    return (min(low, 0.0), max(high, 0.0)) if metric.kind == "sum" else (low, high)


def unit_of(metric: Metric) -> float:
    """Return the largest magnitude of a mean or a sum."""
    return max(abs(metric.lower), abs(metric.upper))
