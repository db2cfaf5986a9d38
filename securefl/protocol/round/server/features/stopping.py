"""Ends of a run: test accuracy, planned rounds, spent budgets."""

from collections.abc import Iterator
from dataclasses import replace

from securefl.base import header, text
from securefl.protocol.round.server.features.feature import RoundFeature, RoundStep
from securefl.protocol.round.server.phases import ServerState
from securefl.protocol.round.shared import budget, reports
from securefl.protocol.round.shared.plan import RunPlan
from securefl.scenario import Scenario, Stop


class AccuracyStop(RoundFeature):
    """End by ``stop.target`` or ``stop.patience``, unless ``stop.metric`` decides."""

    def header_sentences(self, scenario: Scenario) -> Iterator[header.Sentence]:
        stop = scenario.stop
        if stop.target is not None and stop.metric is None:
            yield header.end(f"at accuracy {stop.target:g}")

    def check_end(
        self, plan: RunPlan, standing: ServerState, done: reports.RoundDone
    ) -> tuple[ServerState, str]:
        stop, accuracy = plan.scenario.stop, done.accuracy
        if accuracy is None or stop.metric is not None:
            return standing, ""
        better = accuracy > standing.progress.best_accuracy + (stop.min_gain or 0.0)
        standing = replace(
            standing,
            progress=replace(
                standing.progress,
                best_accuracy=accuracy if better else standing.progress.best_accuracy,
                stale_rounds=0 if better else standing.progress.stale_rounds + 1,
            ),
        )
        return standing, _reason_by_accuracy(stop, standing, accuracy)


class PlannedRounds(RoundFeature):
    """End after ``stop.rounds`` rounds."""

    def header_sentences(self, scenario: Scenario) -> Iterator[header.Sentence]:
        yield header.end(f"after {text.count(scenario.stop.rounds, 'round')}")

    def check_end(
        self, plan: RunPlan, standing: ServerState, done: reports.RoundDone
    ) -> tuple[ServerState, str]:
        rounds = plan.scenario.stop.rounds
        return standing, f"{text.count(rounds, 'round')} done" if standing.round + 1 >= rounds else ""


class ReleaseBudget(RoundFeature):
    """Count of each party's releases; end if too few have budget left."""

    def record_step(self, step: RoundStep, after: ServerState) -> ServerState:
        drawn = step.opened.drawn.assignment.participants
        return replace(after, releases=budget.add_round(step.plan, step.before.releases, drawn))

    def check_end(
        self, plan: RunPlan, standing: ServerState, done: reports.RoundDone
    ) -> tuple[ServerState, str]:
        return standing, budget.reason_to_end(plan, standing.releases) or ""


def _reason_by_accuracy(stop: Stop, standing: ServerState, accuracy: float) -> str:
    if stop.target is not None and accuracy >= stop.target:
        return f"accuracy {accuracy:.4f} reached the target {stop.target:g}"
    if stop.patience is not None and standing.progress.stale_rounds >= stop.patience:
        return f"no better accuracy in {stop.patience} rounds"
    return ""
