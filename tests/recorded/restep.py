"""Machines of a seeded run stepped again, event by event: every message must come out as it was sent.

What is needed: all entropy from a seed (``--insecure-seeded-entropy``), the frames that an observer in lab
mode kept (transcripts hold digests of messages only), and the encoded updates of lab mode, which stand in for
local training. Hints of the broker about presence come at the times of the observer's transcript. Where
nothing that came in explains what a process did next, a deadline is tried.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np

from securefl.base.arrays import I64
from securefl.base.ids import PartyId
from securefl.lab.audit.finding import Evidence
from securefl.lab.audit.truth import GroundTruth
from securefl.protocol import kernel, messages, wire
from securefl.protocol.round import HONEST, AnyReport, RunEffect, RunPlan, Seams, UpdateId
from securefl.runtime.report.evidence import entry_of
from securefl.runtime.transcript import Entry, Transcript
from tests.recorded import wiretap

_UNRECORDED = frozenset({"refused", "outcome"})
"""Entries that inboxes and shells write, not machines."""
_OF_THE_CONNECTION = frozenset({"connection_lost", "connection_back", "model_sent"})
_FROM_OUTSIDE = frozenset({"update_encoded"})
"""Reports on what came from training: ground truth stands in for it."""

_CLOCKS = 0.05
"""Seconds by which the observer may hear of a presence later than the server."""

Effects = tuple[RunEffect, ...]


class Steppable(Protocol):
    """A party's or the server's machine."""

    def start(self, now: float) -> tuple[Any, Effects]:
        """As :class:`securefl.protocol.kernel.machine.Machine`."""
        ...

    def step(self, phase: Any, event: kernel.Event[messages.AnyMessage]) -> tuple[Any, Effects]:
        """As :class:`securefl.protocol.kernel.machine.Machine`."""
        ...


@dataclass(frozen=True, slots=True)
class Restepped:
    """The outcome of re-stepping one process: how far it could be followed."""

    vantage: PartyId
    agreed: int
    """Messages and reports that came out as recorded."""
    differing: Evidence | None = None
    """The first that did not."""
    stopped: str = ""
    """Why it could not be followed to its end; empty if it was, or if it differs."""


def truth_seams(truth: GroundTruth, party: PartyId) -> Seams:
    """Seams that return what a party encoded, instead of what would follow from its training."""

    def encoded(values: I64, occasion: UpdateId) -> I64:
        known = truth.upload(party, occasion.round, occasion.work)
        return values if known is None else known

    return replace(HONEST, encoded=encoded)


class Restepper:
    """One machine, its transcript and the messages that it took."""

    def __init__(
        self,
        vantage: PartyId,
        machine: Steppable,
        plan: RunPlan,
        tap: wiretap.Wiretap,
        hints: Sequence[kernel.PresenceHint] = (),
        groups: Mapping[int, int | None] | None = None,
    ) -> None:
        self._vantage = vantage
        self._hints = deque(hints)
        self._groups = groups or {}
        self._machine = machine
        self._plan = plan
        self._tap = tap
        self._made: deque[kernel.Send[messages.AnyMessage] | kernel.Report[AnyReport]] = deque()
        self._asked: deque[kernel.Train | kernel.Evaluate | kernel.Choose] = deque()
        self._wake: float | None = None
        self._phase: Any = None

    def run(self, transcript: Transcript) -> Restepped:
        """Follow the transcript from its first entry."""
        taken = self._tap.taken_by(self._vantage)
        agreed, source = 0, self._vantage
        entries = [entry for entry in transcript.entries if entry.kind not in _UNRECORDED]
        if not entries:
            return Restepped(source, 0, stopped="its transcript is empty")
        self._phase, effects = self._machine.start(entries[0].time or 0.0)
        self._take(effects)
        for entry in entries:
            if entry.kind == "received":
                if not self._receive(entry, taken):
                    return Restepped(source, agreed, stopped=f"entry {entry.n}: no frame holds that message")
                continue
            if not self._made and not self._supply(entry):
                reason = f"entry {entry.n}: nothing recorded explains it"
                return Restepped(source, agreed, stopped=reason)
            made = self._made.popleft() if self._made else None
            if made is None or not self._agrees(entry, made):
                what = "nothing" if made is None else _name(made)
                said = f"recorded {_said(entry)}, stepped again {what}"
                return Restepped(source, agreed, differing=Evidence(source, entry.n, said))
            agreed += 1
        return Restepped(source, agreed)

    def _receive(self, entry: Entry, taken: Mapping[wiretap.MessageKey, list[wire.Delivery]]) -> bool:
        alike = taken.get(wiretap.key_of(entry, str(entry.fields["from"])), [])
        if not alike:
            return False
        one = alike.pop(0)
        self._hint(entry.time or 0.0)
        self._step(one.event(entry.time or 0.0))
        return True

    def _supply(self, entry: Entry) -> bool:
        """Deliver what may have come before ``entry`` without a message; False if nothing may."""
        now, fields, asked_before = entry.time or 0.0, entry.fields, len(self._asked)
        self._hint(now + _CLOCKS)
        if self._made:
            return True
        match self._asked[0] if self._asked else None:
            case _ if entry.kind in _OF_THE_CONNECTION:
                self._connected(entry.kind, now, fields)
            case kernel.Train() as asked:
                update = np.zeros(self._plan.length)
                self._step(kernel.Trained(now, asked.round, asked.work, update))
            case kernel.Choose() as asked if asked.round in self._groups:
                self._step(kernel.Chosen(now, asked.round, self._groups[asked.round]))
            case kernel.Evaluate() as asked if entry.kind == "round_done":
                told: Any = fields
                loss = float("inf") if told["loss"] is None else told["loss"]
                self._step(
                    kernel.Evaluated(now, asked.round, told["accuracy"], loss, told["backdoor_success"])
                )
            case _ if self._wake is not None and self._wake <= now:
                self._wake = None
                self._step(kernel.DeadlinePassed(now))
            case _:
                return False
        # An update may be held back until a deadline: its training alone makes nothing.
        return bool(self._made) or (len(self._asked) < asked_before and self._supply(entry))

    def _connected(self, kind: str, now: float, fields: Any) -> None:
        """Deliver what the shell told the machine of its connection, which the machine reported."""
        match kind:
            case "connection_lost":
                self._step(kernel.Offline(now))
            case "connection_back":
                self._step(kernel.Online(now, fields["connection"], fields["kept"]))
            case _:
                self._step(kernel.AllSent(now, fields["round"], fields["draw"]))

    def _hint(self, until: float) -> None:
        while self._hints and self._hints[0].now <= until:
            self._step(self._hints.popleft())

    def _step(self, event: kernel.Event[messages.AnyMessage]) -> None:
        if isinstance(event, kernel.Trained | kernel.Evaluated | kernel.Chosen):
            self._asked.popleft()
        self._phase, effects = self._machine.step(self._phase, event)
        self._take(effects)

    def _take(self, effects: Effects) -> None:
        for effect in effects:
            match effect:
                case kernel.Send() | kernel.Report():
                    self._made.append(effect)
                case kernel.Train() | kernel.Evaluate() | kernel.Choose():
                    self._asked.append(effect)
                case kernel.WakeAt():
                    self._wake = effect.when
                case _:
                    pass

    def _agrees(
        self, entry: Entry, made: kernel.Send[messages.AnyMessage] | kernel.Report[AnyReport]
    ) -> bool:
        if isinstance(made, kernel.Send):
            if entry.kind != "sent":
                return False
            return self._tap.key(made.to, made.place, made.message) == wiretap.key_of(
                entry, str(entry.fields["to"])
            )
        # Sampled as the record is: former versions took the coordinates of a sum's whole length.
        opened: Any = entry.fields.get("opened", {})
        head = opened.get("ring", {}).get("head") if isinstance(opened, dict) else None
        kind, fields = entry_of(made.item, str(self._plan.run), length=head)
        if kind != entry.kind:
            return False
        recorded = {name: value for name, value in entry.fields.items() if name != "time"}
        return kind in _FROM_OUTSIDE or dict(fields) == recorded


def _name(made: kernel.Send[messages.AnyMessage] | kernel.Report[AnyReport]) -> str:
    return type(made.message if isinstance(made, kernel.Send) else made.item).__name__


def _said(entry: Entry) -> str:
    return str(entry.fields.get("message", entry.kind))
