"""Agent of one machine: it takes part in the runs that the operator submits and the site's policy allows.

Decisions are in :mod:`securefl.runtime.agents.engine`; this module connects broker, files and processes.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Final

from securefl.base import crypto, files, logs
from securefl.base.errors import ConfigError, RunAbortedError, SecureflError
from securefl.base.ids import SERVER, PartyId
from securefl.runtime import provision, transport
from securefl.runtime.agents import board, engine, evaluation, policy, register, submission
from securefl.runtime.agents.child_process import RunProcess

_LOG: Final = logs.log_of("runtime.agents")
TICK: Final = 1.0
"""Seconds between two looks at files and hours."""
_GRACE: Final = 60.0
"""Seconds that a party's process has to end by itself after the operator's stop order."""
_AGAIN: Final = 5.0
"""Seconds before an aborted process or a lost broker is tried again."""
_PROGRESS: Final = 10.0
"""Seconds between two notices of a server's progress."""
_PATIENCE: Final = 1_800.0
"""Seconds without the broker before the agent connects anew."""
_EARLY_BYTES: Final = 2**26
"""Bytes of parts of first weights that are kept before their submission has arrived."""


@dataclass(frozen=True, kw_only=True)
class AgentSettings:
    """Settings of an agent."""

    kit: Path
    policy: Path | None = None
    """Policy file; None for ``policy.toml`` beside the kit, which the server need not have."""
    parallel: int = 1
    """Runs that a server leads at the same time."""


@dataclass
class _Live:
    """Part of a run that does not outlive the agent."""

    verdict: evaluation.SubmissionVerdict | None = None
    judged_by: bytes = b""
    """Text of the policy of the verdict."""
    weights: board.WeightParts | None = None
    process: RunProcess | None = None
    notices: dict[PartyId, submission.Notice] = field(default_factory=dict)
    end_at: float | None = None
    """Time after which a party's process is ended."""
    start_at: float = 0.0
    told_at: float = 0.0


class Agent:
    """Agent with the kit of one machine.

    Raises:
        ConfigError: kit, policy or register are invalid.
    """

    def __init__(self, settings: AgentSettings, tell: Callable[[str], None]) -> None:
        self._settings = settings
        self._tell = tell
        self._load_kit()
        given = settings.policy or self._kit.folder / policy.POLICY
        self._policy_file = given if settings.policy or self._kit.role == "party" or given.exists() else None
        self._policy_text = b""
        self._policy: policy.SitePolicy | None = None
        self._policy_fault = ""
        self._read_policy()
        if self._policy_fault:
            raise ConfigError(str(self._policy_file), self._policy_fault)
        self._live: dict[str, _Live] = {}
        self._early: dict[str, dict[int, bytes]] = {}
        self._pending: dict[str, bytes] = {}
        self._wake = asyncio.Event()
        self._stopping = False

    def _load_kit(self) -> None:
        kit = provision.read_kit(self._settings.kit)
        if kit.role in {"broker", "observer"}:
            raise ConfigError(str(kit.path), f"is the kit of a {kit.role}, which takes part in no run", "")
        kit.check(provision.utc_now())
        self._kit = kit
        self._kit_text = kit.path.read_bytes()
        self._history = kit.history()
        self._identity = crypto.read_identity(kit.file("key"))
        self._topics = board.Topics(self._history.project)
        self._evaluator = evaluation.SubmissionEvaluator(kit, self._history)
        self._register = register.Register(kit.folder, self._history)

    def _read_policy(self) -> None:
        """Read the policy again if it has changed; a bad one stops all work until it is mended."""
        if self._policy_file is None:
            return
        try:
            with files.reading(self._policy_file):
                text = self._policy_file.read_bytes()
            if text == self._policy_text and not self._policy_fault:
                return
            self._policy = policy.read_policy(self._policy_file)
        except ConfigError as error:
            fault = f"the policy is not valid: {error}"[:200]
            if fault != self._policy_fault:
                self._policy_fault = fault
                self._tell(fault)
            return
        if self._policy_text:
            self._tell("the policy has changed; it applies from the next round")
        self._policy_text, self._policy_fault = text, ""

    @property
    def _me(self) -> PartyId:
        return self._kit.name

    async def run(self) -> None:
        """Take part in runs until SIGTERM or SIGINT; then let the processes leave in good order.

        Raises:
            ConfigError: the broker refuses this machine, or another agent works in the folder.
            RunAbortedError: the register cannot be written.
        """
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            loop.add_signal_handler(number, self._stop)
        os.chdir(self._kit.folder)
        with self._register.lock():
            try:
                while not self._stopping:
                    try:
                        await self._session()
                    except RunAbortedError as error:
                        self._tell(f"{error}; trying again")
                        await self._pause(_AGAIN)
            except OSError as error:
                raise RunAbortedError(f"{error.filename}: {error.strerror}") from error
            finally:
                await self._end_processes()

    def _stop(self) -> None:
        self._stopping = True
        self._wake.set()

    async def _pause(self, seconds: float) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._wake.wait()
        self._wake.clear()

    async def _end_processes(self) -> None:
        """Let all processes pause: a server ends its round, a party leaves."""
        running = [live.process for live in self._live.values() if live.process is not None]
        for process in running:
            process.send(signal.SIGTERM)
        await asyncio.gather(*(process.wait() for process in running))

    async def _session(self) -> None:
        """Work with one connection, until the agent is stopped or the kit has changed."""
        connected = await transport.MqttTransport.connect(
            self._brokers(),
            f"agent-{self._history.project}-{self._me}",
            (self._topics.orders, self._topics.notice("+", "+" if self._me == SERVER else SERVER)),
            limits=transport.MqttLimits(give_up_after=_PATIENCE),
        )
        self._tell(f"connected to {self._kit.content.run.broker} as {self._me} of {self._history.project}")
        tasks = [asyncio.create_task(work(connected)) for work in (self._read, self._write)]
        try:
            self._repeat_all()
            while not self._stopping and not self._has_new_kit():
                for task in tasks:
                    if task.done():
                        task.result()
                await self._tick()
                await self._pause(TICK)
            await self._flush()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await connected.close()

    def _brokers(self) -> transport.Brokers:
        return transport.parse_brokers(
            self._kit.content.run.broker,
            ca_file=self._kit.file("authority"),
            cert_file=self._kit.file("certificate"),
            key_file=self._kit.file("tls_key"),
        )

    def _has_new_kit(self) -> bool:
        """Load the kit again if an answer was accepted and no process runs."""
        if any(live.process is not None for live in self._live.values()):
            return False
        with suppress(OSError):
            if self._kit.path.read_bytes() == self._kit_text:
                return False
        try:
            self._load_kit()
        except SecureflError as error:
            _LOG.warning("the kit cannot be used yet: %s", error)
            return False
        for live in self._live.values():
            live.verdict = None
        self._tell(f"the kit has changed: {len(self._history.lines)} entries of history")
        return True

    # Messages

    def _send(self, topic: str, payload: bytes) -> None:
        self._pending[topic] = payload
        self._wake.set()

    async def _write(self, connected: transport.MqttTransport) -> None:
        while True:
            while self._pending:
                topic = next(iter(self._pending))
                payload = self._pending.pop(topic)
                await connected.publish(topic, payload, retain=True)
            await asyncio.sleep(TICK / 10)

    async def _flush(self) -> None:
        """Wait shortly until notices are sent."""
        with suppress(TimeoutError):
            async with asyncio.timeout(_AGAIN):
                while self._pending:
                    await asyncio.sleep(TICK / 10)

    def _repeat_all(self) -> None:
        """Send own notices again, and at the server the orders: a new broker has none of them."""
        for known in self._register.runs.values():
            if known.record.number:
                self._notify(known)
            if self._me != SERVER or known.ended:
                continue
            self._send(self._topics.submission(known.run), submission.encode_signed(known.order.signed))
            if known.stop is not None:
                self._send(self._topics.stop(known.run), known.stop)
            if known.weights is not None and known.weights.exists():
                for number, part in enumerate(board.parts_of(known.weights.read_bytes())):
                    self._send(self._topics.part(known.run, number), part)

    async def _read(self, connected: transport.MqttTransport) -> None:
        while True:
            frame = await connected.receive()
            address = self._topics.read(frame.topic)
            if address is None or not frame.payload:
                continue
            try:
                self._take(address, frame.payload)
            except ConfigError as error:
                self._tell(f"ignored a message: {error}")
            self._wake.set()

    def _take(self, address: board.Address, payload: bytes) -> None:
        """Handle one message.

        Raises:
            ConfigError: it is not valid.
        """
        source = f"{address.kind} of {address.run[:40]!r}"
        match address.kind:
            case "submission":
                self._take_submission(submission.read_submission(payload, self._history, source), address.run)
            case "stop":
                self._take_stop(payload, source)
            case "weights":
                self._take_part(address, payload)
            case "notice" if address.name != self._me:
                notice = submission.read_notice(payload, self._history, source)
                known = self._register.runs.get(notice.run)
                if known is None or notice.submission == known.order.digest:
                    notices = self._live.setdefault(notice.run, _Live()).notices
                    former = notices.get(PartyId(notice.name))
                    if former is None or former.number < notice.number:
                        notices[PartyId(notice.name)] = notice

    def _take_submission(self, order: submission.Order, run: str) -> None:
        content = order.content
        if content.run != run:
            raise ConfigError(f"submission of {run[:40]!r}", f"is of {content.run!r}", "ask the operator")
        known = self._register.runs.get(run)
        if known is not None:
            if known.order.digest != order.digest:
                raise ConfigError(f"submission of {run!r}", "is another one than before: one run has one", "")
            return
        if self._kit.role == "party" and self._me not in content.parties:
            return
        if provision.utc_now() > order.expires:
            return
        known = self._register.add(order)
        self._tell(f"{run}: submitted, {order.digest[:16]}" + (f": {content.note}" if content.note else ""))
        live = self._live.setdefault(run, _Live())
        live.notices = {name: one for name, one in live.notices.items() if one.submission == order.digest}
        for number, part in self._early.pop(run, {}).items():
            self._put_part(known, number, part)

    def _take_stop(self, payload: bytes, source: str) -> None:
        order = submission.read_stop_order(payload, self._history, source)
        known = self._register.runs.get(order.run)
        if known is None or known.ended or order.submission != known.order.digest:
            return
        if known.stop is None:
            known.keep_stop(payload)
            self._tell(f"{order.run}: the operator stops the run: {order.reason}")

    def _take_part(self, address: board.Address, payload: bytes) -> None:
        known = self._register.runs.get(address.run)
        if known is not None:
            self._put_part(known, address.number, payload)
        elif sum(len(part) for parts in self._early.values() for part in parts.values()) < _EARLY_BYTES:
            self._early.setdefault(address.run, {})[address.number] = payload

    def _put_part(self, known: register.KnownRun, number: int, part: bytes) -> None:
        if known.ended or known.weights is None or known.weights.exists():
            return
        live = self._live.setdefault(known.run, _Live())
        live.weights = live.weights or board.WeightParts(known.order.content)
        whole = live.weights.put(number, part)
        if whole is not None:
            files.write_whole(known.weights, whole, durable=True)

    # States

    async def _tick(self) -> None:
        self._read_policy()
        for known in sorted(self._register.runs.values(), key=lambda one: one.order.rank):
            if not known.ended:
                await self._advance(known)

    async def _advance(self, known: register.KnownRun) -> None:
        live = self._live.setdefault(known.run, _Live())
        code = live.process.exit_code if live.process is not None else None
        if live.verdict is None or live.judged_by != self._policy_text or live.verdict.missing:
            await self._judge(known, live)
        change = engine.next_change(self._view(known, live))
        record = known.record
        if change.action == "start":
            live.process = None
            change = await self._start(known, live, change)
        elif change.action is not None:
            self._signal(live, change.action, known)
        elif code is not None:
            live.process = None
        restarts = (
            record.restarts + 1 if code not in {None, 0, 4} and change.state == "running" else record.restarts
        )
        reason = self._progress(known, live) if change == engine.Change("running") else change.reason
        if (change.state, reason) != (record.state, record.reason):
            self._save(known, change.state, reason, restarts)

    async def _judge(self, known: register.KnownRun, live: _Live) -> None:
        if known.weights is not None and not known.weights.exists():
            there = live.weights.missing if live.weights else "waits for the first weights"
            live.verdict = evaluation.SubmissionVerdict(missing=there)
            return
        live.judged_by = self._policy_text
        live.verdict = await asyncio.to_thread(self._evaluator.evaluate, known, self._policy)

    def _view(self, known: register.KnownRun, live: _Live) -> engine.RunView:
        assert live.verdict is not None  # noqa: S101 - judged before
        process, record = live.process, known.record
        child: engine.ChildState = "none"
        if process is not None:
            child = "busy" if process.exit_code is None else process.exit_code
        running = [
            one for one in self._register.runs.values()
            if one is not known and one.record.state in {"running", "paused"}
        ]  # fmt: skip
        started = record.state in {"running", "paused"}
        return engine.RunView(
            me=self._me,
            state=record.state,
            order=known.order,
            now=provision.utc_now(),
            # A run that has begun has all it needs; its account is in use by itself.
            missing="" if started else live.verdict.missing,
            against=live.verdict.against,
            outside=self._outside(),
            asks=self._policy is not None and self._policy.decision == "ask",
            decision=known.decision(),
            stopped=self._stopped(known),
            notices=live.notices,
            needed=self._needed(known) if self._me == SERVER else (),
            free=len(running) < self._settings.parallel,
            child=child,
            restarts=record.restarts,
        )

    def _outside(self) -> str:
        if self._policy_fault:
            return self._policy_fault
        hours = self._policy.hours if self._policy is not None else None
        if hours is None or hours.includes(datetime.now().astimezone()):
            return ""
        return f"outside of the policy's hours, {hours.begin} to {hours.end}"

    def _stopped(self, known: register.KnownRun) -> str | None:
        raw = known.stop
        if raw is None:
            return None
        try:
            order = submission.read_stop_order(raw, self._history, f"stop order of {known.run}")
        except ConfigError:
            return None
        return f"stopped by the operator: {order.reason}"[:200]

    def _needed(self, known: register.KnownRun) -> tuple[PartyId, ...]:
        try:
            scenario = evaluation.load_run_scenario(known.folder / register.SCENARIO, known.order.content)
        except ConfigError:
            # The verdict is against the run.
            return ()
        return evaluation.needed_machines(known.order.content, self._history, scenario)

    async def _start(self, known: register.KnownRun, live: _Live, change: engine.Change) -> engine.Change:
        """Judge a run again, and start its process; return the change that happened."""
        loop, record = asyncio.get_running_loop(), known.record
        stays = engine.Change(record.state, record.reason)
        if loop.time() < live.start_at:
            return stays
        await self._judge(known, live)
        verdict = live.verdict or evaluation.SubmissionVerdict()
        if verdict.missing:
            return engine.Change(record.state, verdict.missing)
        if verdict.against:
            return engine.Change("refused" if record.state == "accepted" else "paused", verdict.against)
        try:
            self._kit.check(provision.utc_now())
            words = self._evaluator.words(known, self._policy)
        except ConfigError as error:
            return engine.Change(record.state, str(error)[:200])
        live.start_at = loop.time() + _AGAIN
        try:
            live.process = await RunProcess.start(known, words, self._kit.folder)
        except OSError as error:
            return engine.Change(record.state, f"its process cannot be started: {error.strerror}")
        if live.process is None:
            return engine.Change(record.state, "waits for the end of an earlier process of this run")
        task = asyncio.ensure_future(live.process.wait())
        task.add_done_callback(lambda _task: self._wake.set())
        return change

    def _signal(self, live: _Live, action: engine.Action, known: register.KnownRun) -> None:
        process, now = live.process, asyncio.get_running_loop().time()
        if process is None:
            return
        if action == "pause":
            process.send(signal.SIGUSR1 if self._kit.role == "party" else signal.SIGTERM)
            return
        decision = known.decision()
        at_once = self._me == SERVER or (decision is not None and decision.choice == "stop")
        live.end_at = live.end_at or now + (0 if at_once else _GRACE)
        if now >= live.end_at:
            process.send(signal.SIGINT)

    def _progress(self, known: register.KnownRun, live: _Live) -> str:
        """Return the server's last line, at most every few seconds; other machines' output stays there."""
        now = asyncio.get_running_loop().time()
        if self._me != SERVER or now < live.told_at + _PROGRESS:
            return known.record.reason
        live.told_at = now
        lines = register.log_tail(known.folder, 1)
        return submission.line_of(lines[0]) if lines else known.record.reason

    def _save(self, known: register.KnownRun, state: submission.State, reason: str, restarts: int) -> None:
        former = known.record
        known.save(
            register.RunRecord(
                submission=former.submission,
                state=state,
                reason=submission.line_of(reason),
                number=former.number + 1,
                restarts=restarts,
            )
        )
        if state != former.state:
            self._tell(f"{known.run}: {state}" + (f": {reason}" if reason else ""))
        self._notify(known)

    def _notify(self, known: register.KnownRun) -> None:
        record = known.record
        notice = submission.Notice(
            project=self._history.project,
            run=known.run,
            submission=record.submission,
            name=self._me,
            number=record.number,
            time=submission.utc_text(provision.utc_now()),
            state=record.state,
            reason=record.reason,
        )
        signed = submission.sign_body("securefl notice", notice, self._identity)
        self._send(self._topics.notice(known.run, self._me), submission.encode_signed(signed))
