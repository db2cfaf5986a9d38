"""Plot of a run by round: metrics, and differences between clusters."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from securefl.base.errors import ConfigError
from securefl.lab.plots import canvas
from securefl.runtime import report
from securefl.scenario import Scenario

_ACROSS = 2
_MOST = 1e100
_WIDTH, _HEIGHT = 4.6, 2.5


@dataclass(frozen=True, slots=True)
class Trace:
    """Metric by round; NaN for a round without it."""

    label: str
    values: tuple[float, ...]
    low: tuple[float, ...] = ()
    """Least of a cluster by round; empty if unknown."""
    high: tuple[float, ...] = ()
    best: int | None = None
    """Round whose model was kept."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunPlot:
    """Content of a picture: a panel for each trace."""

    title: str
    rounds: tuple[int, ...]
    traces: tuple[Trace, ...]


def run_plot(
    scenario: Scenario, records: Sequence[report.RoundRecord], wanted: Sequence[str] = ()
) -> RunPlot:
    """Return accuracy, loss and the sites' metrics of a run, or the ``wanted`` ones only.

    Raises:
        ConfigError: none were measured, or not the wanted ones.
    """
    columns: dict[str, dict[int, tuple[float, float, float]]] = {}
    for record in records:
        for name, value in (("accuracy", record.accuracy), ("loss", record.loss)):
            if value is not None:
                columns.setdefault(name, {})[record.round] = (value, value, value)
        for one in record.metrics:
            columns.setdefault(one.name, {})[record.round] = (one.value, one.low, one.high)
    missing = [name for name in wanted if name not in columns]
    if missing or not columns:
        there = (
            f"choose one of {', '.join(columns)}"
            if columns
            else "use a run with a test set, or with [evaluation]"
        )
        raise ConfigError(
            "--metric" if missing else "run",
            f"the run did not measure {', '.join(missing)}" if missing else "has no numbers to draw",
            there,
        )
    best = report.best_evaluated(records, scenario)
    rounds = tuple(record.round for record in records)
    nothing = (math.nan,) * 3
    traces = []
    for name in dict.fromkeys(wanted or columns):
        by_round = columns[name]
        found = (by_round.get(number, nothing) for number in rounds)
        values, low, high = zip(*(tuple(map(_drawable, one)) for one in found), strict=True)
        at = best.round if best is not None and name == scenario.stop.metric else None
        spread = (low, high) if low != high else ((), ())
        traces.append(Trace(name, values, *spread, at))
    return RunPlot(title=scenario.name, rounds=rounds, traces=tuple(traces))


def _drawable(value: float) -> float:
    """Return NaN for numbers that overflow matplotlib's axes."""
    return value if abs(value) < _MOST else math.nan


def draw_run(plot: RunPlot, kind: canvas.Format = "png") -> bytes:
    """Draw the panels of a run; equal plots give equal bytes.

    Raises:
        ConfigError: matplotlib is missing.
    """
    down = max(1, math.ceil(len(plot.traces) / _ACROSS))
    figure = canvas.blank(_ACROSS * _WIDTH, down * _HEIGHT + 0.5)
    from matplotlib.ticker import MaxNLocator  # noqa: PLC0415 - an optional extra, which `blank` loads quietly

    figure.suptitle(plot.title, fontsize=10, fontweight="bold")
    for at, trace in enumerate(plot.traces):
        axes = figure.add_subplot(down, _ACROSS, at + 1)
        colour = canvas.COLOURS[at % len(canvas.COLOURS)]
        axes.plot(plot.rounds, trace.values, color=colour, linewidth=1.6, marker=".", markersize=4)
        if trace.low:
            axes.fill_between(plot.rounds, trace.low, trace.high, color=colour, alpha=0.18, linewidth=0)
        if trace.best is not None:
            axes.axvline(trace.best, color="#777777", linestyle=":", linewidth=1.2)
        axes.set_title(trace.label, fontsize=9, loc="left")
        axes.set_xlabel("round", fontsize=8)
        axes.tick_params(labelsize=8)
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        axes.grid(visible=True, color="#DDDDDD", linewidth=0.6)
        axes.set_axisbelow(True)
    figure.tight_layout()
    return canvas.render(figure, kind)
