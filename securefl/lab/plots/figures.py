"""Plots of accuracies by round, over an axis or as a table, and of labels by party."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import stdev
from textwrap import wrap
from typing import TYPE_CHECKING, Final

from securefl.lab.plots.canvas import COLOURS, Format, blank, render

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_BASELINES: Final = (("#222222", "--"), ("#777777", ":"), ("#AAAAAA", "-."), ("#555555", (0, (5, 1))))
_BINS: Final = 24
_WIDTH: Final = 130
_TITLE_WIDTH: Final = 90
_LEFT: Final = 0.09
_ACROSS: Final = 5
_LEAST_SPAN: Final = 0.05
_LEGEND: Final = 30
_SETTLED: Final = 1 / 3
"""Share of the rounds that may lie below the axis."""


@dataclass(frozen=True, slots=True)
class Line:
    """Curve: numbers by seed and round. A seed may end early."""

    label: str
    accuracies: tuple[tuple[float, ...], ...]
    baseline: bool = False
    """True for a grey, dashed line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Titled:
    """Title, notes and warning of a plot."""

    title: str
    notes: tuple[str, ...] = ()
    warning: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plot(Titled):
    """Content of a plot. With several seeds a curve is the mean, in a band of the standard deviation."""

    rounds: int
    lines: tuple[Line, ...]
    value_name: str = "test accuracy"


@dataclass(frozen=True, slots=True, kw_only=True)
class HeatMap(Titled):
    """Table of final accuracies in colours."""

    row_name: str
    column_name: str
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    values: tuple[tuple[float | None, ...], ...]
    """In [0, 1]."""
    texts: tuple[tuple[str, ...], ...]


@dataclass(frozen=True, slots=True)
class Series:
    """Line of a :class:`SweepPlot`: accuracies in [0, 1] by column and seed, or empty."""

    label: str
    values: tuple[tuple[float, ...], ...]
    baseline: bool = False
    """True for a grey, dashed line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepPlot(Titled):
    """Final accuracies (or ``value_name``) over the choices of one axis.

    Bars are the sample standard deviation over seeds, up and down.
    """

    column_name: str
    columns: tuple[str, ...]
    lines: tuple[Series, ...]
    value_name: str = "test accuracy"
    logarithmic: bool = False
    """For positive values."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Histograms(Titled):
    """Class frequencies, in one small plot per party."""

    names: tuple[str, ...]
    shares: tuple[tuple[float, ...], ...]
    """By party and class, in [0, 1]."""
    overall: tuple[float, ...]
    """By class, of all parties together."""


def draw(plot: Plot, kind: Format = "png") -> bytes:
    """Draw curves by round; equal plots give equal bytes.

    Raises:
        ConfigError: matplotlib is missing.
    """
    figure, axes = _canvas(plot, 3.5, _LEFT, 0.62)
    colours, baselines = iter(COLOURS * 3), iter(_BASELINES * 3)
    for line in plot.lines:
        colour, dashes = next(baselines) if line.baseline else (next(colours), "-")
        rounds, low, mean, high = _band(line.accuracies)
        axes.plot(rounds, mean, color=colour, linestyle=dashes, linewidth=1.6, label=line.label)
        if len(line.accuracies) > 1:
            axes.fill_between(rounds, low, high, color=colour, alpha=0.18, linewidth=0)
    axes.set_xlim(1, max(2, plot.rounds))
    axes.set_ylim(*_heights(plot))
    axes.set_xlabel("round")
    axes.set_ylabel(plot.value_name)
    _grid(axes)
    axes.legend(loc="upper left", bbox_to_anchor=(1.01, 1.0), frameon=False, fontsize=8.5)
    return render(figure, kind)


def draw_heat_map(table: HeatMap, kind: Format = "png") -> bytes:
    """Draw a heat map; equal tables give equal bytes.

    Raises:
        ConfigError: matplotlib is missing.
    """
    left = min(0.4, 0.05 + 0.011 * max(map(len, table.rows)))
    figure, axes = _canvas(table, max(1.5, 0.36 * len(table.rows)), left, 0.95 - left)
    known = [value for row in table.values for value in row if value is not None]
    low, high = min(known, default=0.0), max(known, default=1.0)
    high = max(high, low + 0.01)
    shown = [[float("nan") if value is None else value for value in row] for row in table.values]
    axes.imshow(shown, cmap="cividis", vmin=low, vmax=high, aspect="auto")
    axes.set_facecolor("#DDDDDD")
    for row, texts in enumerate(table.texts):
        for column, text in enumerate(texts):
            value = table.values[row][column]
            dark = value is not None and value < (low + high) / 2
            colour = "white" if dark else "black"
            axes.text(column, row, text, ha="center", va="center", fontsize=8, color=colour)
    axes.set_xticks(range(len(table.columns)), table.columns, fontsize=8)
    axes.set_yticks(range(len(table.rows)), table.rows, fontsize=8)
    axes.set_xlabel(table.column_name)
    axes.set_ylabel(table.row_name)
    axes.tick_params(length=0)
    return render(figure, kind)


def draw_sweep(sweep: SweepPlot, kind: Format = "png") -> bytes:
    """Draw lines over an axis; equal sweeps give equal bytes.

    Raises:
        ConfigError: matplotlib is missing.
    """
    longest = max((len(line.label) for line in sweep.lines), default=0)
    figure, axes = _canvas(sweep, 3.5, _LEFT, 0.62 if longest <= _LEGEND else 0.5)
    colours, baselines = iter(COLOURS * 3), iter(_BASELINES * 3)
    for line in sweep.lines:
        colour, dashes = next(baselines) if line.baseline else (next(colours), "-")
        known = [(at, values) for at, values in enumerate(line.values) if values]
        columns = [at for at, _ in known]
        means = [math.fsum(values) / len(values) for _, values in known]
        spreads = [stdev(values) if len(values) > 1 else 0.0 for _, values in known]
        axes.plot(columns, means, color=colour, linestyle=dashes, marker="o", markersize=4, label=line.label)
        axes.errorbar(columns, means, spreads, color=colour, alpha=0.5, linestyle="none")
    axes.set_xticks(range(len(sweep.columns)), sweep.columns)
    axes.set_xlim(-0.3, len(sweep.columns) - 0.7)
    if sweep.logarithmic:
        axes.set_yscale("log")
        axes.yaxis.set_major_formatter("{x:g}")
    else:
        low, high = axes.get_ylim()
        # Smaller differences are hardly more than chance.
        room = max(0.0, _LEAST_SPAN - (high - low)) / 2
        axes.set_ylim(low - room, high + room)
    axes.set_xlabel(sweep.column_name)
    axes.set_ylabel(sweep.value_name)
    _grid(axes)
    axes.legend(loc="upper left", bbox_to_anchor=(1.01, 1.0), frameon=False, fontsize=8.5)
    return render(figure, kind)


def draw_histograms(table: Histograms, kind: Format = "png") -> bytes:
    """Draw class frequencies by party; equal tables give equal bytes.

    Raises:
        ConfigError: matplotlib is missing.
    """
    rows = -(-len(table.names) // _ACROSS)
    figure, frame = _canvas(table, max(1.2, 0.95 * rows), _LEFT, 0.96 - _LEFT)
    frame.axis("off")
    classes = len(table.overall)
    edges = [index - 0.5 for index in range(classes + 1)]
    top = 1.05 * max(max(share) for share in (*table.shares, table.overall))
    for index, (name, shares) in enumerate(zip(table.names, table.shares, strict=True)):
        row, column = divmod(index, _ACROSS)
        place = (column / _ACROSS, 1 - (row + 0.9) / rows, 0.86 / _ACROSS, 0.62 / rows)
        axes = frame.inset_axes(place)
        axes.stairs(shares, edges, fill=True, color=COLOURS[0])
        axes.stairs(table.overall, edges, color=COLOURS[1], linewidth=0.9)
        axes.set_xlim(edges[0], edges[-1])
        axes.set_ylim(0, top)
        axes.set_title(name, fontsize=7, pad=2)
        axes.tick_params(labelsize=6, length=2, pad=1, labelleft=column == 0)
        axes.set_xticks(range(0, classes, -(-classes // 10)))
        axes.set_yticks([0, round(top / 2, 2)])
    return render(figure, kind)


def draw_caps(
    title: str,
    notes: Sequence[str],
    curves: Mapping[str, Sequence[tuple[float, float]]],
    chosen: tuple[float, float] | None = None,
    *,
    kind: Format = "png",
) -> bytes:
    """Draw U over alpha (Portnoy et al. 2022, Figure 1); equal input gives equal bytes.

    Args:
        title: of the picture.
        notes: lines under it.
        curves: by label, one or more pairs (alpha, U > 0).
        chosen: alpha and its U, for a vertical line.
        kind: of the file.

    Raises:
        ConfigError: matplotlib is missing.
    """
    figure, axes = _canvas(Titled(title=title, notes=tuple(notes)), 3.5, _LEFT, 0.95 - _LEFT)
    _grid(axes)
    for index, (label, points) in enumerate(curves.items()):
        alphas, caps = zip(*points, strict=True)
        axes.plot(alphas, caps, ".-", color=COLOURS[index % len(COLOURS)], label=label, markersize=4)
    if chosen is not None:
        alpha, cap = chosen
        axes.axvline(
            alpha,
            color="#444444",
            linewidth=1.0,
            linestyle="--",
            label=f"alpha = {alpha:g}: U = {_exactly(cap)}",
        )
        axes.plot([alpha], [cap], "o", color="#444444", markersize=6, fillstyle="none")
    axes.set_yscale("log")
    every = [cap for points in curves.values() for _, cap in points]
    _plain_ticks(axes, min(every), max(every))
    axes.set_xlabel("share of the parties that may lie, alpha")
    axes.set_ylabel("samples that a party counts for at most, U")
    axes.legend(fontsize=8, frameon=False)
    return render(figure, kind)


def _exactly(cap: float) -> str:
    return f"{cap:,.0f}" if cap == math.floor(cap) else f"{cap:,.3f}"


def _plain_ticks(axes: Axes, low: float, high: float) -> None:
    """Label values in full if they span less than a power of ten: a log scale labels few or none."""
    if high >= 10 * low:
        return
    from matplotlib.ticker import MaxNLocator, NullLocator  # noqa: PLC0415 - an optional extra

    margin = max((high / low) ** 0.05, 1.02)
    bottom, top = low / margin, high * margin
    axes.set_ylim(bottom, top)
    at = [float(tick) for tick in MaxNLocator(6).tick_values(bottom, top) if bottom <= tick <= top]
    axes.set_yticks(at, [f"{tick:,.10g}" for tick in at])
    axes.yaxis.set_minor_locator(NullLocator())


def draw_sizes(title: str, notes: Sequence[str], counts: Sequence[int], *, kind: Format = "png") -> bytes:
    """Draw a histogram of positive samples per party (Portnoy et al. 2022, Figure 2).

    Raises:
        ConfigError: matplotlib is missing.
    """
    figure, axes = _canvas(Titled(title=title, notes=tuple(notes)), 3.5, _LEFT, 0.95 - _LEFT)
    _grid(axes)
    top = math.log10(max(counts)) + 1e-6
    edges = [10 ** (top * index / _BINS) for index in range(_BINS + 1)]
    axes.hist(counts, edges, color=COLOURS[0])
    axes.set_xscale("log")
    axes.set_xlabel("samples")
    axes.set_ylabel("parties")
    return render(figure, kind)


def _grid(axes: Axes) -> None:
    axes.grid(visible=True, color="#DDDDDD", linewidth=0.6)
    axes.set_axisbelow(True)


def _canvas(plot: Titled, inner: float, left: float, width: float) -> tuple[Figure, Axes]:
    """Return a figure with title and notes, and the axes between them.

    ``inner`` is the axes' height in inches; ``left`` and ``width`` are parts of the figure's width.
    """
    notes = [part for note in plot.notes for part in wrap(note, _WIDTH)]
    title = wrap(plot.title, _TITLE_WIDTH)
    head, foot = 0.2 + 0.2 * len(title), 0.9 + 0.17 * len(notes)
    height = head + inner + foot
    figure = blank(8.0, height)
    axes = figure.add_axes((left, foot / height, width, inner / height))
    for index, part in enumerate(title):
        figure.text(_LEFT, 1 - (0.2 + 0.2 * index) / height, part, fontsize=10, va="center", weight="bold")
    for index, text in enumerate([plot.warning, *notes] if plot.warning else notes):
        loud = bool(plot.warning) and index == 0
        colour, weight = ("#B00000", "bold") if loud else ("#444444", "normal")
        place = (foot - 0.6 - 0.17 * index) / height
        figure.text(_LEFT, place, text, fontsize=7.5, color=colour, weight=weight)
    return figure, axes


def _heights(plot: Plot) -> tuple[float, float]:
    """Return the range of accuracies after training has begun to settle."""
    settled = [
        accuracy
        for line in plot.lines
        for one in line.accuracies
        for accuracy in one[min(len(one) - 1, round(plot.rounds * _SETTLED)) :]
    ]
    low, high = min(settled), max(settled)
    room = max(0.01, 0.08 * (high - low))
    bottom = low - room if low < 0 else max(0.0, low - room)
    return bottom, high + room if high > 1 else min(1.0, high + room)


def _band(
    accuracies: tuple[tuple[float, ...], ...],
) -> tuple[list[int], list[float], list[float], list[float]]:
    """Return rounds from 1 and, by round, mean - deviation, mean, mean + deviation.

    An ended seed keeps its last accuracy.
    """
    longest = max(len(one) for one in accuracies)
    filled = [[*one, *[one[-1]] * (longest - len(one))] for one in accuracies]
    columns = list(zip(*filled, strict=True))
    means = [math.fsum(column) / len(column) for column in columns]
    spreads = [stdev(column) if len(column) > 1 else 0.0 for column in columns]
    low, high = ([m + sign * s for m, s in zip(means, spreads, strict=True)] for sign in (-1, 1))
    return list(range(1, longest + 1)), low, means, high
