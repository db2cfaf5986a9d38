"""One simulation for a curve, resumable. Imports torch."""

import contextlib
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec

from securefl.base.arrays import F32
from securefl.base.errors import ConfigError, UsageError
from securefl.base.ids import PartyId, RunId
from securefl.lab.experiments import provenance
from securefl.lab.experiments.record import SeedRecord, encode, nameless, scenario_key, write_result
from securefl.lab.experiments.task_groups import GroupWatch
from securefl.methods import attacks, privacy
from securefl.protocol import kernel
from securefl.protocol.round import AnyReport, RoundDone, ServerState
from securefl.runtime.report import why_none
from securefl.runtime.simulation import (
    SimulatedFederation,
    SimulatedRounds,
    assemble,
    read_checkpoint,
    write_checkpoint,
)
from securefl.scenario import Scenario
from securefl.training import data, models, sgd
from securefl.training.sites import site_maker

BETWEEN_CHECKPOINTS = 20.0

OnRound = Callable[[int], None]


class _EnoughError(Exception):
    """Raised after the requested number of rounds."""


class SiteMetric:
    """Listener for one metric of ``[evaluation]`` by round.

    A missing value is the previous round's, or else the first one.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self.values: list[float] = []
        self.rounds = 0

    def on_report(self, _now: float, report: AnyReport) -> None:
        """Record a finished round."""
        if isinstance(report, RoundDone):
            self.rounds += 1
            found = [one.value for one in report.metrics if one.name == self._name]
            if found:
                self.values += [round(found[0], 6)] * (self.rounds - len(self.values))
            else:
                self.values += self.values[-1:]

    def on_reject(self, _vantage: str, _culprit: str, _reason: str) -> None:
        """Ignore a refusal."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulationJob:
    """Simulation of a scenario and a seed."""

    scenario: Scenario
    seed: int
    folder: Path
    """Results and checkpoints, shared by all figures."""
    data_dir: Path | None = None
    device: str | None = None
    threads: int = 1
    """Parallel trainings; results do not depend on it."""
    every: int = 1
    """Rounds between tests of the model, >= 1."""
    last: int = 1
    """Rounds at the end that are all tested."""
    site: str = ""
    """``module:name`` of sites that measure ``stop.metric`` of the model that a round begins with."""

    @property
    def rounds(self) -> int:
        """Planned rounds."""
        return self.scenario.stop.rounds

    @property
    def draws(self) -> str:
        """Digest under which clusters are drawn."""
        return provenance.draws_of(self.scenario)

    def check_device(self) -> None:
        """Refuse a missing device. Raises: ConfigError: it is missing."""
        models.pick_device(self.device or self.scenario.training.device)

    @property
    def stem(self) -> str:
        """Stem of its files: equal for equal scenarios and seeds."""
        thinned = f"-{self.every}-{self.last}" if self.every > 1 else ""
        return f"{scenario_key(self.scenario, self.site)}-{self.seed}{thinned}"

    def read_finished(self) -> SeedRecord | None:
        """Return an earlier result, if it is readable."""
        if self.every > 1:
            # A result with every model tested serves as well.
            full = replace(self, every=1).read_finished()
            if full is not None:
                return full
        try:
            return msgspec.json.decode(self._result.read_bytes(), type=SeedRecord)
        except (OSError, msgspec.DecodeError):
            return None

    def forget(self) -> None:
        """Delete all files of an earlier run."""
        for left in (self._result, self._part, self._checkpoint):
            left.unlink(missing_ok=True)

    def measure(self, on_round: OnRound) -> SeedRecord:
        """Simulate to the end, from the last checkpoint if there is one, and keep the result.

        Runs with watched groups or training sites, whose state is private, have no checkpoints.

        Raises:
            ConfigError: data or device is missing, or the scenario is refused.
            RunAbortedError: the disk is full or gone.
        """
        scenario = nameless(self.scenario)
        federation = self._assemble(scenario)
        metric = SiteMetric(scenario.stop.metric or "") if self.site else None
        tasks = data.turns_of(scenario.groups, attacks.party_names(scenario.parties))
        watch = GroupWatch(scenario, self.seed, tasks) if tasks else None
        part, standing, dead = self._former(federation)
        accuracies, before, began = list(part.accuracies), part.seconds, _seconds(federation)
        saved = time.monotonic()
        latest: sgd.Evaluation | None = None

        def evaluate(params: F32) -> sgd.Evaluation | None:
            nonlocal latest
            if metric is not None:
                on_round(metric.rounds)
                return None
            if latest is None or self._tests(len(accuracies)):
                latest = _evaluate(federation, params)
            accuracies.append(round(latest.accuracy, 6))
            on_round(len(accuracies))
            return latest

        def so_far(ended: str) -> SeedRecord:
            return SeedRecord(
                seed=self.seed,
                accuracies=tuple(accuracies) if metric is None else tuple(metric.values),
                ended=ended,
                seconds=round(before + _seconds(federation) - began, 3),
                device=device_of(federation),
                dataset=federation.data,
                tested_every=self.every,
                groups=watch.conclude() if watch else None,
                commit=provenance.commit(),
                draws=self.draws,
            )

        def after_round(standing: ServerState, dead: Collection[PartyId]) -> None:
            nonlocal saved
            if time.monotonic() - saved >= BETWEEN_CHECKPOINTS:
                # Accuracies first: a checkpoint needs those before it.
                write_result(self._part, encode(so_far("interrupted")))
                write_checkpoint(
                    self._checkpoint, federation.plan, standing, dead, training=federation.training
                )
                saved = time.monotonic()

        on_round(len(accuracies))
        if metric is not None:
            course = SimulatedRounds(federation, (metric,))
        elif watch is None:
            course = SimulatedRounds(federation, (), after_round, standing, dead)
        else:
            # A checkpoint omits the watch.
            course = SimulatedRounds(federation, (watch,), on_choice=watch.on_choice)
        outcome = course.run(evaluate)
        record = so_far(outcome.reason if isinstance(outcome, kernel.Aborted) else "")
        # At the end only: accounting takes seconds for each number of rounds.
        epsilon, guarantee = _privacy(federation, len(accuracies) if metric is None else metric.rounds)
        record = msgspec.structs.replace(record, epsilon=epsilon, guarantee=guarantee)
        write_result(self._result, encode(record))
        for left in (self._part, self._checkpoint):
            left.unlink(missing_ok=True)
        return record

    def measure_again(self, tests: int) -> tuple[float, ...]:
        """Return accuracy by round up to the ``tests``-th test; keep nothing.

        Raises:
            ConfigError: data or device is missing, or the scenario is refused.
        """
        federation = self._assemble(nameless(self.scenario))
        if self.site:
            metric = SiteMetric(self.scenario.stop.metric or "")
            SimulatedRounds(federation, (metric,)).run(lambda _params: None)
            return tuple(metric.values)
        accuracies: list[float] = []
        tested: list[sgd.Evaluation] = []

        def evaluate(params: F32) -> sgd.Evaluation:
            if not tested or self._tests(len(accuracies)):
                tested.append(_evaluate(federation, params))
            accuracies.append(round(tested[-1].accuracy, 6))
            if len(tested) == tests:
                raise _EnoughError
            return tested[-1]

        with contextlib.suppress(_EnoughError):
            SimulatedRounds(federation, ()).run(evaluate)
        return tuple(accuracies)

    def _assemble(self, scenario: Scenario) -> SimulatedFederation:
        # Clusters follow from run, seed and choices: no two curves share them.
        run = RunId(f"figure-{self.seed}")
        sites = site_maker(self.site) if self.site else None
        return assemble(
            scenario, run, self.seed, self.data_dir, self.device, threads=self.threads, sites=sites
        )

    def _tests(self, round_: int) -> bool:
        """Return True if the model of a round is tested, counted from the last one, which always is."""
        stop = self.scenario.stop
        if stop.target is not None or stop.patience is not None:
            # This may be the last round.
            return True
        left = stop.rounds - 1 - round_
        return left < self.last or left % self.every == 0

    def _former(
        self, federation: SimulatedFederation
    ) -> tuple[SeedRecord, ServerState | None, Collection[PartyId]]:
        new = SeedRecord(seed=self.seed, accuracies=(), ended="", seconds=0.0, device="", dataset="")
        try:
            standing, dead = read_checkpoint(self._checkpoint, federation.plan, training=federation.training)
            part = msgspec.json.decode(self._part.read_bytes(), type=SeedRecord)
        except (ConfigError, OSError, msgspec.DecodeError):
            return new, None, ()
        if len(part.accuracies) < standing.round:
            return new, None, ()
        return (
            msgspec.structs.replace(part, accuracies=part.accuracies[: standing.round]),
            standing,
            dead,
        )

    @property
    def _result(self) -> Path:
        return self.folder / f"{self.stem}.json"

    @property
    def _part(self) -> Path:
        return self.folder / f"{self.stem}.part.json"

    @property
    def _checkpoint(self) -> Path:
        return self.folder / f"{self.stem}.safetensors"


def _privacy(federation: SimulatedFederation, rounds: int) -> tuple[float | None, str]:
    """Return epsilon of a party in all rounds, had its noise been secret, and the guarantee in words.

    Without an epsilon the words are the reason, and empty without privacy or accountant.
    """
    plan, mechanism = federation.plan, federation.plan.mechanism
    if mechanism is None:
        return None, ""
    scenario = plan.scenario
    if why := why_none(scenario.behaviours, seeded=False):
        return None, why
    releases = rounds * privacy.planned_releases(scenario) // scenario.stop.rounds
    kept = releases if mechanism.allowed is None else min(releases, mechanism.allowed)
    shared = scenario.privacy.shared
    try:
        spent = privacy.ledger_of(mechanism, kept).guarantee(
            colluders=scenario.secure_sum.colluders_per_cluster if shared else None,
            failure=plan.limits.p_shares_fail if shared else 0.0,
        )
    except ConfigError:
        # A scenario with a multiplier is simulated without dp_accounting too.
        return None, ""
    return round(spent.epsilon, 6), str(spent)


def device_of(federation: SimulatedFederation) -> str:
    """Return the kind of device of a federation."""
    return next(federation.module.parameters()).device.type


def _seconds(federation: SimulatedFederation) -> float:
    """Return CPU time, whatever else the machine does; a GPU computes while the CPU waits."""
    return time.process_time() if device_of(federation) == "cpu" else time.monotonic()


def _evaluate(federation: SimulatedFederation, params: F32) -> sgd.Evaluation:
    found = federation.evaluator.evaluate(params)
    if found is None:
        raise UsageError(
            "cannot measure accuracy: the model has no test set; use a model whose data have test records"
        )
    return found
