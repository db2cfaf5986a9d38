"""How many samples parties declare, and where truncation cuts them, as PNG files. Draws with matplotlib."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from textwrap import wrap
from typing import TYPE_CHECKING, Final

from securefl.report.canvas import COLOURS, Format, blank, render

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_BINS: Final = 24
_WIDTH: Final = 130
"""Characters that fit on a line of notes."""


def draw_caps(
    title: str,
    notes: Sequence[str],
    curves: Mapping[str, Sequence[tuple[float, float]]],
    chosen: tuple[float, float] | None = None,
    *,
    kind: Format = "png",
) -> bytes:
    """Return a file: U over alpha (Portnoy et al. 2022, Figure 1); the same bytes for the same input.

    Args:
        title: of the picture.
        notes: lines under it.
        curves: by label, pairs (alpha, U), at least one each; U is positive.
        chosen: the alpha that was asked for, and its U: a vertical line.
        kind: of the file.

    Raises:
        ConfigError: matplotlib is missing.
    """
    figure, axes = _canvas(title, notes)
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
    """Label values in full where they span less than a power of ten: a log scale labels few or none."""
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
    """Return a file of this kind: how many parties have how many samples (Figure 2).

    Args:
        title: of the picture.
        notes: lines under it.
        counts: of all parties, positive.
        kind: of the file.

    Raises:
        ConfigError: matplotlib is missing.
    """
    figure, axes = _canvas(title, notes)
    top = math.log10(max(counts)) + 1e-6
    edges = [10 ** (top * index / _BINS) for index in range(_BINS + 1)]
    axes.hist(counts, edges, color=COLOURS[0])
    axes.set_xscale("log")
    axes.set_xlabel("samples")
    axes.set_ylabel("parties")
    return render(figure, kind)


def _canvas(title: str, notes: Sequence[str]) -> tuple[Figure, Axes]:
    lines = [part for note in notes for part in wrap(note, _WIDTH)]
    figure = blank(8.0, 4.2 + 0.17 * len(lines))
    height = figure.get_figheight()
    foot = (0.75 + 0.17 * len(lines)) / height
    axes = figure.add_axes((0.1, foot, 0.86, 1 - foot - 0.4 / height))
    figure.text(0.1, 1 - 0.2 / height, title, fontsize=10, va="center", weight="bold")
    for index, line in enumerate(lines):
        figure.text(0.1, foot - (0.6 + 0.17 * index) / height, line, fontsize=7.5, color="#444444")
    axes.grid(visible=True, color="#DDDDDD", linewidth=0.6)
    axes.set_axisbelow(True)
    return figure, axes
