"""Plots of accuracies by round, over an axis or as a table, and of labels by party."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import stdev
from typing import TYPE_CHECKING, Any, Final

from securefl.lab.plots import style
from securefl.lab.plots.canvas import Format, blank, render

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_BINS: Final = 24
_PAGE: Final = 8.0
"""Inches across a picture."""
_LEFT: Final = 0.72
_RIGHT: Final = 0.3
"""Inches left of the axes, for their labels, and right of them."""
_WHOLE: Final = _PAGE - _LEFT - _RIGHT
_ACROSS: Final = 5
_LEAST_SPAN: Final = 0.05
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
    labels = _labels(plot.lines)
    figure, axes = _canvas(plot, 3.5, labels=labels)
    from matplotlib.ticker import MaxNLocator  # noqa: PLC0415 - an optional extra, which `blank` loads quietly

    for line, label, (colour, dashes) in zip(plot.lines, labels, _strokes(plot.lines), strict=True):
        rounds, low, mean, high = _band(line.accuracies)
        axes.plot(rounds, mean, color=colour, linestyle=dashes, linewidth=style.WIDTH, label=label)
        if len(line.accuracies) > 1:
            axes.fill_between(rounds, low, high, color=colour, alpha=style.BAND, linewidth=0)
    axes.set_xlim(1, max(2, plot.rounds))
    axes.set_ylim(*_heights(plot))
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set_xlabel("round")
    axes.set_ylabel(style.with_unit(plot.value_name))
    style.tidy(axes)
    _legend(figure, axes, plot)
    return render(figure, kind)


def draw_heat_map(table: HeatMap, kind: Format = "png") -> bytes:
    """Draw a heat map; equal tables give equal bytes.

    Raises:
        ConfigError: matplotlib is missing.
    """
    folded = _constant_sentence(table)
    if folded:
        return render(_text_only(table, folded), kind)
    rows = [style.wrap_text(name, 2.2, style.LABEL) for name in table.rows]
    longest = max(len(part) for name in rows for part in name.split("\n"))
    left = 0.55 + 0.075 * longest
    across = (_PAGE - left - _RIGHT) / len(table.columns)
    columns = [style.wrap_text(name, 0.9 * across, style.LABEL) for name in table.columns]
    down = max(
        0.36, 0.16 * style.lines_of([*rows, *(text for texts in table.texts for text in texts)]) + 0.06
    )
    under = 0.15 * (style.lines_of(columns) - 1)
    figure, axes = _canvas(table, max(1.5, down * len(table.rows)), left, under=under)
    known = [value for row in table.values for value in row if value is not None]
    low, high = min(known, default=0.0), max(known, default=1.0)
    high = max(high, low + 0.01)
    shown = [[float("nan") if value is None else value for value in row] for row in table.values]
    axes.imshow(shown, cmap=style.HEAT, vmin=low, vmax=high, aspect="auto")
    axes.set_facecolor(style.GRID)
    for row, texts in enumerate(table.texts):
        for column, text in enumerate(texts):
            value = table.values[row][column]
            dark = value is not None and value < (low + high) / 2
            colour = "white" if dark else "black"
            axes.text(column, row, text, ha="center", va="center", fontsize=style.LABEL, color=colour)
    axes.set_xticks(range(len(columns)), columns)
    axes.set_yticks(range(len(rows)), rows)
    axes.set_xlabel(table.column_name)
    axes.set_ylabel(table.row_name)
    style.tidy(axes, grid=False)
    axes.tick_params(length=0)
    return render(figure, kind)


def draw_sweep(sweep: SweepPlot, kind: Format = "png") -> bytes:
    """Draw lines over an axis; equal sweeps give equal bytes.

    Raises:
        ConfigError: matplotlib is missing.
    """
    labels, between = _labels(sweep.lines), _WHOLE / max(1, len(sweep.columns))
    names = [style.wrap_text(name, 0.9 * between, style.LABEL) for name in sweep.columns]
    figure, axes = _canvas(sweep, 3.5, labels=labels, under=0.15 * (style.lines_of(names) - 1))
    for line, label, (colour, dashes) in zip(sweep.lines, labels, _strokes(sweep.lines), strict=True):
        known = [(at, values) for at, values in enumerate(line.values) if values]
        columns = [at for at, _ in known]
        means = [math.fsum(values) / len(values) for _, values in known]
        spreads = [stdev(values) if len(values) > 1 else 0.0 for _, values in known]
        axes.plot(columns, means, color=colour, linestyle=dashes, marker="o", markersize=4, label=label)
        axes.errorbar(columns, means, spreads, color=colour, alpha=0.5, linestyle="none")
    axes.set_xticks(range(len(names)), names)
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
    axes.set_ylabel(style.with_unit(sweep.value_name))
    style.tidy(axes)
    _legend(figure, axes, sweep)
    return render(figure, kind)


def draw_histograms(table: Histograms, kind: Format = "png") -> bytes:
    """Draw class frequencies by party; equal tables give equal bytes.

    Raises:
        ConfigError: matplotlib is missing.
    """
    rows = -(-len(table.names) // _ACROSS)
    figure, frame = _canvas(table, max(1.2, 1.05 * rows))
    frame.axis("off")
    middle = frame.get_position().y0 + frame.get_position().height / 2
    figure.text(0.02, middle, "share", fontsize=style.LABEL, rotation=90, va="center")
    classes = len(table.overall)
    edges = [index - 0.5 for index in range(classes + 1)]
    top = 1.05 * max(max(share) for share in (*table.shares, table.overall))
    for index, (name, shares) in enumerate(zip(table.names, table.shares, strict=True)):
        row, column = divmod(index, _ACROSS)
        place = (column / _ACROSS, 1 - (row + 0.82) / rows, 0.86 / _ACROSS, 0.58 / rows)
        axes = frame.inset_axes(place)
        axes.stairs(shares, edges, fill=True, color=style.COLOURS[0])
        axes.stairs(table.overall, edges, color=style.COLOURS[1], linewidth=0.9)
        axes.set_xlim(edges[0], edges[-1])
        axes.set_ylim(0, top)
        most = style.letters(_WHOLE / _ACROSS * 0.86, style.NOTE)
        shown = name if len(name) <= most else f"{name[: most - 3]}..."
        axes.set_title(shown, fontsize=style.NOTE, pad=2)
        style.tidy(axes, grid=False)
        axes.tick_params(labelsize=6, length=2, pad=1, labelleft=column == 0)
        if index + _ACROSS >= len(table.names):
            axes.set_xlabel("class", fontsize=style.NOTE, labelpad=1)
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
    plot = Titled(title=title, notes=tuple(notes))
    labels = [style.wrap_text(label, _WHOLE, style.LABEL) for label in curves]
    mark = "" if chosen is None else f"alpha = {chosen[0]:g}: U = {_exactly(chosen[1])}"
    figure, axes = _canvas(plot, 3.5, labels=[*labels, *([mark] if mark else [])])
    for index, (label, points) in enumerate(zip(labels, curves.values(), strict=True)):
        alphas, caps = zip(*points, strict=True)
        axes.plot(
            alphas, caps, ".-", color=style.COLOURS[index % len(style.COLOURS)], label=label, markersize=4
        )
    if chosen is not None:
        alpha, cap = chosen
        axes.axvline(alpha, color=style.SOFT, linewidth=1.0, linestyle="--", label=mark)
        axes.plot([alpha], [cap], "o", color=style.SOFT, markersize=6, fillstyle="none")
    axes.set_yscale("log")
    every = [cap for points in curves.values() for _, cap in points]
    _plain_ticks(axes, min(every), max(every))
    axes.set_xlabel("share of the parties that may lie, alpha")
    axes.set_ylabel("samples that a party counts for at most, U")
    style.tidy(axes)
    _legend(figure, axes, plot)
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
    figure, axes = _canvas(Titled(title=title, notes=tuple(notes)), 3.5)
    top = math.log10(max(counts)) + 1e-6
    edges = [10 ** (top * index / _BINS) for index in range(_BINS + 1)]
    axes.hist(counts, edges, color=style.COLOURS[0])
    axes.set_xscale("log")
    axes.set_xlabel("samples")
    axes.set_ylabel("parties")
    style.tidy(axes)
    return render(figure, kind)


def _labels(lines: Sequence[Line | Series]) -> list[str]:
    return [style.wrap_text(line.label, _WHOLE - 0.6, style.LABEL) for line in lines]


def _strokes(lines: Sequence[Line | Series]) -> Iterator[tuple[str, Any]]:
    """Yield colour and dashes of each line."""
    own = itertools.cycle((colour, dashes) for dashes in style.DASHES for colour in style.COLOURS)
    baselines = itertools.cycle(style.BASELINES)
    for line in lines:
        yield next(baselines) if line.baseline else next(own)


def _constant_sentence(table: HeatMap) -> str:
    """Return the sentence on a table of equal values, or an empty text."""
    texts = {text for row in table.texts for text in row}
    if style.constant([value for row in table.values for value in row]) is None or len(texts) > 1:
        return ""
    cells = len(table.rows) * len(table.columns)
    text = " ".join(texts.pop().split())
    return f"All {cells} values by {table.row_name} and {table.column_name}: {text}"


def _text_only(plot: Titled, text: str) -> Figure:
    figure, axes = _canvas(plot, 0.2)
    axes.axis("off")
    line = style.wrap_text(text, _WHOLE, style.PANEL)
    axes.text(0, 1, line, transform=axes.transAxes, fontsize=style.PANEL, va="top")
    return figure


def _legend(figure: Figure, axes: Axes, plot: Titled) -> None:
    """Draw the legend between axes and notes."""
    handles, labels = axes.get_legend_handles_labels()
    top = 0.25 + _notes_height(plot) + style.legend_height(labels, _WHOLE)
    style.legend_below(figure, handles, labels, _LEFT, top, _WHOLE)


def _notes(plot: Titled) -> list[str]:
    texts = [plot.warning, *plot.notes] if plot.warning else plot.notes
    return [style.wrap_text(text, _WHOLE, style.NOTE) for text in texts]


def _notes_height(plot: Titled) -> float:
    return 0.16 * sum(style.lines_of([note]) for note in _notes(plot))


def _canvas(
    plot: Titled, inner: float, left: float = _LEFT, *, labels: Sequence[str] = (), under: float = 0.0
) -> tuple[Figure, Axes]:
    """Return a figure with title and notes, and the axes between them.

    Args:
        plot: its title, notes and warning.
        inner: inches down the axes.
        left: inches left of the axes.
        labels: of the legend, for which there is room below the axes.
        under: inches for more lines of labels below the axes.
    """
    title = style.wrap_text(plot.title, _PAGE - _LEFT - _RIGHT, style.TITLE)
    head, notes_height = 0.25 + 0.18 * style.lines_of([title]), _notes_height(plot)
    foot = 0.7 + under + style.legend_height(labels, _WHOLE) + notes_height
    height = head + inner + foot
    figure = blank(_PAGE, height)
    axes = figure.add_axes((left / _PAGE, foot / height, 1 - (left + _RIGHT) / _PAGE, inner / height))
    x = _LEFT / _PAGE
    figure.text(x, 1 - 0.12 / height, title, fontsize=style.TITLE, weight="bold", va="top")
    at = notes_height + 0.12
    for index, note in enumerate(_notes(plot)):
        loud = bool(plot.warning) and index == 0
        colour, weight = (style.LOUD, "bold") if loud else (style.SOFT, "normal")
        figure.text(x, at / height, note, fontsize=style.NOTE, color=colour, weight=weight, va="top")
        at -= 0.16 * style.lines_of([note])
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
