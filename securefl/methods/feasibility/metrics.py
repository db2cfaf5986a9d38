"""Limits of metrics that are pooled over sites: what can be counted, and what must not be repeated."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from securefl.base.errors import ConfigError
from securefl.methods.clustering import MOST_LABELLED
from securefl.methods.metrics import metric_words, names_of
from securefl.scenario import FalseMetrics, Metric, Scenario


def check_metrics(scenario: Scenario, ring_bits: int) -> None:
    """Refuse metrics that mean nothing, or tell more than they should.

    Args:
        scenario: of the run.
        ring_bits: of its ring.

    Raises:
        ConfigError: with the field to change, the reason and the remedy.
    """
    for field, reason, remedy in (*_unnamed(scenario), *_of_each(scenario), *_together(scenario)):
        raise ConfigError(field, reason, remedy)
    if scenario.privacy.unit == "none" or scenario.privacy.multiplier is not None:
        metric_words(scenario, ring_bits)


def _unnamed(scenario: Scenario) -> Iterator[tuple[str, str, str]]:
    """Names that are no numbers of the scenario."""
    stop, known = scenario.stop, names_of(scenario.evaluation)
    there = ", ".join(known) or "none are declared"
    if stop.metric is not None and stop.metric not in known:
        yield "stop.metric", f"{stop.metric} is no number of [evaluation]", f"one of: {there}"
    if stop.target is not None and stop.metric is None:
        yield "stop.target", "it is a value of stop.metric, which is not given", f"one of: {there}"
    for index, claim in enumerate(scenario.expect):
        field = f"expect.{index}.of"
        if claim.metric != "evaluation" and claim.of is not None:
            yield field, f"it goes with metric evaluation, not {claim.metric}", "leave it out"
        elif claim.metric == "evaluation" and claim.of not in known:
            yield field, f"{claim.of} is no number of [evaluation]", f"one of: {there}"


def _of_each(scenario: Scenario) -> Iterator[tuple[str, str, str]]:
    """What is wrong with a metric by itself."""
    columns = {"column", "classes"}
    if scenario.model.by_columns and not scenario.evaluation.metrics:
        yield "evaluation.metrics", 'model.type = "statistics" is nothing but its columns', "declare them"
    for index, metric in enumerate(scenario.evaluation.metrics):
        if scenario.model.by_columns and metric.kind not in columns:
            reason = f'{metric.name} is of a model, and model.type = "statistics" has none'
            yield f"evaluation.metrics.{index}.kind", reason, "column, or classes"
        at = f"evaluation.metrics.{index}"
        if not metric.lower < metric.upper:
            yield f"{at}.upper", f"{metric.upper:g} is not above lower = {metric.lower:g}", "a range"
        if (wrong := _classes(metric)) is not None:
            yield f"{at}.classes", *wrong
        if (wrong := _root(metric)) is not None:
            yield f"{at}.root", *wrong
    names = Counter(metric.name for metric in scenario.evaluation.metrics)
    for name, times in names.items():
        if times > 1:
            yield "evaluation.metrics", f"{times} are named {name}", "a name for each"


def _classes(metric: Metric) -> tuple[str, str] | None:
    if metric.kind == "histogram" and metric.classes > 2:
        return "AUC is of 2 classes, and a median of 1", '1 or 2; or kind = "confusion"'
    if metric.kind in {"confusion", "classes"} and metric.classes < 2:
        return f"{metric.kind} counts 2 classes at least", "2"
    return None


def _root(metric: Metric) -> tuple[str, str] | None:
    if metric.root and metric.kind != "mean":
        return f"{metric.name} is a {metric.kind}, and roots are of means", 'kind = "mean", or no root'
    if metric.root and metric.lower < 0:
        return f"{metric.name} may be {metric.lower:g}, which has no root", "lower = 0, or no root"
    return None


def _together(scenario: Scenario) -> Iterator[tuple[str, str, str]]:
    """What does not go with metrics."""
    if not scenario.evaluation.metrics:
        for index, behaviour in enumerate(scenario.behaviours):
            if isinstance(behaviour, FalseMetrics):
                yield (
                    f"behaviours.{index}.kind",
                    "no metrics are declared that could be false",
                    "[evaluation]",
                )
        return
    if not scenario.model.by_sites:
        reason = f"parties with a {scenario.model.name} train on shards, and test nothing by themselves"
        yield "evaluation.metrics", reason, 'model.type = "weights" and a site, as in docs/sites.md'
    if scenario.secure_sum.validated is not None:
        yield "secure_sum.validate", "the test of norms is of updates without metrics", "none"
    sums, noisy = scenario.secure_sum, scenario.privacy.unit != "none"
    if not noisy and scenario.clustering.atoms > 1 and scenario.parties > MOST_LABELLED:
        reason = f"kept atoms of metrics without noise have labels for {MOST_LABELLED:,} parties"
        yield "parties", reason, f"at most {MOST_LABELLED:,}, noise, or no metrics"
    if not noisy and scenario.clustering.atoms == 1 and scenario.evaluation.repeats == "refuse":
        least = sums.colluders_per_cluster + sums.k_anonymity
        yield (
            "evaluation.repeats",
            "each round and each run sums counts of the same samples in other clusters, so that counts of"
            " single sites follow in the end",
            f'clustering.atoms = {least}, noise (privacy.unit = "party"), or "accept"',
        )
