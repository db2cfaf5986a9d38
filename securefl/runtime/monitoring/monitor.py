"""Subscriber to the news of a run's processes; scrapes read copies of its state."""

import threading
from collections.abc import Mapping

from securefl.base.errors import ConfigError
from securefl.base.ids import EVERYONE, SERVER, PartyId
from securefl.protocol.round import (
    AnyReport,
    ClustersDrawn,
    ConnectionBack,
    ConnectionLost,
    EpochFollowed,
    EpochLed,
    LateJoin,
    ModelStepped,
    NothingLearned,
    PartiesJoined,
    QuorumAwaited,
    RoundDone,
    RoundStarted,
    RunPlan,
    StepReached,
)
from securefl.runtime import report
from securefl.runtime.monitoring.rejections import rejection_class
from securefl.runtime.monitoring.state import MOST_VALUES, Durations, ProcessState
from securefl.scenario import Scenario


class RunMonitor:
    """State of the processes of one run, for metrics and readiness.

    It is changed by the thread of the run, and read by threads of the endpoint. The lock is held for a copy
    of some numbers only: a scrape never delays a round. Failed ``trainings`` may be known outside their
    parties on one machine without ``[privacy]``, or in the lab.
    """

    def __init__(self, run: str, scenario: Scenario, *, trainings: bool = True) -> None:
        self.run = run
        self.scenario = scenario
        self._trainings = trainings
        self._lock = threading.Lock()
        self._states: dict[str, ProcessState] = {}
        self._accounts: report.Accounts | None = None

    def begin(self, name: PartyId, plan: RunPlan, *, seeded: bool) -> None:
        """Let a party's own epsilon be counted; without dp_accounting it stays unknown."""
        if name not in plan.roster.parties or plan.mechanism is None:
            return
        void = report.why_none(plan.scenario.behaviours, seeded=seeded)
        try:
            self._accounts = report.Accounts(plan, plan.mechanism, void=void)
        except ConfigError:
            return

    def take(self, name: PartyId, item: object) -> None:
        """Handle one item of the process ``name``; ignore items that are not news."""
        with self._lock:
            state = self._state(name)
            match item:
                case report.PartyPresence():
                    state.online = True
                    state.joined, state.connected = item.joined, item.connected
                    state.expected = item.expected
                case report.Fact():
                    self._on_fact(name, state, item.item)
                case report.Refusal(reason=reason):
                    state.rejections[rejection_class(reason)] += 1
                case report.Traffic():
                    _count_traffic(state, item)
                case report.Waiting(whom=whom):
                    state.missing = whom
                case report.Ending():
                    state.ended, state.online = True, False

    def take_round(self, record: report.RoundRecord) -> None:
        """Handle the record of a round that ended, at the server."""
        with self._lock:
            state = self._state(SERVER)
            state.rounds += 1
            state.opened += len(record.sums)
            state.lost += len(record.lost)
            state.left_out.update(rule=len(record.rejected), checks=len(record.failed))
            for step, seconds in record.seconds.items():
                if step == "total":
                    state.round_seconds = state.round_seconds.plus(seconds)
                else:
                    state.seconds[step] = state.seconds.get(step, Durations()).plus(seconds)
            known = [spent for spent in (record.epsilon or {}).values() if spent is not None]
            state.epsilon = max(known, default=None)
            state.values = _values(record) or state.values

    def snapshot(self) -> Mapping[str, ProcessState]:
        """Return a copy of all states by process."""
        with self._lock:
            return {name: state.snapshot() for name, state in sorted(self._states.items())}

    def unready(self) -> list[str]:
        """Return the reasons why the process, or the server of a run, is not ready; empty if it is."""
        states = self.snapshot()
        leading = states.get(SERVER) or next(iter(states.values()), None)
        return ["starting"] if leading is None else leading.unready()

    def _state(self, name: str) -> ProcessState:
        known = name == SERVER or not self._trainings
        return self._states.setdefault(
            name, ProcessState(name == SERVER, failed_trainings=None if known else 0)
        )

    def _on_fact(self, name: PartyId, state: ProcessState, item: AnyReport) -> None:
        round_ = getattr(item, "round", None)
        if isinstance(round_, int) and round_ >= 0:
            state.round = round_
        match item:
            case ConnectionLost():
                state.online = False
            case ConnectionBack():
                state.online = True
                state.reconnections += 1
            case EpochLed(epoch=epoch) | EpochFollowed(epoch=epoch):
                state.restarts = max(state.restarts, epoch - 1)
            case NothingLearned() if state.failed_trainings is not None:
                state.failed_trainings += 1
            case ClustersDrawn(clusters=clusters) if name != SERVER and self._accounts is not None:
                self._accounts.count({party for members in clusters[0] for party in members})
                state.epsilon = self._accounts.epsilons().get(name)
            case _ if name == SERVER:
                _on_server(state, item)


def _on_server(state: ProcessState, item: AnyReport) -> None:
    match item:
        case PartiesJoined(present=present, missing=missing):
            state.joined, state.expected = len(present), len(present) + len(missing)
            state.waiting, state.missing = False, ()
        case LateJoin(joined=joined):
            state.joined += len(joined)
        case QuorumAwaited():
            state.waiting = True
        case RoundStarted():
            state.step, state.missing = "", ()
        case StepReached(step=step):
            state.step, state.missing = step, ()
            state.waiting = state.waiting and step == "hello"
        case ModelStepped():
            state.step = "evaluate"
        case RoundDone():
            state.step = "done"


def _count_traffic(state: ProcessState, traffic: report.Traffic) -> None:
    """Add traffic; the server's broadcasts count once for each party, as in ``summary.json``."""
    ways = ("up", traffic.received), ("down", traffic.sent)
    if not state.leads:
        ways = ("down", traffic.received), ("up", traffic.sent)
    for way, volumes in ways:
        for peer, (frames, size) in volumes.items():
            copies = (state.expected or 1) if state.leads and peer == EVERYONE else 1
            state.messages[way] += copies * frames
            state.bytes[way] += copies * size


def _values(record: report.RoundRecord) -> dict[str, float]:
    tested = {"accuracy": record.accuracy, "loss": record.loss, "backdoor_success": record.backdoor_success}
    pooled = {one.name: one.value for one in record.metrics[:MOST_VALUES]}
    return {name: value for name, value in tested.items() if value is not None} | pooled
