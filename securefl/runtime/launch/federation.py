"""A whole run on this machine."""

import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import replace
from pathlib import Path

import msgspec

from securefl.base import header, logs, loops
from securefl.base.errors import ConfigError, RunAbortedError, SecureflError
from securefl.base.ids import DEALER, SERVER, PartyId
from securefl.methods import attacks, feasibility
from securefl.methods.privacy import Mechanism
from securefl.protocol import secure_sum
from securefl.protocol.round import PartiesJoined
from securefl.protocol.wire import topics
from securefl.runtime import monitoring, report, transport
from securefl.runtime.launch import conclusion, devices, following, process
from securefl.runtime.launch.interrupts import SignalledError
from securefl.runtime.launch.options import RunOptions, fresh_run_id
from securefl.runtime.process import (
    PRELOAD,
    Children,
    Died,
    Fatal,
    LocalSetup,
    ProcessSettings,
    RecordOptions,
    Said,
    local_setup,
    scratch_folder,
    shared_fields,
)
from securefl.scenario import Scenario, check_importable

_GOODBYE_SECONDS = 5.0
"""Seconds for parties to end by themselves after the server."""
_CANCELLATION_SECONDS = 0.5


class LocalRun:
    """Run on this machine: starts, follows and ends all processes."""

    def __init__(
        self,
        scenario: Scenario,
        options: RunOptions,
        directory: report.RunDirectory,
        metrics: report.RunMetrics,
        progress: report.Progress,
        monitor: monitoring.RunMonitor | None = None,
        metrics_url: str = "",
    ) -> None:
        self._monitor = monitor
        self._metrics_url = metrics_url
        self._scenario = scenario
        self._options = options
        self._directory = directory
        self._metrics = metrics
        self._progress = progress
        knows_trainings = _knows_trainings(scenario, options)
        # With a clip bound, updates are cut only if it contradicts the range; the amount is a secret.
        knows_updates = options.lab or (knows_trainings and scenario.encoding.clip == "none")
        self._following = following.Following(
            metrics,
            progress,
            attacks.party_names(scenario.parties),
            trainings=knows_trainings,
            updates=knows_updates,
        )
        if knows_trainings:
            metrics.know_failures(self._following.failures)
        if knows_updates:
            metrics.know_saturation(self._following.beyond)
        self._fatal: dict[PartyId, Fatal] = {}
        self._begun = False
        self._device = devices.LocalDevice("auto")

    def run(self) -> report.RunEnd:
        """Run to the end; return the end of the server's run, or by a round that stopped it.

        Raises:
            ConfigError: refused before or during the start.
            RunAbortedError: broker, server or disk failed.
        """
        options = self._options
        feasibility.check_site(
            self._scenario, given=bool(options.site), apart=options.site_python is not None
        )
        self._place()
        scenario = self._scenario
        with ExitStack() as stack:
            private = stack.enter_context(scratch_folder())
            children = stack.enter_context(Children(PRELOAD + secure_sum.sums_of(scenario).preload))
            # Before the header, so that unusable data is the only message.
            setup = local_setup(scenario, options.seed, options.entropy(), options.data_dir, private)
            mechanism = self._settle(setup)
            self._directory.keep_first_model(scenario)
            self._progress.start(self._header(mechanism))
            trained_on = options.site or f"data set {scenario.data.set}"
            self._progress.note(f"{trained_on}, keys for {scenario.parties} parties")
            if self._metrics_url:
                self._progress.note(f"metrics at {self._metrics_url}/metrics")
            if self._device.note:
                self._progress.note(self._device.note)
            broker, tls = self._broker(stack, private)
            frame_limit = loops.run_coroutine(self._try(_as_client(broker, tls, SERVER)))
            self._progress.note(f"broker {broker}, frames of up to {frame_limit // 1024} KiB")
            stack.callback(children.end)
            self._check_cancelled()
            self._start(children, setup, broker, tls, frame_limit)
            self._follow(children)
        if self._metrics.stopping is not None:
            return conclusion.stopped_after(self._metrics.stopping, scenario)
        if self._following.ending is None:
            fatal = self._fatal.get(SERVER)
            if fatal is not None and fatal.refused:
                raise ConfigError("server", fatal.reason)
            raise RunAbortedError(fatal.reason if fatal else "the run ended: the server process died")
        return conclusion.end_of(self._following.ending.outcome)

    @property
    def scenario(self) -> Scenario:
        """Scenario; with settled privacy once :meth:`run` has begun."""
        return self._scenario

    def _place(self) -> None:
        scenario = self._scenario
        # Sites choose their own devices, and share the GPU.
        shared = scenario.secure_sum.kind == "crypten"
        idle = self._options.site and not shared
        wanted = "cpu" if idle else self._options.device or scenario.training.device
        self._device = devices.local_device(wanted, scenario.parties + 1)
        if shared and self._device.name == "cpu":
            training = msgspec.structs.replace(scenario.training, device="cpu")
            self._scenario = msgspec.structs.replace(scenario, training=training)

    def _settle(self, setup: LocalSetup) -> Mechanism | None:
        if self._scenario.privacy.unit == "none":
            return None
        from securefl.runtime.process import settle_setup  # noqa: PLC0415 - torch and dp_accounting

        seeded = self._options.insecure
        plan = settle_setup(self._scenario, setup, self._options.run, self._options.seed, seeded=seeded)
        self._scenario = plan.scenario
        self._directory.write_scenario(plan.scenario)
        following.account_for(plan, self._metrics, self._options.seed, seeded=seeded)
        return plan.mechanism

    def _header(self, mechanism: Mechanism | None) -> header.RunHeader:
        options = self._options
        keys = "all keys are local", "a local run; in a deployment each party has its own key"
        start = report.on_start(
            options.seed, seeded=options.insecure, lab=options.lab, keys=keys, files=self._directory.path
        )
        return report.header_of(options.run, self._scenario, start, mechanism, seeded=options.insecure)

    def _broker(self, stack: ExitStack, private: Path) -> tuple[transport.Brokers, transport.LocalTls | None]:
        options = self._options
        remote = options.remote_broker()
        if remote is not None:
            return remote, None
        tls = None
        if options.tls:
            names = (*attacks.party_names(self._scenario.parties), SERVER, DEALER, transport.OBSERVER)
            tls = transport.make_local_tls(private / "tls", names, keys_in_memory=True)
            stack.callback(tls.close)
        wish = transport.broker_wish(options.broker, "--broker")
        running = transport.start_local_broker(wish, private / "broker", 0, tls)
        stack.enter_context(running)
        return transport.Brokers((running.url,)), tls

    async def _try(self, broker: transport.Brokers) -> int:
        name, topic = f"{self._options.run}-start", topics.probe(self._options.run, SERVER)
        limit = await transport.measure_frame_limit(broker, name, topic)
        if self._options.remote_broker() is not None:
            await transport.check_retention(broker, name, topic)
        return limit

    def _start(
        self,
        children: Children,
        setup: LocalSetup,
        broker: transport.Brokers,
        tls: transport.LocalTls | None,
        frame_limit: int,
    ) -> None:
        options = self._options
        shared = shared_fields(options, RecordOptions) | {
            "out": self._directory.path,
            "device": self._device.name,
        }
        base = ProcessSettings(
            **shared,
            scenario=self._scenario,
            name=SERVER,
            identity=setup.identities[SERVER],
            roster_file=setup.roster_file,
            broker=_as_client(broker, tls, SERVER),
            broker_patience=options.patience,
            data_file=setup.shards.get(SERVER, Path()),
            gpu_processes=self._scenario.parties + 1,
            frame_limit=frame_limit,
            accounted=True,
            alone=options.remote_broker() is None or not options.insecure,
        )
        if options.observe:
            observer = replace(
                base, name=PartyId(transport.OBSERVER), broker=_as_client(broker, tls, transport.OBSERVER)
            )
            children.start(process.observer, observer)
        children.start(process.server, replace(base, server_data_file=setup.server_data))
        if DEALER in setup.identities:
            dealer = replace(
                base,
                name=DEALER,
                identity=setup.identities[DEALER],
                broker=_as_client(broker, tls, DEALER),
            )
            children.start(process.dealer, dealer)
        behaviours = attacks.behaviours_of(self._scenario, options.seed)
        for name in attacks.party_names(self._scenario.parties):
            conspires = any(map(attacks.shares_updates, behaviours.get(name, ())))
            children.start(
                process.party,
                replace(
                    base,
                    name=name,
                    identity=setup.identities[name],
                    broker=_as_client(broker, tls, name),
                    data_file=setup.shards.get(name, Path()),
                    coalition_dir=setup.coalitions if conspires else None,
                ),
            )

    def _follow(self, children: Children) -> None:
        until: float | None = None
        longest = None if self._options.cancelled is None else _CANCELLATION_SECONDS
        while children.running and (until is None or time.monotonic() < until):
            if self._metrics.stopping is not None:
                return
            self._check_cancelled()
            for news in children.wait(longest if until is None else until - time.monotonic()):
                match news:
                    case Said(name=name, item=item):
                        self._take(name, item)
                    case Died(name=name, exit_code=code):
                        self._report_death(name, code)
                        if name == SERVER:
                            until = time.monotonic() + _GOODBYE_SECONDS

    def _check_cancelled(self) -> None:
        if self._options.cancelled is not None and self._options.cancelled.is_set():
            raise SignalledError("its caller")

    def _take(self, name: PartyId, item: object) -> None:
        if self._monitor is not None:
            self._monitor.take(name, item)
        self._following.take(name, item)
        if name == SERVER and isinstance(item, report.Fact) and isinstance(item.item, PartiesJoined):
            self._begun = True
        if isinstance(item, Fatal):
            self._check_site(item)
            self._fatal[name] = item
            self._progress.note(f"{name}: {item.reason}")
            self._check_parties()

    def _check_site(self, fatal: Fatal) -> None:
        """End the run if a site cannot take part, such as one of another shape: all are of one class here.

        Raises:
            ConfigError: its reason, before the first round; later its party counts as dropped out.
        """
        if fatal.refused and not self._begun and fatal.field.startswith("--site"):
            raise ConfigError(fatal.field, fatal.reason.removeprefix(f"{fatal.field}: "))

    def _check_parties(self) -> None:
        """End the run if all parties refuse to join, with the first one's reason (ConfigError)."""
        names = attacks.party_names(self._scenario.parties)
        errors = [self._fatal[name] for name in names if name in self._fatal]
        if len(errors) == len(names) and all(one.refused for one in errors):
            raise ConfigError("parties", f"no party joined the run; {names[0]} refused: {errors[0].reason}")

    def _report_death(self, name: PartyId, exit_code: int) -> None:
        if exit_code == 0 or self._following.ending is not None or name in self._fatal:
            return
        how = f"signal {-exit_code}" if exit_code < 0 else f"exit code {exit_code}"
        meaning = "" if name in {SERVER, DEALER, transport.OBSERVER} else "; it counts as dropped out"
        self._progress.note(f"{name} died ({how}){meaning}")


def _as_client(brokers: transport.Brokers, tls: transport.LocalTls | None, name: str) -> transport.Brokers:
    if tls is None:
        return brokers
    files, ca = tls.clients[name], tls.ca_file
    return brokers.each(
        lambda url: replace(url, ca_file=ca, cert_file=files.cert_file, key_file=files.key_file)
    )


def _knows_trainings(scenario: Scenario, options: RunOptions) -> bool:
    # With privacy a failed training is its party's secret.
    return scenario.privacy.unit == "none" or options.lab


def run_here(scenario: Scenario, options: RunOptions, progress: report.Progress) -> report.Summary:
    """Run a scenario on this machine; leave model, metrics, transcripts and summary behind.

    Raises:
        ConfigError: refused before or during the start; then no run folder is left.
        RunAbortedError: broker, server or disk failed.
    """
    feasibility.check(scenario)
    attacks.check_runnable(scenario.behaviours)
    check_importable(scenario)
    sums = secure_sum.sums_of(scenario)
    sums.check_run()
    sums.check_machine()
    run = options.run or fresh_run_id(options.insecure_seed)
    options = replace(options, run=run, observe=options.observe or scenario.observer)
    options.remote_broker()
    directory = report.RunDirectory.create(options.out, scenario.name)
    with _withdrawn_if_never_started(directory):
        directory.write_scenario(scenario)
        return _run_in(directory, scenario, options, progress)


def _run_in(
    directory: report.RunDirectory, scenario: Scenario, options: RunOptions, progress: report.Progress
) -> report.Summary:
    started = time.monotonic()
    dishonest = attacks.behaviours_of(scenario, options.seed).keys()
    with logs.bind_run(options.run), closing(directory.metrics()) as rows, ExitStack() as serving:
        metrics = report.RunMetrics(scenario, rows.append, dishonest=dishonest, reread=directory.each_record)
        monitor = monitoring.RunMonitor(options.run, scenario, trainings=_knows_trainings(scenario, options))
        url = serving.enter_context(process.serve_metrics(options, monitor))

        def on_round(record: report.RoundRecord) -> None:
            monitor.take_round(record)
            if options.on_round is not None:
                options.on_round(record)

        metrics.on_round = on_round
        federation = LocalRun(scenario, options, directory, metrics, progress, monitor, url)

        def conclude(end: report.RunEnd) -> report.Summary:
            rows.close()
            return conclusion.conclude(
                directory,
                metrics,
                end,
                options=options,
                scenario=federation.scenario,
                seconds=time.monotonic() - started,
                files=directory.files(federation.scenario.groups.count),
            )

        try:
            end = federation.run()
        except KeyboardInterrupt as interrupt:
            end = conclusion.interrupted_by(interrupt)
        except ConfigError:
            raise
        except Exception as error:
            if isinstance(error, RunAbortedError):
                end = report.RunEnd(reason=str(error), aborted=True)
            else:  # such as one of the caller's on_round
                end = conclusion.interrupted_end(f"stopped by {type(error).__name__}; what was written stays")
            if any(directory.transcript_folder.glob("*")):
                # The first error must be the one raised.
                with suppress(SecureflError):
                    conclude(end)
            raise
        finally:
            progress.finish()
        return conclude(end)


@contextmanager
def _withdrawn_if_never_started(directory: report.RunDirectory) -> Iterator[None]:
    """Remove the run folder if nothing was run in it: ``--out`` stays free."""
    try:
        yield
    except (ConfigError, RunAbortedError):
        transcripts = directory.path / "transcripts"
        ours = {directory.scenario_file, directory.first_file, directory.metrics_file, transcripts}
        # Other files were written by a process of the run, or are not ours.
        with suppress(OSError):
            if (
                ours.issuperset(directory.path.iterdir())
                and not any(transcripts.glob("*"))
                and not (directory.metrics_file.exists() and directory.metrics_file.stat().st_size)
            ):
                directory.scenario_file.unlink(missing_ok=True)
                directory.first_file.unlink(missing_ok=True)
                directory.metrics_file.unlink(missing_ok=True)
                if transcripts.exists():
                    transcripts.rmdir()
                directory.path.rmdir()
                if directory.path.parent == report.RUNS:
                    report.RUNS.rmdir()  # unless there are other runs
        raise
