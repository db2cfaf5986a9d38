"""Witness of a process: transcript and news."""

import hashlib
import logging
import time
from collections import Counter
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Final, Literal

import numpy as np

from securefl.base import logs
from securefl.base.ids import SERVER
from securefl.methods import attacks, encoding
from securefl.protocol import kernel, messages, wire
from securefl.protocol.round import (
    AnyReport,
    Charge,
    ClustersDrawn,
    NoFaultError,
    RoundDone,
    RoundStarted,
    RunPlan,
    TriplesDealt,
    judge,
    parse_evidence,
    strip_late_prefix,
)
from securefl.runtime import process, transcript
from securefl.runtime.report.evidence import entry_of, keep_evidence
from securefl.runtime.report.first import file_digest, versions
from securefl.runtime.report.kept_messages import FrameKeeper
from securefl.runtime.report.text import list_of, printable

_LOG = logs.log_of("runtime.report")
MOST_OF_ONE: Final = 32
"""Maximum lines per round about one culprit."""
MOST: Final = 512
"""Maximum lines per round; the end counts further ones by culprit."""
MOST_EVIDENCE: Final = 4
"""Maximum evidence files of one kind against one process: no culprit fills the disk."""
_CULPRITS: Final = 256
"""Culprits counted separately: senders may use any name."""
_OTHERS: Final = "others"


class RefusalLines:
    """Bounded list of a round's rejections; further ones are counted."""

    def __init__(self) -> None:
        self._written: Counter[str] = Counter()
        self._counted: dict[str, tuple[str, int]] = {}

    def take(self, culprit: str, reason: str) -> bool:
        """Return True if the rejection is to be written; otherwise count it."""
        if self._written.total() < MOST and self._written[culprit] < MOST_OF_ONE:
            self._written[culprit] += 1
            return True
        known = culprit in self._counted or len(self._counted) < _CULPRITS
        name = culprit if known else _OTHERS
        _, times = self._counted.get(name, ("", 0))
        self._counted[name] = reason, times + 1
        return False

    def settle(self) -> list[tuple[str, str, int]]:
        """End the round; return culprit, last reason and number of counted rejections."""
        counted = [(culprit, reason, times) for culprit, (reason, times) in self._counted.items()]
        self._written.clear()
        self._counted.clear()
        return counted


@dataclass(frozen=True, slots=True)
class Fact:
    """Report of the process's machine."""

    now: float
    item: AnyReport


@dataclass(frozen=True, slots=True)
class Refusal:
    """Rejection of an action of ``culprit``."""

    now: float
    culprit: str
    reason: str


@dataclass(frozen=True, slots=True)
class Traffic:
    """Received and sent frames and bytes since the last one, by peer (``*`` is all)."""

    received: dict[str, tuple[int, int]] = field(default_factory=dict)
    sent: dict[str, tuple[int, int]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Ending:
    """End of a process's run."""

    outcome: kernel.Finished | kernel.Aborted


@dataclass(frozen=True, slots=True)
class Remark:
    """Sentence for people."""

    text: str

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True, slots=True)
class Waiting:
    """Notice that the process waits for others."""

    whom: tuple[str, ...]
    since: datetime
    asked: int = 0
    """Parties that this step waits for, those that have answered included; 0 if unknown."""

    def __str__(self) -> str:
        answered = f"{self.asked - len(self.whom)} of {self.asked} parties answered, " if self.asked else ""
        return f"{answered}waits for {list_of(self.whom)} since {self.since:%H:%M:%S}"


@dataclass(frozen=True, slots=True)
class PartyPresence:
    """Parties that the server knows of; other processes send it once, when connected to the broker."""

    joined: int
    connected: int
    """Parties that the broker has not reported as gone since their last message."""
    expected: int


News = Fact | Refusal | Traffic | Ending | Remark | Waiting | PartyPresence


class ProcessWitness:
    """Writer of one process's transcript and news (:class:`securefl.runtime.process.Witness`).

    ``tell`` receives the news; ``ring_bits`` are those of masked vectors. The transcript's header states the
    digests of the ``plan``'s model for an audit elsewhere, and its roster's names unless a launcher gave
    them.
    """

    def __init__(
        self,
        settings: process.ProcessSettings,
        tell: Callable[[News], None],
        ring_bits: int,
        plan: RunPlan | None = None,
    ) -> None:
        self._run = settings.run
        self._name = settings.name
        # Of an update, which metric words may follow in masked inputs and sums.
        self._length = None if plan is None else plan.length
        self._tell = tell
        self._ring_bits = ring_bits
        self._out = settings.out
        self._evidence: Counter[tuple[str, type]] = Counter()
        self._proven: set[tuple[str, type]] = set()
        self._plan = plan
        folder = settings.out / "transcripts"
        folder.mkdir(parents=True, exist_ok=True)
        self._lab = transcript.LabStore(settings.out / "lab") if settings.lab else None
        verified = settings.scenario.secure_sum.verified
        self._keeper = FrameKeeper(folder, lab=settings.lab) if verified else None
        stated = {} if plan is None else _stated_digests(plan)
        if self._keeper is not None:
            stated["roster"] = self._keeper.keep(settings.roster_file.read_bytes())
        self._writer = transcript.TranscriptWriter(
            _free_path(folder, settings.name),
            {
                "run": settings.run,
                "vantage": settings.name,
                "scenario": settings.scenario.name,
                "entropy": "operating system" if settings.insecure_seed is None else "INSECURE, seeded",
                "lab": settings.lab,
                "seed": settings.seed,
                **stated,
            },
            settings.transcript_bytes,
        )
        self._round = -1
        self._parties = frozenset[str]() if plan is None else frozenset(plan.roster.parties)
        self._joined: set[str] = set()
        self._connected: set[str] = set()
        self._traffic = Traffic()
        self._refusals = RefusalLines()
        self._idle = RefusalLines()
        if plan is not None:
            self._pass_presence_on()

    def report(self, now: float, item: AnyReport) -> None:
        """Record a report and pass it on; traffic follows each round."""
        if isinstance(item, RoundStarted | TriplesDealt):
            self._begin_round(item.round)
        kind, fields = entry_of(item, self._run, self._lab, self._length)
        level = logging.INFO if isinstance(item, RoundStarted | RoundDone) else logging.DEBUG
        _LOG.log(level, "%s: %s, round %s", self._name, kind, getattr(item, "round", "-"))
        if (line := item.line() if self._name == SERVER else item.own_line()) is not None:
            _LOG.info("%s: %s", self._name, printable(line, 400))
        self._writer.append(kind, {"time": now, **fields})
        # Few and important: flush in case the process is killed.
        self._writer.flush()
        if isinstance(item, RoundDone):
            self._pass_traffic_on()
        if isinstance(item, ClustersDrawn | RoundDone):
            self._settle_refusals(now)
        self._tell(Fact(now, item))

    def record_refusal(self, now: float, culprit: str, reason: str, evidence: bytes = b"") -> None:
        """Record a rejection with its evidence, and pass it on."""
        kept = self._keep(culprit, evidence) if evidence else {}
        self._log_refusal(culprit, reason, proven=bool(kept))
        if kept or self._refusals.take(culprit, reason):
            self._writer.append("refused", {"time": now, "culprit": culprit, "reason": reason, **kept})
        if kept:
            self._writer.flush()
            self.remark(f"evidence against {printable(culprit, 32)}: {reason}")
        self._tell(Refusal(now, culprit, reason))

    def _log_refusal(self, culprit: str, reason: str, *, proven: bool) -> None:
        """Log a rejection. A late message, as after a restart, is ordinary and accuses no peer."""
        late = strip_late_prefix(reason)
        if late is not None:
            text = "%s ignores a late message of %s: %s"
            _LOG.debug(text, self._name, printable(culprit, 32), printable(late, 200))
            return
        level = logging.WARNING if proven else logging.INFO
        text = "%s rejects a message of %s: %s"
        _LOG.log(level, text, self._name, printable(culprit, 32), printable(reason, 200))

    def _keep(self, culprit: str, evidence: bytes) -> dict[str, transcript.JsonValue]:
        charge = parse_evidence(evidence)
        kind = culprit, type(getattr(charge, "contents", charge))
        self._evidence[kind] += 1
        if self._evidence[kind] > MOST_EVIDENCE and not self._is_first_proof(kind, charge):
            return {}
        return {"evidence": keep_evidence(self._out, evidence).name}

    def _is_first_proof(self, kind: tuple[str, type], charge: Charge) -> bool:
        """Return True for the first charge beyond the bound that proves a fault of its kind.

        Charges that prove nothing must not exclude the proof.
        """
        if self._plan is None or kind in self._proven:
            return False
        try:
            judge(charge, self._plan)
        except NoFaultError:
            return False
        self._proven.add(kind)
        return True

    def record_received(self, now: float, delivery: wire.Delivery, *, idle: bool = False) -> None:
        """Record a received message; idle ones within the bounds of rejections."""
        self._note_presence(delivery.sender, joined=not idle)
        if idle and not self._idle.take(delivery.sender, ""):
            return
        if isinstance(delivery.message, messages.ModelAnnounce) and not idle:
            self._begin_round(delivery.place.round)
        entry = self._entry(now, delivery.place, delivery.message)
        kept = {} if self._keeper is None else self._keeper.fields_of(delivery)
        self._writer.append("received", {"from": delivery.sender, **entry, **kept})

    def record_sent(self, now: float, send: kernel.Send[messages.AnyMessage]) -> None:
        """Record a sent message."""
        entry = self._entry(now, send.place, send.message)
        if isinstance(send.message, messages.ModelAnnounce):
            # Public, and the start of a round's replay; parties record its hash.
            params = np.frombuffer(send.message.params, dtype="<f4")
            entry["params"] = transcript.vector_record(params, self._run, self._lab)
        self._writer.append("sent", {"to": send.to, **entry})

    def record_gone(self, party: str) -> None:
        """Pass on that the broker reports a party as gone, which the transcript omits."""
        if party in self._connected:
            self._connected.remove(party)
            self._pass_presence_on()

    def waits(self, whom: Collection[str], seconds: float, asked: int = 0) -> None:
        """Pass on a wait for peers."""
        now = datetime.now().astimezone()
        waiting = Waiting(tuple(whom), now - timedelta(seconds=seconds), asked)
        _LOG.info("%s: %s", self._name, printable(str(waiting), 400))
        self._tell(waiting)

    def remark(self, text: str) -> None:
        """Pass on a sentence for the operator; transcripts omit it."""
        _LOG.info("%s: %s", self._name, printable(text, 400))
        self._tell(Remark(printable(text)))

    def traffic(self, peer: str, direction: Literal["in", "out"], size: int) -> None:
        """Count a frame."""
        table = self._traffic.received if direction == "in" else self._traffic.sent
        frames, total = table.get(peer, (0, 0))
        table[peer] = (frames + 1, total + size)

    def close(self, outcome: kernel.Finished | kernel.Aborted) -> None:
        """End the transcript with the run's outcome."""
        self._settle_refusals(time.monotonic())
        self._writer.append(
            "outcome", {"aborted": isinstance(outcome, kernel.Aborted), "reason": outcome.reason}
        )
        self._writer.close()
        self._pass_traffic_on()
        _LOG.info("%s: ended: %s", self._name, printable(outcome.reason, 400))
        self._tell(Ending(outcome))

    def _begin_round(self, round_: int) -> None:
        if round_ > self._round:
            self._round = round_
            logs.bind_round(round_)
            if self._writer.begin_round(round_) and self._keeper is not None:
                self._keeper.forget(self._writer.path)
            if self._name != SERVER:
                self._pass_traffic_on()

    def _settle_refusals(self, now: float) -> None:
        self._idle.settle()
        for culprit, reason, times in self._refusals.settle():
            fields: dict[str, transcript.JsonValue] = {
                "time": now,
                "culprit": culprit,
                "reason": reason,
                "times": times,
            }
            self._writer.append("refused", fields)

    def _note_presence(self, sender: str, *, joined: bool) -> None:
        if self._name != SERVER or sender not in self._parties:
            return
        if sender not in self._connected or (joined and sender not in self._joined):
            self._connected.add(sender)
            if joined:
                self._joined.add(sender)
            self._pass_presence_on()

    def _pass_presence_on(self) -> None:
        self._tell(PartyPresence(len(self._joined), len(self._connected), len(self._parties)))

    def _pass_traffic_on(self) -> None:
        self._tell(self._traffic)
        self._traffic = Traffic()

    def _entry(
        self, now: float, place: kernel.Place, message: messages.AnyMessage
    ) -> dict[str, transcript.JsonValue]:
        entry: dict[str, transcript.JsonValue] = {
            "time": now,
            "message": type(message).__name__,
            "place": list(place),
        }
        if isinstance(message, messages.MaskedInput):
            # Masked, hence uniform without the keys. Samples serve the mask audits.
            vector = np.frombuffer(message.vector, dtype=encoding.ring_dtype(self._ring_bits))
            entry["vector"] = transcript.vector_record(vector, self._run, self._lab, self._length)
        else:
            # Distinguishes messages of one kind and place with different contents.
            entry["sha256"] = hashlib.sha256(wire.encode(message)).hexdigest()
        return entry


def _stated_digests(plan: RunPlan) -> dict[str, transcript.JsonValue]:
    stated: dict[str, transcript.JsonValue] = {"frozen": plan.frozen.hex(), "versions": dict(versions())}
    if ends := plan.state.flat():
        stated["averaged"] = [*ends]
    if set(plan.roster.parties) != set(attacks.party_names(plan.scenario.parties)):
        stated["parties"] = sorted(plan.roster.parties)
    first = plan.scenario.model.first_file
    if first and (digest := file_digest(Path(first))):
        stated["model_file"] = digest
    return stated


def _free_path(folder: Path, name: str) -> Path:
    """Return an unused path: a restart never overwrites a transcript."""
    path, number = folder / f"{name}.jsonl", 1
    while transcript.is_taken(path):
        number += 1
        path = folder / f"{name}.{number}.jsonl"
    return path
