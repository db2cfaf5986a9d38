"""Evaluation where the data are: metrics of the received model, declared by name and pooled in the sums."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from securefl.scenario.section import Name, Positive, PositiveReal, Section


class Metric(Section, frozen=True, kw_only=True):
    """One number, or table of counts, that each site has of the model it received."""

    name: Name
    kind: Literal["sum", "mean", "histogram", "confusion"]
    """``mean``: of a number per sample. ``sum``: of one number per site. ``histogram``: samples by score, of
    each class where there are several. ``confusion``: samples by true and predicted class."""
    lower: float = 0.0
    upper: float = 1.0
    """Range of the number, or of the scores; what lies outside counts as its end."""
    bins: Annotated[int, Meta(ge=2, le=256)] = 20
    """``histogram`` only: of equal width from ``lower`` to ``upper``."""
    classes: Annotated[int, Meta(ge=1, le=64)] = 2
    """``histogram``: 2 to tell classes apart (AUC), 1 for one distribution. ``confusion``: how many."""
    better: Literal["higher", "lower"] = "higher"
    """``mean`` and ``sum`` only: what early stopping looks for."""

    @property
    def words(self) -> int:
        """Words of a sum that it takes."""
        match self.kind:
            case "histogram":
                return self.classes * self.bins
            case "confusion":
                return self.classes**2
            case _:
                return 1


class SiteEvaluation(Section, frozen=True, kw_only=True):
    """Metrics of the received model, in the same masked sums as the updates (docs/metrics.md)."""

    metrics: tuple[Metric, ...] = ()
    samples: Positive = 10_000
    """The most samples of one site that count; those of a larger site count for less each."""
    noise: PositiveReal = 3.0
    """Noise multiplier of all metrics together, in multiples of ``privacy.multiplier``."""
    report: Literal["auto", "pooled", "median"] = "auto"
    """What stopping and expectations go by: all samples pooled, or the median over clusters, which a minority
    of liars moves little. ``auto``: pooled where the rule is the mean."""
    repeats: Literal["refuse", "accept"] = "refuse"
    """Without noise or atoms: whether sums of the same samples may be told again and again in other clusters,
    so that counts of single sites can be worked out in the end."""

    @property
    def words(self) -> int:
        """Words that a sum is longer by: the number of samples, and the metrics."""
        return 1 + sum(metric.words for metric in self.metrics) if self.metrics else 0
