"""Metric families of a run in the data model of Prometheus; names and labels are in docs/monitoring.md."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    InfoMetricFamily,
    Metric,
    StateSetMetricFamily,
)

from securefl.base.version import __version__
from securefl.runtime.monitoring.monitor import RunMonitor
from securefl.runtime.monitoring.rejections import CLASSES
from securefl.runtime.monitoring.state import JOINING, ProcessState

STEPS = (JOINING, "hello", "reveal", "training", "certify", "release", "consult", "evaluate", "done")
_LABELS = ("run", "process")
_States = Mapping[str, ProcessState]


class Families:
    """Collector of a run's metrics: each call of :meth:`collect` reads one copy of the state."""

    def __init__(self, monitor: RunMonitor) -> None:
        self._monitor = monitor

    def collect(self) -> Iterator[Metric]:
        """Yield all families."""
        states = self._monitor.snapshot()
        yield from self._run_families(states)
        yield from self._peer_families(states)
        yield from self._sum_families(states)
        yield from self._volume_families(states)

    def _run_families(self, states: _States) -> Iterator[Metric]:
        run, scenario = self._monitor.run, self._monitor.scenario
        info = InfoMetricFamily("securefl_run", "Version and scenario of the run.", labels=_LABELS)
        steps = StateSetMetricFamily("securefl_step", "Step of the server's round.", labels=_LABELS)
        for name, state in states.items():
            info.add_metric((run, name), {"version": __version__, "scenario": scenario.name})
            if state.leads:
                steps.add_metric((run, name), {step: step == state.step for step in STEPS})
        yield info
        yield steps
        yield self._gauge(states, "round", "Number of the latest round, from 0.", lambda one: one.round)
        yield self._gauge(
            states,
            "rounds_planned",
            "Planned rounds.",
            lambda one: scenario.stop.rounds if one.leads else None,
        )
        yield self._counter(
            states, "rounds", "Rounds that ended.", lambda one: one.rounds if one.leads else None
        )
        yield self._gauge(
            states,
            "epsilon",
            "Epsilon spent in this run: the largest at the server, its own at a party.",
            lambda one: one.epsilon,
        )
        values = GaugeMetricFamily(
            "securefl_model_metric",
            "Metrics of the latest tested model: the server's test set, or pooled metrics of sites.",
            labels=(*_LABELS, "metric"),
        )
        for name, state in states.items():
            for metric, value in state.values.items():
                values.add_metric((run, name, metric), value)
        yield values

    def _peer_families(self, states: _States) -> Iterator[Metric]:
        for name, text, value in (
            ("parties_expected", "Parties of the roster.", lambda one: one.expected),
            ("parties_joined", "Parties that have joined the run.", lambda one: one.joined),
            (
                "parties_connected",
                "Parties that the broker has not reported as gone.",
                lambda one: one.connected,
            ),
            ("waiting_for_parties", "1 while too few parties are present.", lambda one: int(one.waiting)),
        ):
            yield self._gauge(states, name, text, _of_server(value))
        yield self._gauge(states, "broker_connected", "1 if connected.", lambda one: int(one.online))
        yield self._gauge(states, "ready", "1 if /readyz answers 200.", lambda one: int(not one.unready()))
        yield self._counter(
            states, "reconnections", "Connections after a lost one.", lambda one: one.reconnections
        )
        yield self._counter(
            states, "restarts", "Starts of the run's server after its first.", lambda one: one.restarts
        )

    def _sum_families(self, states: _States) -> Iterator[Metric]:
        run = self._monitor.run
        yield self._counter(states, "sums_opened", "Opened sums.", _of_server(lambda one: one.opened))
        yield self._counter(states, "sums_lost", "Sums that did not open.", _of_server(lambda one: one.lost))
        rejected = CounterMetricFamily(
            "securefl_sums_rejected", "Opened sums outside the model.", labels=(*_LABELS, "by")
        )
        steps = HistogramMetricFamily(
            "securefl_step_seconds",
            "Time of each step of a round.",
            labels=(*_LABELS, "step"),
            unit="seconds",
        )
        rounds = HistogramMetricFamily(
            "securefl_round_seconds", "Time of a round.", labels=_LABELS, unit="seconds"
        )
        for name, state in states.items():
            if not state.leads:
                continue
            for by in ("rule", "checks"):
                rejected.add_metric((run, name, by), state.left_out[by])
            for step, found in state.seconds.items():
                steps.add_metric((run, name, step), found.buckets(), found.total)
            rounds.add_metric((run, name), state.round_seconds.buckets(), state.round_seconds.total)
        yield rejected
        yield steps
        yield rounds

    def _volume_families(self, states: _States) -> Iterator[Metric]:
        run, directions = self._monitor.run, (*_LABELS, "direction")
        frames = CounterMetricFamily("securefl_messages", "MQTT messages.", labels=directions)
        sizes = CounterMetricFamily("securefl_traffic_bytes", "Their bytes.", labels=directions, unit="bytes")
        rejections = CounterMetricFamily(
            "securefl_rejections", "Rejected messages by class.", labels=(*_LABELS, "reason")
        )
        for name, state in states.items():
            for way in ("up", "down"):
                frames.add_metric((run, name, way), state.messages[way])
                sizes.add_metric((run, name, way), state.bytes[way])
            for reason in CLASSES:
                rejections.add_metric((run, name, reason), state.rejections[reason])
        yield frames
        yield sizes
        yield rejections
        yield self._counter(
            states, "failed_trainings", "Trainings that failed.", lambda one: one.failed_trainings
        )

    def _gauge(
        self, states: _States, name: str, text: str, value: Callable[[ProcessState], float | None]
    ) -> Metric:
        return self._fill(GaugeMetricFamily(f"securefl_{name}", text, labels=_LABELS), states, value)

    def _counter(
        self, states: _States, name: str, text: str, value: Callable[[ProcessState], float | None]
    ) -> Metric:
        return self._fill(CounterMetricFamily(f"securefl_{name}", text, labels=_LABELS), states, value)

    def _fill(self, family: Any, states: _States, value: Callable[[ProcessState], float | None]) -> Metric:
        for process, state in states.items():
            number = value(state)
            if number is not None:
                family.add_metric((self._monitor.run, process), number)
        filled: Metric = family
        return filled


def _of_server(
    value: Callable[[ProcessState], float | None],
) -> Callable[[ProcessState], float | None]:
    return lambda state: value(state) if state.leads else None
