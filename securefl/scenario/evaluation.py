"""Metrics of the received model at the sites, and statistics of their data."""

from typing import Annotated, Literal

from msgspec import Meta

from securefl.scenario import section

MetricName = Annotated[str, Meta(pattern=r"^[A-Za-z0-9_][A-Za-z0-9 _()/%+-]{0,63}$")]
MOMENTS = 2
"""Numbers of a column before its bins: sums of values and squares, as shares of the range."""


class Metric(section.Section, frozen=True, kw_only=True):
    """Number or table of counts that each site computes for the received model.

    >>> from securefl.sections import Metric
    >>> Metric(name="scores", kind="histogram", bins=50).words
    100
    """

    name: MetricName
    """Letters, digits, spaces and ``_()/%+-``, at most 64."""
    kind: Literal["sum", "mean", "histogram", "confusion", "column", "classes"]
    """``mean``: of a number per sample. ``sum``: of one number per site. ``histogram``: samples by score,
    for each class. ``confusion``: samples by true and predicted class. ``column``: a number per sample
    that may be missing, its moments and bins. ``classes``: samples by class."""
    lower: float = 0.0
    """Lower end of the range of the number, or of the scores; values outside are clipped."""
    upper: float = 1.0
    """Upper end of that range."""
    bins: Annotated[int, Meta(ge=2, le=256)] = 20
    """``histogram`` and ``column`` only: bins of equal width from ``lower`` to ``upper``."""
    classes: Annotated[int, Meta(ge=1, le=64)] = 2
    """``histogram``: 2 to distinguish classes (AUC), 1 for one distribution (median). ``confusion`` and
    ``classes``: number of classes, at least 2."""
    better: Literal["higher", "lower"] = "higher"
    """``mean`` and ``sum`` only: direction that early stopping prefers."""
    root: bool = False
    """``mean`` of numbers from 0 only: True if reports, comparisons and expectations use the square root
    of the mean, as RMSE of squared errors. ``lower`` and ``upper`` apply before the root."""

    @property
    def words(self) -> int:
        """Number of words of a sum that the metric takes."""
        match self.kind:
            case "histogram":
                return self.classes * self.bins
            case "confusion":
                return self.classes**2
            case "column":
                return MOMENTS + self.bins
            case "classes":
                return self.classes
            case _:
                return 1

    @property
    def blocks(self) -> int:
        """Number of parts of its words, each with an L2 norm of at most the number of samples."""
        return MOMENTS + 1 if self.kind == "column" else 1


class SiteEvaluation(section.Section, frozen=True, kw_only=True):
    """Metrics of the received model, in the same masked sums as the updates (docs/metrics.md).

    Standard deviation of a number by noise, with s that of one word of a sum. Mean, accuracy, recall, F1 and
    AUC: s times the length of the gradient by the words; their range if the denominator is below 4 of its own
    deviations. Root of a mean: that of the mean over twice the root, at most its root. Median and quartile:
    the largest of the shifts if the cumulated counts move by 1, 2 or 3 deviations, over 1, 2 or 3. Sum: s
    times the unit. Lowest and highest bin of a column: the range beyond it. Median over clusters: its shift
    if all clusters' numbers move by their deviations.

    >>> from securefl.sections import Metric, SiteEvaluation
    >>> SiteEvaluation(metrics=(Metric(name="loss", kind="mean", upper=10),)).words
    2
    """

    metrics: tuple[Metric, ...] = ()
    """Declared metrics."""
    samples: section.Positive = 10_000
    """Largest number of samples of one site that count in full; each sample of a larger site counts for
    less."""
    noise: section.PositiveReal = 3.0
    """With privacy: noise multiplier of all metrics together, in multiples of ``privacy.multiplier``."""
    report: Literal["auto", "pooled", "median"] = "auto"
    """Value for stopping and expectations: over all samples, or the median over clusters, which a minority
    of Byzantine sites moves little. ``auto``: pooled if the rule is the mean."""
    repeats: Literal["refuse", "accept"] = "refuse"
    """Without noise: ``refuse`` opens metrics over atoms only (``clustering.atoms``), which each party's
    account keeps over all its runs. ``accept`` opens them over any clusters; several rounds or runs may
    then reveal counts of single sites. Also for statistics."""

    @property
    def words(self) -> int:
        """Words that metrics add to a sum: the number of samples, and the metrics."""
        return 1 + sum(metric.words for metric in self.metrics) if self.metrics else 0


class Feature(section.Section, frozen=True, kw_only=True):
    """Column of numbers, one per sample; a number may be missing.

    >>> from securefl.sections import Feature
    >>> Feature(name="age", lower=0, upper=120).upper
    120.0
    """

    name: MetricName
    """Name of the column."""
    lower: float
    """Lower end of the range, known without looking at the data; values outside are clipped."""
    upper: float
    """Upper end of that range."""


class Labels(section.Section, frozen=True, kw_only=True):
    """Column of classes, numbered from 0.

    >>> from securefl.sections import Labels
    >>> Labels(name="malignant", classes=2).classes
    2
    """

    name: MetricName
    """Name of the column."""
    classes: Annotated[int, Meta(ge=2, le=64)]
    """Number of classes."""


class SiteStatistics(section.Section, frozen=True, kw_only=True):
    """Statistics that ``securefl statistics`` pools in a round of its own (docs/statistics.md).

    >>> from securefl.sections import Feature, SiteStatistics
    >>> SiteStatistics(features=(Feature(name="age", lower=0, upper=120),)).bins
    20
    """

    features: tuple[Feature, ...] = ()
    """Columns of numbers."""
    bins: Annotated[int, Meta(ge=2, le=256)] = 20
    """Bins of equal width in each feature's histogram."""
    labels: Labels | None = None
    """Column of classes."""
    samples: section.Positive | None = None
    """Largest number of samples of one site that count; needed with noise. None: 1,048,576."""
    epsilon: section.PositiveReal | None = None
    """With ``privacy.unit = "party"``: epsilon of the statistics, in addition to the training's."""
    multiplier: section.PositiveReal | None = None
    """Noise multiplier, in place of ``epsilon``."""
    report: Literal["auto", "pooled", "median"] = "auto"
    """Like ``evaluation.report``; with ``median`` counts are those of a cluster."""
