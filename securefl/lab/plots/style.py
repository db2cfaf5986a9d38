"""One style for all plots: colours, sizes of text, room for legends and notes.

Sizes are inches and points, so that a plot of any height has the same margins.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from textwrap import wrap
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Okabe and Ito's colours, distinguishable with any colour vision. Tol's wine replaces their yellow, too pale
# for lines.
COLOURS: Final = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#882255")
BASELINES: Final = (("#222222", "--"), ("#777777", ":"), ("#AAAAAA", "-."), ("#555555", (0, (5, 1))))
"""Greys and dashes of curves to compare with."""
SOFT: Final = "#444444"
"""Colour of notes, and of a marked value."""
LOUD: Final = "#B00000"
"""Colour of a warning."""
GRID: Final = "#DDDDDD"
"""Colour of grids, and of cells without a value."""
VOID: Final = "#E4E4E4"
"""Colour behind a void round."""
HEAT: Final = "cividis"
"""Colour map of heat maps, readable with any colour vision and in grey."""
BAND: Final = 0.18
"""Opacity of a band around a curve."""
WIDTH: Final = 1.6
"""Points of a curve."""
TITLE: Final = 10.0
PANEL: Final = 9.0
LABEL: Final = 8.0
NOTE: Final = 7.5
"""Points of titles, titles of panels, labels and notes."""

DASHES: Final = ("-", "-.", ":")
"""Strokes of curves; the next one begins after all colours."""
_BY_NAME: Final = {"accuracy": 0, "loss": 1}
_UNITS: Final = {"accuracy": "share of the test set", "loss": "nats"}
_LETTER: Final = 0.0082
"""Inches across a letter, for each point of its size; above the mean of DejaVu Sans."""
_ROW: Final = 0.163
"""Inches down a row of a legend."""
_HANDLE: Final = 0.55
"""Inches across the line of a legend's entry, and the space behind the entry."""


def colour_of(name: str, number: int) -> str:
    """Return the colour of a metric: accuracy and loss have their own in each plot.

    Args:
        name: of the metric.
        number: of the other metrics, from 0.
    """
    at = _BY_NAME.get(name, len(_BY_NAME) + number % (len(COLOURS) - len(_BY_NAME)))
    return COLOURS[at]


def with_unit(name: str) -> str:
    """Return a metric's name with its unit, if it has one."""
    return f"{name} ({_UNITS[name]})" if name in _UNITS else name


def letters(inches: float, size: float) -> int:
    """Return the number of letters that fit into a width."""
    return max(4, int(inches / (_LETTER * size)))


def wrap_text(text: str, inches: float, size: float) -> str:
    """Return the text in lines that fit into a width."""
    return "\n".join(wrap(text, letters(inches, size)))


def lines_of(texts: Sequence[str]) -> int:
    """Return the largest number of lines of a text."""
    return max((text.count("\n") + 1 for text in texts), default=0)


def tidy(axes: Axes, *, grid: bool = True) -> None:
    """Give axes their sizes of text, a grid behind the data, and no frame above and right of it."""
    if grid:
        axes.grid(visible=True, color=GRID, linewidth=0.6)
        axes.set_axisbelow(True)
    axes.tick_params(labelsize=LABEL)
    axes.xaxis.label.set_fontsize(LABEL)
    axes.yaxis.label.set_fontsize(LABEL)
    axes.spines[["top", "right"]].set_visible(False)


def legend_columns(labels: Sequence[str], inches: float) -> int:
    """Return the number of columns in which a legend fits into a width."""
    longest = max((len(part) for label in labels for part in label.split("\n")), default=1)
    return max(1, min(len(labels), int(inches / (longest * _LETTER * LABEL + _HANDLE))))


def legend_height(labels: Sequence[str], inches: float) -> float:
    """Return the inches down a legend below the axes."""
    if not labels:
        return 0.0
    rows = math.ceil(len(labels) / legend_columns(labels, inches))
    return _ROW * rows * lines_of(labels) + 0.05


def legend_below(
    figure: Figure, handles: Sequence[Any], labels: Sequence[str], left: float, top: float, inches: float
) -> None:
    """Draw a legend outside of the axes.

    Args:
        figure: that has the room of :func:`legend_height`.
        handles: lines and points.
        labels: of the handles, wrapped to the width.
        left: inches from the left edge.
        top: inches from the lower edge.
        inches: width.
    """
    if not labels:
        return
    width, height = figure.get_size_inches()
    figure.legend(
        handles,
        labels,
        loc="upper left",
        bbox_to_anchor=(left / width, top / height),
        ncols=legend_columns(labels, inches),
        frameon=False,
        fontsize=LABEL,
        borderpad=0.0,
        borderaxespad=0.0,
        labelspacing=0.35,
        columnspacing=1.2,
        handlelength=1.8,
    )


def constant(values: Sequence[float | None]) -> float | None:
    """Return the value that two or more numbers share, or None; None and NaN are no numbers."""
    known = [value for value in values if value is not None and math.isfinite(value)]
    return known[0] if len(known) > 1 and min(known) == max(known) else None
