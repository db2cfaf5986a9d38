"""Agent of one machine: it takes part in the runs that the operator submits and the site's policy allows.

Decisions are in :mod:`securefl.runtime.agents.engine`; this module connects the broker with the runs.
"""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from securefl.base import sums
from securefl.base.errors import ConfigError, RunAbortedError
from securefl.base.ids import SERVER, PartyId, is_name
from securefl.runtime import provision, transport
from securefl.runtime.agents import board, register, submission
from securefl.runtime.agents.live_run import LiveRun
from securefl.runtime.agents.machine import AgentMachine, CheckPolicy

_TICK: Final = 1.0
"""Seconds between two looks at files and hours."""
_AGAIN: Final = 5.0
"""Seconds before a lost broker is tried again, and for the last notices."""
_PATIENCE: Final = 1_800.0
"""Seconds without the broker before the agent connects anew."""


@dataclass(frozen=True, kw_only=True)
class AgentSettings:
    """Settings of an agent."""

    kit: Path
    policy: Path | None = None
    """Policy file; None for ``policy.toml`` beside the kit, which the server need not have."""
    parallel: int = 1
    """Runs that a server leads at the same time."""
    check: CheckPolicy
    """Check of the policy's options, by the command that takes them."""


class Agent:
    """Agent with the kit of one machine.

    Raises:
        ConfigError: kit, policy or register are invalid.
    """

    def __init__(self, settings: AgentSettings, tell: Callable[[str], None]) -> None:
        self._tell = tell
        self._parallel = settings.parallel
        self._machine = AgentMachine(settings.kit, settings.policy, tell, settings.check)
        self._live: dict[str, LiveRun] = {}
        self._early = board.EarlyMessages()
        self._pending: dict[str, bytes] = {}
        """Messages to send by topic."""
        self._wake = asyncio.Event()
        self._stopping = False

    def _add(self, known: register.KnownRun) -> LiveRun:
        live = self._live[known.run] = LiveRun(known, self._machine, self._wake.set)
        return live

    async def run(self) -> None:
        """Take part in runs until SIGTERM or SIGINT; then let the processes leave in good order.

        Raises:
            ConfigError: the broker refuses this machine, or another agent works in the folder.
            RunAbortedError: the register cannot be written.
        """
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            loop.add_signal_handler(number, self._stop)
        os.chdir(self._machine.kit.folder)
        with self._machine.register.lock():
            for known in self._machine.register.runs.values():
                self._add(known)
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
        """Work with one connection, until the agent is stopped, or needs another one."""
        machine = self._machine
        connected = await transport.MqttTransport.connect(
            machine.brokers(),
            f"agent-{machine.history.project}-{machine.name}",
            (machine.topics.orders, machine.topics.notice("+", "+" if machine.leads else SERVER)),
            limits=transport.MqttLimits(give_up_after=_PATIENCE),
        )
        connected.watch(lambda link: self._repeat_all() if link.up and not link.kept else None)
        self._tell(f"connected to {machine.kit.content.run.broker} as {machine.name}")
        tasks = [asyncio.create_task(work(connected)) for work in (self._read, self._write)]
        try:
            self._repeat_all()
            since = time.monotonic()
            while not self._stopping and not self._takes_new_kit() and not self._lacks_weights(since):
                for task in tasks:
                    if task.done():
                        task.result()
                await self._tick()
                await self._pause(_TICK)
            with suppress(TimeoutError):
                async with asyncio.timeout(_AGAIN):
                    while self._pending:
                        await asyncio.sleep(_TICK / 10)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await connected.close()

    def _lacks_weights(self, since: float) -> bool:
        return any(live.lacks_weights(since) for live in self._live.values())

    def _takes_new_kit(self) -> bool:
        """Load a changed kit between runs; a running process has the files of the former one."""
        if any(live.process is not None for live in self._live.values()) or not self._machine.takes_new_kit():
            return False
        for live in self._live.values():
            live.forget_verdict()
        return True

    async def _tick(self) -> None:
        machine = self._machine
        machine.read_policy()
        for live in sorted(self._live.values(), key=lambda one: one.known.order.rank):
            if live.known.ended:
                continue
            before = live.known.record.state
            if not await live.advance(free=self._is_free(live)):
                continue
            record = live.known.record
            if record.state != before:
                reason = f": {record.reason}" if record.reason else ""
                self._tell(f"{live.known.run}: {record.state}{reason}")
            self._notify(live.known)
            if record.state in submission.ENDED and machine.leads:
                self._clear_weights(live.known)

    def _is_free(self, live: LiveRun) -> bool:
        """Return True if other runs let this one start: a server leads so many, a party's key serves one."""
        others = [one for one in self._live.values() if one is not live]
        if not self._machine.leads:
            return all(one.process is None or one.process.exit_code is not None for one in others)
        busy = sums.exact_sum(one.known.record.state in {"running", "paused"} for one in others)
        return busy < self._parallel

    def _clear_weights(self, known: register.KnownRun) -> None:
        """Remove the first weights of an ended run from the broker."""
        for number in range(board.count_parts(known.order.content)):
            self._send(self._machine.topics.part(known.run, number), b"")

    def _send(self, topic: str, payload: bytes) -> None:
        self._pending[topic] = payload

    async def _write(self, connected: transport.MqttTransport) -> None:
        while True:
            while self._pending:
                topic = next(iter(self._pending))
                await connected.publish(topic, self._pending.pop(topic), retain=True)
            await asyncio.sleep(_TICK / 10)

    def _notify(self, known: register.KnownRun) -> None:
        machine, record = self._machine, known.record
        notice = submission.Notice(
            project=machine.history.project,
            run=known.run,
            submission=record.submission,
            name=machine.name,
            number=record.number,
            time=submission.utc_text(provision.utc_now()),
            state=record.state,
            reason=record.reason,
        )
        signed = submission.sign_body("securefl notice", notice, machine.identity)
        self._send(machine.topics.notice(known.run, machine.name), submission.encode_signed(signed))

    def _repeat_all(self) -> None:
        """Send own notices again, and at the server the orders: a new broker has none of them."""
        topics = self._machine.topics
        for known in (live.known for live in self._live.values()):
            if known.record.number:
                self._notify(known)
            if not self._machine.leads or known.ended:
                continue
            self._send(topics.submission(known.run), submission.encode_signed(known.order.signed))
            if known.stop is not None:
                self._send(topics.stop(known.run), known.stop)
            if known.weights is not None and known.weights.exists():
                for number, part in enumerate(board.parts_of(known.weights.read_bytes())):
                    self._send(topics.part(known.run, number), part)

    async def _read(self, connected: transport.MqttTransport) -> None:
        while True:
            frame = await connected.receive()
            address = self._machine.topics.read(frame.topic)
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
        history, live = self._machine.history, self._live.get(address.run)
        source = f"{address.kind} of {address.run[:40]!r}"
        match address.kind:
            case "submission":
                self._take_submission(submission.read_submission(payload, history, source), address.run)
            case "stop" if live is not None:
                order = submission.read_stop_order(payload, history, source)
                if order.run == address.run and live.take_stop(payload, order):
                    self._tell(f"{order.run}: the operator stops the run: {order.reason}")
            case "notice" if live is not None and address.name != self._machine.name:
                notice = submission.read_notice(payload, history, source)
                if notice.run == address.run:
                    live.take_notice(notice)
            case "weights" if live is not None:
                live.take_part(address.number, payload)
            case _:
                self._keep_early(address, payload)

    def _keep_early(self, address: board.Address, payload: bytes) -> None:
        known = not address.name or PartyId(address.name) in self._machine.history.present
        if known and address.run not in self._live and is_name(address.run):
            self._early.keep(address, payload)

    def _take_submission(self, order: submission.Order, run: str) -> None:
        content, machine = order.content, self._machine
        if content.run != run:
            raise ConfigError(
                f"submission of {run[:40]!r}", f"names the run {content.run!r}", "ask the operator"
            )
        live = self._live.get(run)
        if live is not None:
            if live.known.order.digest != order.digest:
                raise ConfigError(
                    f"submission of {run!r}",
                    "differs from the first one of this id",
                    "submit it under a new id",
                )
            return
        if machine.kit.role == "party" and machine.name not in content.parties:
            return
        if provision.utc_now() > order.expires:
            self._tell(f"{run}: ignored, as its submission expired at {content.expires} by this clock")
            return
        live = self._add(machine.register.add(order))
        self._tell(f"{run}: submitted, {order.digest[:16]}" + (f": {content.note}" if content.note else ""))
        for address, payload in self._early.take(run).items():
            self._take(address, payload)
