"""One run at an agent: its verdict, its process, and the notices about it."""

from __future__ import annotations

import asyncio
import math
import signal
import time
from collections.abc import Callable, Mapping
from typing import Any, Final

from securefl.base import files
from securefl.base.errors import ConfigError
from securefl.base.ids import SERVER, PartyId
from securefl.runtime import process, provision, report
from securefl.runtime.agents import board, engine, evaluation, register, submission
from securefl.runtime.agents.child_process import RunProcess
from securefl.runtime.agents.machine import AgentMachine

_GRACE: Final = 60.0
"""Seconds that a party's process has to end by itself after the operator's stop order."""
_GOODBYE: Final = 10.0
"""Seconds that it has after the end of the server's process, which may have sent no goodbye."""
_PARTS_WITHIN: Final = 60.0
"""Seconds without a part of missing first weights before the agent connects again."""
_AGAIN: Final = 5.0
"""Least seconds between two starts of a process."""
_PROGRESS: Final = 10.0
"""Seconds between two notices of a server's progress."""


class LiveRun:
    """A run of the register, with the state that an agent loses when it ends.

    Args:
        known: the run.
        machine: of the agent.
        wake: called when the process ends.
    """

    def __init__(self, known: register.KnownRun, machine: AgentMachine, wake: Callable[[], None]) -> None:
        self.known = known
        self._machine = machine
        self._wake = wake
        self.process: RunProcess | None = None
        self.notices: dict[PartyId, submission.Notice] = {}
        """Latest notices of other machines about this submission."""
        self._verdict: evaluation.SubmissionVerdict | None = None
        self._judged_by = b""
        self._weights = board.WeightParts(known.order.content)
        self._part_at = 0.0
        self._end_at: float | None = None
        self._start_at = 0.0
        self._told_at = 0.0
        self._line = ""

    def forget_verdict(self) -> None:
        """Judge the run again, as after a change of the kit."""
        self._verdict = None

    def take_notice(self, notice: submission.Notice) -> None:
        """Keep the latest notice of another machine."""
        former = self.notices.get(PartyId(notice.name))
        if notice.submission == self.known.order.digest and (former is None or former.number < notice.number):
            self.notices[PartyId(notice.name)] = notice

    def take_stop(self, payload: bytes, order: submission.StopOrder) -> bool:
        """Keep the operator's stop order; return True if it is new."""
        known = self.known
        if known.ended or known.stop is not None or order.submission != known.order.digest:
            return False
        known.keep_stop(payload)
        return True

    def take_part(self, number: int, part: bytes) -> None:
        """Keep a part of the first weights, and write them when all are there."""
        path = self.known.weights
        if self.known.ended or path is None or path.exists():
            return
        self._part_at = time.monotonic()
        whole = self._weights.put(number, part)
        if whole is not None:
            files.write_whole(path, whole, durable=True)

    def lacks_weights(self, since: float) -> bool:
        """Return True if first weights are missing, and no part has come for a minute after ``since``.

        Parts that came before their submission may have been dropped: a new connection brings them again.

        Args:
            since: start of the connection, of :func:`time.monotonic`.
        """
        path = self.known.weights
        waits = path is not None and self.known.record.state == "received" and not path.exists()
        return waits and time.monotonic() - max(since, self._part_at) > _PARTS_WITHIN

    async def advance(self, *, free: bool) -> bool:
        """Move to the next state; return True if there is a new notice to send.

        Args:
            free: False if the server leads as many other runs as it may.

        Raises:
            OSError: the record cannot be written.
        """
        known = self.known
        code = self.process.exit_code if self.process is not None else None
        if self._verdict is None or self._verdict.missing or self._judged_by != self._machine.policy_text:
            await self._judge()
        change = engine.next_change(self._view(free=free))
        if change.action == "start":
            if asyncio.get_running_loop().time() < self._start_at:
                # The ended process is kept, so that its exit counts.
                return False
            self.process = None
            change = await self._start(change)
        elif change.action is not None:
            self._signal(change.action)
        elif code is not None:
            self.process = None
        again = code not in {None, 0, 4} and change.state == "running"
        reason = change.reason
        if change.state == "running" and change.action is None:
            reason = self._progress(change.reason)
        reason, record = submission.line_of(reason), known.record
        if not again and (change.state, reason) == (record.state, record.reason):
            return False
        known.save(
            register.RunRecord(
                submission=record.submission,
                state=change.state,
                reason=reason,
                # Newer than all before, even if the folder was lost or restored.
                number=max(record.number + 1, int(provision.utc_now().timestamp())),
                restarts=record.restarts + again,
            )
        )
        if known.ended:
            known.remove_weights()
        return True

    async def _judge(self) -> None:
        weights = self.known.weights
        if weights is not None and not weights.exists():
            self._verdict = evaluation.SubmissionVerdict(missing=self._weights.missing)
            return
        machine = self._machine
        self._judged_by = machine.policy_text
        self._verdict = await asyncio.to_thread(machine.evaluator.evaluate, self.known, machine.policy)

    def _view(self, *, free: bool) -> engine.RunView:
        known, machine, started = self.known, self._machine, self.process
        verdict = self._verdict or evaluation.SubmissionVerdict()
        child: engine.ChildState = "none"
        summary: Mapping[str, Any] = {}
        if known.record.state == "running" and (started is None or started.exit_code is not None):
            summary = self._server_summary()
        if started is not None:
            child = "busy" if started.exit_code is None else started.exit_code
        elif isinstance(code := summary.get("exit_code"), int):
            # It ended while no agent watched it.
            child = code
        begun = known.record.state in {"running", "paused"}
        outside, decision, stopped = machine.reason_to_rest(), None, None
        try:
            decision, stopped = known.decision(), self._stop_reason()
        except ConfigError as error:
            # Rest until the file is mended: it may hold a refusal.
            outside = str(error)
        ended_child = machine.leads and child not in {"none", "busy"}
        return engine.RunView(
            me=machine.name,
            state=known.record.state,
            order=known.order,
            now=provision.utc_now(),
            # A run that has begun has all it needs; its account is in use by itself.
            missing="" if begun else verdict.missing,
            against=verdict.against,
            outside=outside,
            asks=machine.policy is not None and machine.policy.decision == "ask",
            decision=decision,
            stopped=stopped,
            notices=self.notices,
            needed=verdict.needed if machine.leads else (),
            free=free,
            fewest=verdict.fewest if machine.leads else 0,
            child=child,
            restarts=known.record.restarts,
            ended=str(summary.get("reason", "")) or "aborted" if summary else None,
            last_line=next(iter(register.log_tail(known.folder, 1)), "") if ended_child else "",
        )

    def _server_summary(self) -> Mapping[str, Any]:
        """Return the summary of a server's run that no process can resume; empty before its end."""
        out = report.RunDirectory(self._machine.kit.folder / provision.RUNS / self.known.run)
        unfinished = not out.summary_file.exists() or (out.path / process.CHECKPOINT).exists()
        return {} if unfinished or not self._machine.leads else out.read_summary()

    def _stop_reason(self) -> str | None:
        raw, run = self.known.stop, self.known.run
        if raw is None:
            return None
        order = submission.read_stop_order(raw, self._machine.history, f"stop order of {run}")
        return f"stopped by the operator: {order.reason}"

    async def _start(self, change: engine.Change) -> engine.Change:
        """Judge the run again, and start its process; return the change that happened."""
        loop, known, machine = asyncio.get_running_loop(), self.known, self._machine
        record = known.record
        await self._judge()
        verdict = self._verdict or evaluation.SubmissionVerdict()
        if verdict.against:
            return engine.Change("refused" if record.state == "accepted" else "paused", verdict.against)
        if verdict.missing:
            return engine.Change(record.state, verdict.missing)
        self._start_at = loop.time() + _AGAIN
        try:
            machine.kit.check(provision.utc_now())
            words = machine.evaluator.words(known, machine.policy)
            self.process = await RunProcess.start(known, words, machine.kit.folder)
        except (ConfigError, OSError) as error:
            return engine.Change(record.state, f"its process cannot be started: {error}")
        if self.process is None:
            return engine.Change(record.state, "waits for the end of an earlier process of this run")
        asyncio.ensure_future(self.process.wait()).add_done_callback(lambda _task: self._wake())
        return change

    def _signal(self, action: engine.Action) -> None:
        started, now, machine = self.process, asyncio.get_running_loop().time(), self._machine
        if started is None:
            return
        if action == "pause":
            started.send(signal.SIGUSR1 if machine.kit.role == "party" else signal.SIGTERM)
            return
        # The server's goodbye ends the parties' processes.
        decision = self.known.decision()
        at_once = machine.leads or (decision is not None and decision.choice == "stop")
        leader = self.notices.get(SERVER)
        grace = _GOODBYE if leader is not None and leader.state in submission.ENDED else _GRACE
        self._end_at = min(self._end_at or math.inf, now + (0 if at_once else grace))
        if now >= self._end_at:
            started.send(signal.SIGINT)

    def _progress(self, departed: str) -> str:
        """Return the sites that have left, and the server's last line, at most every few seconds.

        Other output stays at its machine.
        """
        now, record = asyncio.get_running_loop().time(), self.known.record
        if record.state != "running":
            return departed
        if not self._machine.leads:
            return record.reason
        if now >= self._told_at + _PROGRESS:
            self._told_at = now
            self._line = next(iter(register.log_tail(self.known.folder, 1)), record.reason)
        return "; ".join(filter(None, (departed, self._line)))
