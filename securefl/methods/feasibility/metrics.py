"""Limits of metrics that are pooled over sites: countable values, and no repetition that reveals them."""

from collections import Counter
from collections.abc import Iterator

from securefl.base.errors import ConfigError
from securefl.methods import clustering, metrics
from securefl.scenario import FalseMetrics, Metric, Scenario

LARGEST = 1e300
"""Largest magnitude of the ends of ranges: the width of a range and sums of shares are then finite."""
FINEST = 2.0**-32
"""Smallest width of a range, relative to its ends."""


def check_metrics(scenario: Scenario, ring_bits: int) -> None:
    """Raise a ConfigError for metrics that are meaningless, or reveal more than they should."""
    for field, reason, remedy in (*_unnamed_metrics(scenario), *_of_each(scenario), *_together(scenario)):
        raise ConfigError(field, reason, remedy)
    if scenario.privacy.unit == "none" or scenario.privacy.multiplier is not None:
        metrics.metric_words(scenario, ring_bits)


def _unnamed_metrics(scenario: Scenario) -> Iterator[tuple[str, str, str]]:
    """Yield names that are not numbers of the scenario."""
    stop, known = scenario.stop, metrics.names_of(scenario.evaluation)
    there = ", ".join(known) or "none are declared"
    if stop.metric is not None and stop.metric not in known:
        yield "stop.metric", f"{stop.metric} is not a metric of [evaluation]", f"one of: {there}"
    if stop.target is not None and stop.metric is None and not 0 < stop.target <= 1:
        yield (
            "stop.target",
            f"{stop.target:g} is not an accuracy",
            "set it above 0 and at most 1, or set stop.metric",
        )
    yield from _gain(scenario)
    for index, claim in enumerate(scenario.expect):
        field = f"expect.{index}.of"
        if claim.metric != "evaluation" and claim.of is not None:
            yield field, f"is for metric = evaluation, not {claim.metric}", "leave it out"
        elif claim.metric == "evaluation" and claim.of not in known:
            yield field, f"{claim.of} is not a metric of [evaluation]", f"one of: {there}"


def _gain(scenario: Scenario) -> Iterator[tuple[str, str, str]]:
    stop, gain = scenario.stop, scenario.stop.min_gain
    if gain is None:
        return
    if stop.metric is None and stop.patience is None:
        yield "stop.min_gain", "has no effect", "set stop.metric or stop.patience"
    if not gain and stop.metric is not None and scenario.privacy.unit != "none":
        reason = f"no {stop.metric} has noise of 0, so none would be used"
        yield "stop.min_gain", reason, "leave it out, or set the smallest gain that matters"


def _of_each(scenario: Scenario) -> Iterator[tuple[str, str, str]]:
    """Yield the conflicts of single metrics."""
    columns = {"column", "classes"}
    if scenario.model.by_columns and not scenario.evaluation.metrics:
        yield "evaluation.metrics", 'model.type = "statistics" needs columns', "declare them"
    for index, metric in enumerate(scenario.evaluation.metrics):
        if scenario.model.by_columns and metric.kind not in columns:
            reason = f'{metric.name} needs a model, and model.type = "statistics" has none'
            yield f"evaluation.metrics.{index}.kind", reason, "column, or classes"
        at = f"evaluation.metrics.{index}"
        if (wrong := _range(metric)) is not None:
            yield f"{_place(scenario, index)}.upper", *wrong
        if (wrong := _classes(metric)) is not None:
            yield f"{at}.classes", *wrong
        if (wrong := _root(metric)) is not None:
            yield f"{at}.root", *wrong
    names = Counter(metric.name for metric in scenario.evaluation.metrics)
    for name, times in names.items():
        if times > 1:
            yield "evaluation.metrics", f"{times} are named {name}", "give each its own name"


def _place(scenario: Scenario, index: int) -> str:
    """Return the path of a metric; in a statistics round, of the feature that it represents."""
    kind = scenario.evaluation.metrics[index].kind
    return (
        f"statistics.features.{index}"
        if scenario.model.by_columns and kind == "column"
        else (f"evaluation.metrics.{index}")
    )


def _range(metric: Metric) -> tuple[str, str] | None:
    """Return the reason and the remedy if values in the range cannot be counted as shares of it."""
    low, high = metric.lower, metric.upper
    if not low < high:
        return f"{high:g} is not above lower = {low:g}", "set a range"
    if max(abs(low), abs(high)) > LARGEST:
        return (
            f"{low:g} to {high:g} of {metric.name} is beyond {LARGEST:g}",
            "use a larger unit for the values",
        )
    if high - low < 1 / LARGEST:
        return f"{low:g} to {high:g} of {metric.name} is under {1 / LARGEST:g} wide", "use a smaller unit"
    # Bins and moments are of shares of the range, which doubles must be able to distinguish.
    if high - low < FINEST * max(abs(low), abs(high)):
        reason = f"{low!r} to {high!r} of {metric.name} has fewer than 2^20 numbers of double precision"
        return reason, "subtract an offset from the values"
    return None


def _classes(metric: Metric) -> tuple[str, str] | None:
    if metric.kind == "histogram" and metric.classes > 2:
        return "AUC needs 2 classes, and a median 1", '1 or 2; or kind = "confusion"'
    if metric.kind in {"confusion", "classes"} and metric.classes < 2:
        return f"{metric.kind} needs 2 classes or more", "set 2 or more"
    return None


def _root(metric: Metric) -> tuple[str, str] | None:
    if metric.root and metric.kind != "mean":
        return (
            f"{metric.name} is a {metric.kind}, and roots work with means only",
            'kind = "mean", or no root',
        )
    if metric.root and metric.lower < 0:
        return f"{metric.name} may be {metric.lower:g}, which has no root", "lower = 0, or no root"
    return None


def _together(scenario: Scenario) -> Iterator[tuple[str, str, str]]:
    """Yield the conflicts of metrics with other fields."""
    if not scenario.evaluation.metrics:
        for index, behaviour in enumerate(scenario.behaviours):
            if isinstance(behaviour, FalseMetrics):
                yield (
                    f"behaviours.{index}.kind",
                    "needs metrics, and none are declared",
                    "declare [evaluation]",
                )
        return
    if not scenario.model.by_sites:
        reason = f"parties with a {scenario.model.name} are not tested at the sites"
        yield "evaluation.metrics", reason, 'use model.type = "weights" and a site (docs/sites.md)'
    if scenario.secure_sum.validated is not None:
        yield "secure_sum.validate", "cannot be combined with metrics", "leave one of them out"
    sums, noisy = scenario.secure_sum, scenario.privacy.unit != "none"
    if not noisy and scenario.clustering.atoms > 1 and scenario.parties > clustering.MOST_LABELLED:
        reason = f"metrics without noise work with {clustering.MOST_LABELLED:,} parties at most"
        yield "parties", reason, f"at most {clustering.MOST_LABELLED:,}, noise, or no metrics"
    if not noisy and scenario.clustering.atoms == 1 and scenario.evaluation.repeats == "refuse":
        least = sums.colluders_per_cluster + sums.k_anonymity
        yield (
            "evaluation.repeats",
            "metrics of the same samples in other clusters each round can reveal those of a single site",
            f'set clustering.atoms = {least}, add noise (privacy.unit = "party"), or set "accept"',
        )
