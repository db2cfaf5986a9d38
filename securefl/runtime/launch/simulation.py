"""A whole simulation: progress, run directory, checkpoints, verdict. Imports torch."""

import shlex
import time
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import torch

from securefl.base import entropy, header
from securefl.base.arrays import F32
from securefl.base.errors import ConfigError, UsageError
from securefl.base.ids import SERVER, PartyId, RunId
from securefl.base.text import count
from securefl.methods import attacks, feasibility, privacy
from securefl.protocol import kernel
from securefl.protocol.round import AnyReport, NothingLearned, RunPlan, Standing
from securefl.runtime import process, report
from securefl.runtime.launch import conclusion
from securefl.runtime.launch.options import SimulationOptions, fresh_run_id
from securefl.runtime.report import (
    Accounts,
    Progress,
    RunDirectory,
    RunEnd,
    RunMetrics,
    Summary,
    forgoing,
    listed,
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
    """Writes what the run is for."""

    directory: RunDirectory
    module: torch.nn.Module
    scenario: Scenario

    def on_report(self, _now: float, report: AnyReport) -> None:
        """See :class:`securefl.runtime.simulation.rounds.Listener`."""
        process.keep_result(report, self.directory.best_file, self.module, self.scenario)

    def on_reject(self, vantage: str, culprit: str, reason: str) -> None:
        """See :class:`securefl.runtime.simulation.rounds.Listener`."""


class _SiteLogs:
    """Logs of all sites. Who fails is told: as in a local run, everybody is on this machine."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._logs: dict[PartyId, sites.SiteLog] = {}
        self._failures: Counter[PartyId] = Counter()
        self._last: dict[PartyId, tuple[int, str]] = {}
        self.columns: dict[str, sites.ColumnCounts] = {}
        """Values of all sites that are missing or outside the range of their column, by name."""

    def of(self, party: PartyId) -> sites.SiteLog:
        """The log of one party's site."""

        def tell(round_: int, reason: str) -> None:
            self._failures[party] += 1
            self._last[party] = round_, reason
            self._progress.note(f"{party}: {NothingLearned(round_, 0, reason).line()}")

        shown: tuple[str, ...] = ()

        def note(round_: int, notes: Sequence[str]) -> None:
            # The same reason in each round makes one line, as in a run.
            nonlocal shown
            if shown != tuple(notes):
                shown = tuple(notes)
                for one in notes:
                    self._progress.note(f"{party}: round {round_}: {one}")

        def count(counts: Mapping[str, sites.ColumnCounts]) -> None:
            for name, one in counts.items():
                self.columns[name] = self.columns.get(name, sites.ColumnCounts()).plus(one)
                if one.outside:
                    self._progress.note(f"{party}: column {name!r}: {one.text}")

        return self._logs.setdefault(party, sites.SiteLog(None, tell, note, count))

    def reasons(self, failed: Collection[PartyId], round_: int) -> dict[PartyId, str]:
        """Return why the trainings of these parties failed in a round; built-in ones keep no log."""
        built_in = "its training raised an error, or ended in numbers that are not finite"
        found = {party: self._last.get(party, (-1, "")) for party in failed}
        return {party: reason if last == round_ else built_in for party, (last, reason) in found.items()}

    def go_to(self, folder: Path) -> None:
        """Write into this folder from now on."""
        for party, log in self._logs.items():
            log.path = folder / sites.SITE_LOG.format(party)

    def conclude(self) -> None:
        """Say who sent zeros, and how often."""
        for party, times in self._failures.items():
            self._progress.note(
                f"{party} sent zeros {count(times, 'time')}; {sites.SITE_LOG.format(party)} says why"
            )


def run_simulation(scenario: Scenario, options: SimulationOptions, progress: Progress) -> Summary:
    """Simulate to the end; leave model, metrics, checkpoint and summary in the run directory.

    Raises:
        ConfigError: the scenario, its data, the device, the directory or the checkpoint is refused; then
            nothing has been written.
        RunAbortedError: the disk is full or gone.
    """
    started = time.monotonic()
    feasibility.check(scenario)
    check_simulable(scenario)
    schedule = None if options.like is None else _schedule(options.like, scenario)
    options = replace(
        options,
        run=fresh_run_id(options.seed) if schedule is None else RunId(schedule.run),
        # Without privacy no secret noise exists.
        insecure=options.insecure or scenario.privacy.unit == "none",
    )
    logs = _SiteLogs(progress)
    federation = assemble(
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
    plan, scenario = federation.plan, federation.plan.scenario
    accounts = _accounts(plan, options)
    if options.resume:
        directory, standing, dead = _former(options.out, federation)
        records = directory.read_records(before=standing.round)
        # What an interruption left says that all is over.
        directory.summary_file.unlink(missing_ok=True)
    else:
        directory, standing, dead, records = RunDirectory.create(options.out, scenario.name), None, (), ()
        directory.write_scenario(scenario)
    logs.go_to(directory.path)
    checkpoint = directory.path / CHECKPOINT_FILE
    with closing(directory.metrics(records)) as rows:
        cast = attacks.behaviours_of(scenario, options.seed)
        metrics = RunMetrics(scenario, rows.append, dishonest=cast.keys(), earlier=records)
        metrics.on_round = options.on_round
        metrics.know_failures(lambda round_: logs.reasons(federation.trainings.failed(round_), round_))
        metrics.know_saturation(
            lambda round_: {name: party.beyond(round_) for name, party in federation.parties.items()}
        )
        metrics.know_columns(lambda: {name: asdict(one) for name, one in logs.columns.items()})
        metrics.watch(plan, cast)
        if accounts is not None:
            metrics.account_for(accounts)

        def evaluate(params: F32) -> sgd.Evaluation | None:
            models.keep_model(directory.model_file, federation.module, params)
            return federation.evaluator.evaluate(params)

        def after_round(standing: Standing, dead: Collection[PartyId]) -> None:
            write_checkpoint(checkpoint, federation.plan, standing, dead, training=federation.training)
            if metrics.stopping is not None:
                raise _StoppedError

        try:
            progress.start(_header(federation, options, len(records)))
            course = SimulatedRounds(
                federation,
                (metrics, progress, _Keeper(directory, federation.module, scenario)),
                after_round,
                standing,
                dead,
                schedule=schedule,
            )
            end = _played(course, evaluate, metrics, scenario)
            logs.conclude()
        except KeyboardInterrupt:
            end = _interrupted(checkpoint, options)
        finally:
            progress.finish()
    summary = conclusion.conclude(
        directory,
        metrics,
        end,
        options=options,
        scenario=scenario,
        simulated=True,
        seconds=time.monotonic() - started,
        files=directory.files(scenario.groups.count, transcripts=False),
    )
    if not end.interrupted:
        checkpoint.unlink(missing_ok=True)
    return summary


def _maker(scenario: Scenario, options: SimulationOptions) -> sites.SiteMaker | None:
    if options.maker is not None or not options.site:
        return options.maker
    return sites.maker_of(options.site, scenario, options.site_python, options.site_memory)


class _StoppedError(Exception):
    """Every training of a round has failed, or an honest update was cut."""


def _played(
    course: SimulatedRounds,
    evaluate: Callable[[F32], sgd.Evaluation | None],
    metrics: RunMetrics,
    scenario: Scenario,
) -> RunEnd:
    """Go through the rounds, until one of them stops the simulation."""
    outcome: kernel.Finished | kernel.Aborted | None = None
    with suppress(_StoppedError):
        outcome = course.run(evaluate)
    # The last round has no checkpoint, and so nothing stopped behind it.
    if metrics.stopping is not None:
        return conclusion.stopped_after(metrics.stopping, scenario)
    if outcome is None:
        raise UsageError("a simulation has stopped for no reason")
    return conclusion.end_of(outcome)


def _accounts(plan: RunPlan, options: SimulationOptions) -> Accounts | None:
    """Return the account of a simulation with privacy.

    Raises:
        ConfigError: the budget does not hold.
    """
    if plan.mechanism is None:
        return None
    if not options.insecure:
        privacy.check_budget(plan.scenario, plan.length)
    without = forgoing(plan.scenario, options.seed)
    void = why_none(plan.scenario.behaviours, seeded=options.insecure)
    return Accounts(plan, plan.mechanism, void=void, without=without)


def _schedule(like: Path, scenario: Scenario) -> Schedule:
    """What network and processes did in a recorded run.

    Raises:
        ConfigError: it is none, its server's transcripts are missing, or a simulation cannot repeat it.
    """
    training = scenario.training
    if training.method.controls or (training.dp_sgd is not None and training.dp_sgd.carry == "own"):
        raise ConfigError(
            "--like",
            "parties of this scenario keep something from each training to the next, in void rounds, too",
            "simulate it without",
        )
    directory = RunDirectory.open(like)
    transcripts = directory.read_transcripts()
    led = sorted(
        (name for name, one in transcripts.items() if one.header.get("vantage") == SERVER),
        key=lambda name: int(name.partition(".")[2] or 1),
    )
    if not led:
        raise ConfigError(str(directory.transcript_folder), "has no transcript of a server")
    schedule = schedule_of(transcripts[led[0]].run, (transcripts[name].entries for name in led))
    strangers = sorted(schedule.parties.difference(ours := attacks.party_names(scenario.parties)))
    if strangers:
        raise ConfigError(
            "--like",
            f"parties of the run are called {listed(strangers)}, in a simulation {ours[0]} to {ours[-1]}",
            "a run whose roster has these names can be repeated",
        )
    return schedule


def _interrupted(checkpoint: Path, options: SimulationOptions) -> RunEnd:
    if not checkpoint.exists():
        return conclusion.interrupted("by the user (Ctrl-C) before a round had ended")
    if not options.again:
        return conclusion.interrupted(f"by the user (Ctrl-C); to go on: resume it in {checkpoint.parent}")
    command = shlex.join(("securefl", *options.again, "--out", str(checkpoint.parent), "--resume"))
    return conclusion.interrupted(f"by the user (Ctrl-C); to go on: {command}")


def _former(
    out: Path | None, federation: SimulatedFederation
) -> tuple[RunDirectory, Standing, Collection[PartyId]]:
    """The directory of a simulation that was interrupted, and where it was."""
    if out is None:
        raise ConfigError("--resume", "does not say what to go on with", "name its directory by --out")
    directory = RunDirectory.open(out)
    checkpoint = directory.path / CHECKPOINT_FILE
    if directory.summary_file.exists() and not checkpoint.exists():
        reason = "has ended and left no checkpoint, there is nothing to resume"
        raise ConfigError(str(out), reason, "choose another --out, without --resume")
    standing, dead = read_checkpoint(checkpoint, federation.plan, training=federation.training)
    return directory, standing, dead


def _header(federation: SimulatedFederation, options: SimulationOptions, done: int) -> header.RunHeader:
    plan, scenario = federation.plan, federation.plan.scenario
    start = (
        *notes(scenario),
        header.seed(more=federation.note),
        *report.on_start(options.seed, seeded=options.insecure, simulated=True),
    )
    return report.header_of(options.run, scenario, start, plan.mechanism, seeded=options.insecure, done=done)
