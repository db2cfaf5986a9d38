"""Site metrics at the server."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from securefl.base import header, text
from securefl.base.arrays import F32
from securefl.base.ids import EVERYONE
from securefl.methods import encoding, metrics, robust
from securefl.protocol import kernel, messages
from securefl.protocol.round.server import phases
from securefl.protocol.round.server.features.feature import RoundFeature, RoundStep
from securefl.protocol.round.server.stacking import ClusterSum
from securefl.protocol.round.shared import reports
from securefl.protocol.round.shared.plan import RunPlan
from securefl.scenario import Scenario


class SiteMetrics(RoundFeature):
    """Site metrics of a round's first model: pooled values, best so far, early stop."""

    def header_sentences(self, scenario: Scenario) -> Iterator[header.Sentence]:
        yield from on_metrics(scenario)
        stop = scenario.stop
        if stop.metric is not None and stop.target is not None:
            yield header.end(f"at {stop.metric} {stop.target:g}")
        if stop.patience is not None:
            yield header.end(
                f"{text.count(stop.patience, 'round')} without better {stop.metric or 'accuracy'}"
            )

    def complete_report(
        self, step: RoundStep, after: phases.ServerState, done: reports.RoundDone
    ) -> tuple[phases.ServerState, reports.RoundDone, tuple[reports.AnyReport, ...]]:
        found, doubted = measure_sums(step.plan, step.opened.sums)
        done = replace(done, metrics=found, doubted=doubted)
        after = record_metrics(step.plan, after, step.before.params, done)
        return after, done, unused_metric_report(step.plan, after, done)

    def check_end(
        self, plan: RunPlan, standing: phases.ServerState, done: reports.RoundDone
    ) -> tuple[phases.ServerState, str]:
        return standing, reason_by_metric(plan, standing, done)


def on_metrics(scenario: Scenario) -> Iterator[header.Sentence]:
    """Yield the sentence on the leakage of repeated metrics on the same samples."""
    evaluation = scenario.evaluation
    if not evaluation.metrics:
        return
    if scenario.privacy.unit != "none":
        own = f"metrics have noise of their own, {evaluation.noise:g} times that of updates"
        yield header.privacy(more=f"{own}, in one account")
    elif evaluation.repeats == "accept":
        same = "each round and run sums the same samples in other clusters (evaluation.repeats)"
        yield header.privacy("METRICS MAY REVEAL SINGLE SITES", same)
    else:
        shows = "a change at a single site shows between two sums of its atom"
        yield header.privacy("metrics by atom", f"without noise, over atoms that accounts keep; {shows}")


def measure_sums(
    plan: RunPlan, sums: Sequence[ClusterSum]
) -> tuple[tuple[metrics.Measured, ...], tuple[metrics.Doubted, ...]]:
    """Return the metrics of a round's sums, and the sums with impossible metrics."""
    words = plan.metrics
    if words is None:
        return (), ()
    asked = plan.scenario.evaluation.report
    median = asked == "median" or (
        asked == "auto" and not isinstance(plan.scenario.aggregation.rule, robust.Mean)
    )
    first = [one for one in sums if one.reclustering == 0]
    tails = [
        (one.cluster, encoding.from_ring(one.ring[plan.words_slice("metrics")]), len(one.survivors))
        for one in first
    ]
    return metrics.measure(words, tails, median=median)


def record_metrics(
    plan: RunPlan, standing: phases.ServerState, params: F32, done: reports.RoundDone
) -> phases.ServerState:
    """Return the state with ``params``, the model that the round began with, if it is the best so far.

    Rounds without a usable ``stop.metric`` change neither the best model nor the patience.
    """
    one, best = _stop_metric(plan, done), standing.progress.best
    if _why_unused(plan, done):
        return replace(
            standing, progress=replace(standing.progress, unused_rounds=standing.progress.unused_rounds + 1)
        )
    if one is None:
        return standing
    if not metrics.is_better(one, None if best is None else best.value, metrics.gain_of(plan.scenario)):
        return replace(
            standing, progress=replace(standing.progress, stale_rounds=standing.progress.stale_rounds + 1)
        )
    return replace(
        standing,
        progress=replace(
            standing.progress, best=phases.BestOfRun(done.round, one.value, params), stale_rounds=0
        ),
    )


def unused_metric_report(
    plan: RunPlan, standing: phases.ServerState, done: reports.RoundDone
) -> tuple[reports.MetricUnused, ...]:
    """Return the report of a too noisy metric, in the first such round only."""
    reason = _why_unused(plan, done)
    if not reason or standing.progress.unused_rounds != 1:
        return ()
    return (reports.MetricUnused(done.round, plan.scenario.stop.metric or "", reason),)


def best_model_effects(best: phases.BestOfRun) -> reports.Effects:
    """Return the report of the run's best model, and its message to parties."""
    message = messages.BestModel(params=best.params.astype("<f4", copy=False).tobytes())
    return kernel.Report(reports.ModelKept(best.round, best.params)), kernel.Send(
        EVERYONE, kernel.Place(best.round), message
    )


def reason_by_metric(plan: RunPlan, standing: phases.ServerState, done: reports.RoundDone) -> str:
    """Return why a run ends by the metrics of this round; empty if it continues."""
    stop, one = plan.scenario.stop, _stop_metric(plan, done)
    if one is None or _why_unused(plan, done):
        return ""
    if stop.target is not None and (one.value >= stop.target if one.higher else one.value <= stop.target):
        return f"{one.name} {one.value:.4f} reached the target {stop.target:g}"
    if stop.patience is not None and standing.progress.stale_rounds >= stop.patience:
        return f"no better {one.name} in {stop.patience} rounds"
    return ""


def _why_unused(plan: RunPlan, done: reports.RoundDone) -> str:
    return metrics.why_unused(plan.scenario, _stop_metric(plan, done)) if done.opened else ""


def _stop_metric(plan: RunPlan, done: reports.RoundDone) -> metrics.Measured | None:
    return next((one for one in done.metrics if one.name == plan.scenario.stop.metric), None)
