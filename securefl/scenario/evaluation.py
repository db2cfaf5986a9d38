"""Evaluation where the data are: metrics of the received model, and statistics of the data themselves."""

from typing import Annotated, Literal

from msgspec import Meta

from securefl.scenario import section

MetricName = Annotated[str, Meta(pattern=r"^[A-Za-z0-9_][A-Za-z0-9 _()/%+-]{0,63}$")]
MOMENTS = 2
"""Words of a column before its bins: the sums of its values and of their squares, as shares of its range."""


class Metric(section.Section, frozen=True, kw_only=True):
    """One number, or table of counts, that each site has of the model it received."""

    name: MetricName
    kind: Literal["sum", "mean", "histogram", "confusion", "column", "classes"]
    """``mean``: of a number per sample. ``sum``: of one number per site. ``histogram``: samples by score, of
    each class where there are several. ``confusion``: samples by true and predicted class. ``column``: a
    number per sample that may be missing, its moments and bins. ``classes``: samples by class."""
    lower: float = 0.0
    upper: float = 1.0
    """Range of the number, or of the scores; what lies outside counts as its end."""
    bins: Annotated[int, Meta(ge=2, le=256)] = 20
    """``histogram`` and ``column`` only: of equal width from ``lower`` to ``upper``."""
    classes: Annotated[int, Meta(ge=1, le=64)] = 2
    """``histogram``: 2 to tell classes apart (AUC), 1 for one distribution. ``confusion`` and ``classes``:
    how many."""
    better: Literal["higher", "lower"] = "higher"
    """``mean`` and ``sum`` only: what early stopping looks for."""
    root: bool = False
    """``mean`` of numbers from 0 only: whether its square root is shown, stopped by and expected, as the root
    of mean squared errors. ``lower`` and ``upper`` are of what sites return, before the root."""

    @property
    def words(self) -> int:
        """Words of a sum that it takes."""
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
        """Parts of its words whose L2 norm is at most the number of samples, each."""
        return MOMENTS + 1 if self.kind == "column" else 1


class SiteEvaluation(section.Section, frozen=True, kw_only=True):
    """Metrics of the received model, in the same masked sums as the updates (docs/metrics.md)."""

    metrics: tuple[Metric, ...] = ()
    samples: section.Positive = 10_000
    """The most samples of one site that count; those of a larger site count for less each."""
    noise: section.PositiveReal = 3.0
    """Noise multiplier of all metrics together, in multiples of ``privacy.multiplier``."""
    report: Literal["auto", "pooled", "median"] = "auto"
    """What stopping and expectations go by: all samples pooled, or the median over clusters, which a minority
    of liars moves little. ``auto``: pooled where the rule is the mean."""
    repeats: Literal["refuse", "accept"] = "refuse"
    """Without noise: ``refuse`` opens metrics over atoms only (``clustering.atoms``), which each party's
    account keeps over all its runs. ``accept`` opens them over any clusters; counts of single sites may
    follow from several rounds or runs. For statistics as well."""

    @property
    def words(self) -> int:
        """Words that a sum is longer by: the number of samples, and the metrics."""
        return 1 + sum(metric.words for metric in self.metrics) if self.metrics else 0


class Feature(section.Section, frozen=True, kw_only=True):
    """One column of the data: a number per sample, which may be missing."""

    name: MetricName
    lower: float
    """Of the range that is known without a look at the data; what lies outside counts as its end."""
    upper: float


class Labels(section.Section, frozen=True, kw_only=True):
    """The column of classes."""

    name: MetricName
    classes: Annotated[int, Meta(ge=2, le=64)]


class SiteStatistics(section.Section, frozen=True, kw_only=True):
    """What ``securefl statistics`` pools over the sites (docs/statistics.md)."""

    features: tuple[Feature, ...] = ()
    bins: Annotated[int, Meta(ge=2, le=256)] = 20
    """Of each feature's histogram, of equal width."""
    labels: Labels | None = None
    samples: section.Positive | None = None
    """The most samples of one site that count; needed with noise, whose scale it is."""
    epsilon: section.PositiveReal | None = None
    """With ``privacy.unit = "party"``: of the statistics alone, on top of the training's."""
    multiplier: section.PositiveReal | None = None
    """In place of ``epsilon``."""
    report: Literal["auto", "pooled", "median"] = "auto"
    """As in ``[evaluation]``."""
