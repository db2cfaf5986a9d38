"""A whole simulation. Imports torch."""

import shlex
import time
from collections.abc import Collection
from contextlib import AbstractContextManager, ExitStack, suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import torch

from securefl.base import entropy, header
from securefl.base.arrays import F32
from securefl.base.errors import ConfigError, SecureflError
from securefl.base.ids import SERVER, PartyId, RunId
from securefl.base.text import count
from securefl.methods import attacks, feasibility, privacy
from securefl.protocol.round import AnyReport, RunPlan, ServerState
from securefl.runtime import process, report
from securefl.runtime.launch import conclusion
from securefl.runtime.launch.options import SimulationOptions, fresh_run_id
from securefl.runtime.launch.site_logs import SiteLogs
from securefl.runtime.report import (
    Accounts,
    Progress,
    RunDirectory,
    RunEnd,
    RunMetrics,
    Summary,
    forgoing,
    list_of,
    why_none,
)
from securefl.runtime.simulation import (
    CHECKPOINT_FILE,
    Schedule,
    SimulatedFederation,
    SimulatedRounds,
    assemble,
    available_cores,
    check_simulable,
    notes,
    read_checkpoint,
    schedule_of,
    write_checkpoint,
)
from securefl.scenario import Scenario
from securefl.training import models, sgd, sites


@dataclass(frozen=True)
class _Keeper:
    directory: RunDirectory
    module: torch.nn.Module
    scenario: Scenario

    def on_report(self, _now: float, report: AnyReport) -> None:
        process.keep_result(report, self.directory.best_file, self.module, self.scenario)

    def on_reject(self, vantage: str, culprit: str, reason: str) -> None:
        """Ignore rejections."""


class Simulation:
    """Simulation that advances by single rounds; its run folder is created at once.

    Raises:
        ConfigError: the scenario, its data, the device, the folder or the checkpoint is refused; then nothing
            was written.
        RunAbortedError: a write failed, here or in any method.
    """

    def __init__(self, scenario: Scenario, options: SimulationOptions, progress: Progress) -> None:
        self._started = time.monotonic()
        feasibility.check(scenario)
        check_simulable(scenario)
        schedule = None if options.like is None else _schedule(options.like, scenario)
        self._options = options = replace(
            options,
            run=fresh_run_id(options.seed) if schedule is None else RunId(schedule.run),
            # Without privacy no secret noise exists.
            insecure=options.insecure or scenario.privacy.unit == "none",
        )
        self._progress = progress
        self._logs = logs = SiteLogs(progress)
        self._federation = federation = assemble(
            scenario,
            options.run,
            options.seed,
            options.data_dir,
            options.device,
            exact=options.exact,
            threads=available_cores(),
            secret=None if options.insecure else entropy.OsEntropy(),
            sites=_maker(scenario, options),
            site_log=logs.of,
        )
        plan = federation.plan
        self.scenario = scenario = plan.scenario
        accounts = _accounts(plan, options)
        standing: ServerState | None = None
        dead: Collection[PartyId] = ()
        self._earlier: tuple[report.RoundRecord, ...] = ()
        with ExitStack() as stack:
            if options.resume:
                directory = _former(options.out)
                stack.enter_context(_claim_directory(directory))
                standing, dead = _standing(directory, federation)
                self._earlier = directory.read_records(before=standing.round)
                # It would report the end of the simulation.
                directory.summary_file.unlink(missing_ok=True)
            else:
                directory = RunDirectory.create(options.out, scenario.name)
                stack.enter_context(_claim_directory(directory))
                directory.write_scenario(scenario)
            self._claim = stack.pop_all()
        self.directory = directory
        logs.go_to(directory.path)
        self._checkpoint = directory.path / CHECKPOINT_FILE
        self._rows = directory.metrics(self._earlier)
        behaviours = attacks.behaviours_of(scenario, options.seed)
        self.metrics = metrics = RunMetrics(
            scenario, self._rows.append, dishonest=behaviours.keys(), earlier=self._earlier
        )
        metrics.on_round = options.on_round
        metrics.know_failures(
            lambda round_: logs.reasons(federation.trainings.failed_parties(round_), round_)
        )
        metrics.know_saturation(
            lambda round_: {name: party.beyond(round_) for name, party in federation.parties.items()}
        )
        metrics.know_columns(lambda: {name: asdict(one) for name, one in logs.columns.items()})
        metrics.watch(plan, behaviours)
        if accounts is not None:
            metrics.account_for(accounts)
        self._rounds = SimulatedRounds(
            federation,
            (metrics, progress, _Keeper(directory, federation.module, scenario)),
            self._after_round,
            standing,
            dead,
            schedule=schedule,
        )
        self._begun = False
        self.end: RunEnd | None = None
        """None while rounds are left."""
        self._concluded: Summary | None = None

    def step(self) -> RunEnd | None:
        """Simulate the next round; return the end, None while rounds are left. Ctrl-C ends the simulation."""
        try:
            if not self._begun:
                self._begun = True
                self._progress.start(_header(self._federation, self._options, len(self._earlier)))
            outcome = self._rounds.step(self._evaluate)
            # The last round has no checkpoint.
            if self.metrics.stopping is not None:
                self.end = conclusion.stopped_after(self.metrics.stopping, self.scenario)
            elif outcome is not None:
                self.end = conclusion.end_of(outcome)
            if self.end is not None:
                self._logs.conclude()
        except KeyboardInterrupt:
            self.end = _interrupted_end("by the user (Ctrl-C)", self._checkpoint, self._options)
        except BaseException as error:
            # Parties have trained, and the rows have the round: only a resumption may repeat it.
            why = f"stopped by {type(error).__name__} in round {self._rounds.round}"
            self.end = _interrupted_end(why, self._checkpoint, self._options)
            # The first error must be the one raised.
            with suppress(SecureflError):
                self.conclude()
            raise
        return self.end

    def conclude(self) -> Summary:
        """Write the summary once and return it. Remaining rounds can be resumed from the checkpoint."""
        # Another simulation may have resumed in the folder.
        if self._concluded is not None:
            return self._concluded
        self.close()
        self.end = end = self.end or _interrupted_end(
            "stopped by the caller", self._checkpoint, self._options
        )
        self._concluded = summary = self._summary(end, write=True)
        if not end.interrupted:
            self._checkpoint.unlink(missing_ok=True)
        return summary

    def so_far(self) -> Summary:
        """Return the summary of the rounds so far, without writing it."""
        done = f"{count(len(self.metrics.records), 'round')} so far"
        return self._summary(self.end or RunEnd(reason=done), write=False)

    def close(self) -> None:
        """Close progress and metrics, release the folder; the last checkpoint stays."""
        self._progress.finish()
        self._rows.close()
        self._claim.close()

    def _summary(self, end: RunEnd, *, write: bool) -> Summary:
        return conclusion.conclude(
            self.directory,
            self.metrics,
            end,
            options=self._options,
            scenario=self.scenario,
            simulated=True,
            seconds=time.monotonic() - self._started,
            files=self.directory.files(self.scenario.groups.count, transcripts=False),
            write=write,
        )

    def _evaluate(self, params: F32) -> sgd.Evaluation | None:
        models.keep_model(self.directory.model_file, self._federation.module, params)
        return self._federation.evaluator.evaluate(params)

    def _after_round(self, standing: ServerState, dead: Collection[PartyId]) -> None:
        plan, training = self._federation.plan, self._federation.training
        write_checkpoint(self._checkpoint, plan, standing, dead, training=training)


def run_simulation(scenario: Scenario, options: SimulationOptions, progress: Progress) -> Summary:
    """Simulate to the end; leave model, metrics, checkpoint and summary in the run folder.

    Raises:
        ConfigError, RunAbortedError: see :class:`Simulation`.
    """
    simulation = Simulation(scenario, options, progress)
    while simulation.step() is None:
        pass
    return simulation.conclude()


def _maker(scenario: Scenario, options: SimulationOptions) -> sites.SiteMaker | None:
    if options.maker is not None or not options.site:
        return options.maker
    return sites.maker_of(options.site, scenario, options.site_python, options.site_memory)


def _accounts(plan: RunPlan, options: SimulationOptions) -> Accounts | None:
    if plan.mechanism is None:
        return None
    if not options.insecure:
        privacy.check_budget(plan.scenario, plan.length)
    without = forgoing(plan.scenario, options.seed)
    void = why_none(plan.scenario.behaviours, seeded=options.insecure)
    return Accounts(plan, plan.mechanism, void=void, without=without)


def _schedule(like: Path, scenario: Scenario) -> Schedule:
    """Return the events of network and processes in a recorded run.

    Raises:
        ConfigError: not a run, no server's transcripts, or a simulation cannot repeat it.
    """
    training = scenario.training
    if training.method.controls or (training.dp_sgd is not None and training.dp_sgd.carry == "own"):
        raise ConfigError(
            "--like",
            "parties of this scenario keep state between trainings, which a recorded run lacks",
            "leave out --like",
        )
    directory = RunDirectory.open(like)
    transcripts = directory.read_transcripts()
    led = sorted(
        (name for name, one in transcripts.items() if one.header.get("vantage") == SERVER),
        key=lambda name: int(name.partition(".")[2] or 1),
    )
    if not led:
        raise ConfigError(
            str(directory.transcript_folder), "holds no transcript of a server", "name the directory of a run"
        )
    schedule = schedule_of(transcripts[led[0]].run, (transcripts[name].entries for name in led))
    strangers = sorted(schedule.parties.difference(ours := attacks.party_names(scenario.parties)))
    if strangers:
        raise ConfigError(
            "--like",
            f"the run has parties named {list_of(strangers)}, a simulation has {ours[0]} to {ours[-1]}",
            "give a run whose parties have these names",
        )
    return schedule


def _interrupted_end(by: str, checkpoint: Path, options: SimulationOptions) -> RunEnd:
    if not checkpoint.exists():
        return conclusion.interrupted_end(f"{by} before a round had ended")
    if not options.again:
        return conclusion.interrupted_end(f"{by}; to go on: resume it in {checkpoint.parent}")
    command = shlex.join(("securefl", *options.again, "--out", str(checkpoint.parent), "--resume"))
    return conclusion.interrupted_end(f"{by}; to go on: {command}")


def _claim_directory(directory: RunDirectory) -> AbstractContextManager[None]:
    return process.claim_folder(directory.path, PartyId("simulation"), "another simulation")


def _former(out: Path | None) -> RunDirectory:
    if out is None:
        raise ConfigError("--resume", "needs the directory of the simulation", "add --out DIRECTORY")
    return RunDirectory.open(out)


def _standing(
    directory: RunDirectory, federation: SimulatedFederation
) -> tuple[ServerState, Collection[PartyId]]:
    checkpoint = directory.path / CHECKPOINT_FILE
    if directory.summary_file.exists() and not checkpoint.exists():
        reason = "has no checkpoint, so there is nothing to resume"
        raise ConfigError(str(directory.path), reason, "choose another --out, without --resume")
    return read_checkpoint(checkpoint, federation.plan, training=federation.training)


def _header(federation: SimulatedFederation, options: SimulationOptions, done: int) -> header.RunHeader:
    plan, scenario = federation.plan, federation.plan.scenario
    start = (
        *notes(scenario),
        header.seed(more=federation.note),
        *report.on_start(options.seed, seeded=options.insecure, simulated=True, files=options.out),
    )
    return report.header_of(options.run, scenario, start, plan.mechanism, seeded=options.insecure, done=done)
