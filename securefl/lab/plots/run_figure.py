"""Plot of a run by round: metrics, and differences between clusters."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from securefl.base.errors import ConfigError
from securefl.base.text import count, digits
from securefl.lab.plots import canvas, style
from securefl.runtime import report
from securefl.runtime.report import list_of
from securefl.scenario import Scenario

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_ACROSS = 2
_MOST = 1e100
_PAGE = 9.2
"""Inches across the picture."""
_MARGIN = 0.62
"""Inches left of a panel, for the labels of its axis."""
_PANEL = 3.8
_PITCH = 2.4
"""Inches across a panel, and down a panel with its caption and axis."""
_CAPTION, _AXIS = 0.4, 0.5


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
    void: tuple[int, ...] = ()
    """Rounds whose step the verifiers did not confirm."""


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
    void = {number for record in records for number, reason in record.claims.items() if reason}
    return RunPlot(title=scenario.name, rounds=rounds, traces=tuple(traces), void=tuple(sorted(void)))


def _drawable(value: float) -> float:
    """Return NaN for numbers that overflow matplotlib's axes."""
    return value if abs(value) < _MOST else math.nan


def draw_run(plot: RunPlot, kind: canvas.Format = "png") -> bytes:
    """Draw a panel for each metric that changes, a line of text for each other; equal plots give equal bytes.

    Raises:
        ConfigError: matplotlib is missing.
    """
    folded = [line for trace in plot.traces if (line := _constant_sentence(trace, len(plot.rounds)))]
    drawn = [trace for trace in plot.traces if not _constant_sentence(trace, len(plot.rounds))]
    head = style.wrap_text(plot.title, _PAGE - 2 * _MARGIN, style.TITLE)
    notes = [
        style.wrap_text(note, _PAGE - 2 * _MARGIN, style.NOTE) for note in (*folded, *_legend(plot, drawn))
    ]
    top = 0.2 + 0.18 * style.lines_of([head])
    bottom = 0.15 + sum(0.16 * style.lines_of([note]) for note in notes)
    down = math.ceil(len(drawn) / _ACROSS)
    height = top + down * _PITCH + bottom
    figure = canvas.blank(_PAGE, height)
    figure.text(_MARGIN / _PAGE, 1 - 0.15 / height, head, fontsize=style.TITLE, weight="bold", va="top")
    others = [trace.label for trace in plot.traces if style.with_unit(trace.label) == trace.label]
    for at, trace in enumerate(drawn):
        row, column = divmod(at, _ACROSS)
        left = _MARGIN + column * (_PAGE - _MARGIN) / _ACROSS
        low = height - top - (row + 1) * _PITCH + _AXIS
        axes = figure.add_axes(
            (left / _PAGE, low / height, _PANEL / _PAGE, (_PITCH - _AXIS - _CAPTION) / height)
        )
        number = others.index(trace.label) if trace.label in others else 0
        _panel(axes, plot, trace, style.colour_of(trace.label, number))
    under = bottom - 0.05
    for note in notes:
        figure.text(_MARGIN / _PAGE, under / height, note, fontsize=style.NOTE, color=style.SOFT, va="top")
        under -= 0.16 * style.lines_of([note])
    return canvas.render(figure, kind)


def _panel(axes: Axes, plot: RunPlot, trace: Trace, colour: str) -> None:
    from matplotlib.ticker import MaxNLocator  # noqa: PLC0415 - an optional extra, which `blank` loads quietly

    for number in plot.void:
        axes.axvspan(number - 0.5, number + 0.5, color=style.VOID, linewidth=0, zorder=0)
    axes.plot(plot.rounds, trace.values, color=colour, linewidth=style.WIDTH, marker=".", markersize=4)
    if trace.low:
        axes.fill_between(plot.rounds, trace.low, trace.high, color=colour, alpha=style.BAND, linewidth=0)
    if trace.best is not None:
        axes.axvline(trace.best, color=style.SOFT, linestyle=":", linewidth=1.2)
    caption = style.wrap_text(style.with_unit(trace.label), _PANEL, style.PANEL)
    axes.set_title(caption, fontsize=style.PANEL, loc="left", pad=4)
    axes.set_xlabel("round")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.yaxis.set_major_locator(MaxNLocator(5))
    axes.set_xlim(min(plot.rounds) - 0.5, max(plot.rounds) + 0.5)
    style.tidy(axes)


def _constant_sentence(trace: Trace, rounds: int) -> str:
    """Return the sentence on a metric without changes, or an empty text."""
    shown = [value for value in (*trace.values, *trace.low, *trace.high) if math.isfinite(value)]
    if not shown:
        return f"{style.with_unit(trace.label)}: no finite value in {count(rounds, 'round')}"
    value = style.constant(shown)
    if value is None:
        return ""
    measured = sum(map(math.isfinite, trace.values))
    return f"{style.with_unit(trace.label)}: {digits(value)} in {count(measured, 'measured round')}"


def _legend(plot: RunPlot, drawn: Sequence[Trace]) -> Iterator[str]:
    if any(trace.low for trace in drawn):
        yield "Band: lowest to highest cluster."
    best = next((trace.best for trace in drawn if trace.best is not None), None)
    if best is not None:
        yield f"Dotted: round {best}, whose model was kept."
    if plot.void:
        numbers = list_of(map(str, plot.void), 12)
        void = f"{count(len(plot.void), 'round')} whose step was void"
        yield f"Grey: {void}, so that the model was not changed: {numbers}."
