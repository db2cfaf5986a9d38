"""Plots, heat maps and pictures inside the audit page.

Names are untrusted: markup and formulas are escaped.
"""

import base64
import math
import struct
import zlib
from html import escape

from securefl.base.text import digits
from securefl.lab import plots
from securefl.lab.audit import exhibits
from securefl.runtime import report

_WIDTH = 7.6
_MANY = 80
_LEFT, _RIGHT = 0.76, 0.23
"""Inches left and right of the axes."""


def plot_html(plot: exhibits.AuditPlot) -> str:
    """Return the plot with alternative text."""
    about = f"{plot.title}: {plot.y_name} against {plot.x_name}. " + "; ".join(c.label for c in plot.curves)
    if not plots.has_matplotlib():
        return _missing(about)
    width = _WIDTH - _LEFT - _RIGHT
    labels = [plots.wrap_text(_plain(curve.label), width - 0.6, plots.LABEL) for curve in plot.curves]
    legend = plots.legend_height(labels, width)
    height = 3.4 + legend
    figure = plots.blank(_WIDTH, height)
    axes = figure.add_axes((_LEFT / _WIDTH, (0.55 + legend) / height, width / _WIDTH, 2.7 / height))
    drawn = {True: 0, False: 0}
    for curve, label in zip(plot.curves, labels, strict=True):
        # A prediction has the colour of its measured curve.
        colour = plots.COLOURS[drawn[curve.predicted] % len(plots.COLOURS)]
        drawn[curve.predicted] += 1
        shown = [
            (x, y)
            for x, y in zip(curve.x, curve.y, strict=True)
            if math.isfinite(x)
            and math.isfinite(y)
            and (x > 0 or not plot.x_log)
            and (y > 0 or not plot.y_log)
        ]
        axes.plot(
            [x for x, _ in shown],
            [y for _, y in shown],
            color=colour,
            linestyle="none" if curve.dots else "--" if curve.predicted else "-",
            marker="o" if curve.dots or len(shown) <= _MANY else "none",
            markersize=4,
            markerfacecolor="white" if curve.predicted else colour,
            label=label,
        )
    if plot.diagonal:
        axes.axline((0.5, 0.5), (1, 1), color=plots.SOFT, linestyle=":")
    if plot.x_log:
        axes.set_xscale("log")
    elif all(float(x).is_integer() for curve in plot.curves for x in curve.x):
        axes.locator_params(axis="x", integer=True)
    if plot.y_log:
        axes.set_yscale("log")
    if plot.x_range:
        axes.set_xlim(*plot.x_range)
    if plot.y_range:
        axes.set_ylim(*plot.y_range)
    axes.set_xlabel(_plain(plot.x_name))
    axes.set_ylabel(_plain(plot.y_name))
    plots.tidy(axes)
    handles, shown_labels = axes.get_legend_handles_labels()
    plots.legend_below(figure, handles, shown_labels, _LEFT, legend + 0.05, width)
    return _image(plots.render(figure, "svg"), "svg+xml", about)


def heat_map_html(table: exhibits.AuditHeatMap) -> str:
    """Return the heat map with its colour scale."""
    about = f"{table.title}: {table.low:g} to {table.high:g}, by {table.row_name} and {table.column_name}"
    if not plots.has_matplotlib():
        return _missing(about)
    same = plots.constant([value for row in table.values for value in row])
    if same is not None and all(value is not None for row in table.values for value in row):
        number = len(table.rows) * len(table.columns)
        text = f"{table.title}: {digits(same)} in all {number} cells"
        return f"<p class='note-text'>{_safe(f'{text}, by {table.row_name} and {table.column_name}')}</p>"
    left = min(0.4, 0.04 + 0.011 * max(map(len, (*table.rows, table.row_name))))
    height = 0.9 + max(0.8, 0.2 * len(table.rows))
    figure = plots.blank(_WIDTH, height)
    axes = figure.add_axes((left, 0.6 / height, 0.86 - left, 1 - 0.7 / height))
    values = [[math.nan if value is None else value for value in row] for row in table.values]
    cells = axes.imshow(values, cmap=plots.HEAT, vmin=table.low, vmax=table.high, aspect="auto")
    axes.set_facecolor(plots.GRID)
    every = max(1, -(-len(table.columns) // 20))
    columns = range(0, len(table.columns), every)
    axes.set_xticks(columns, [_plain(table.columns[k]) for k in columns])
    axes.set_yticks(range(len(table.rows)), [_plain(name) for name in table.rows])
    axes.set_xlabel(_plain(table.column_name))
    axes.set_ylabel(_plain(table.row_name))
    plots.tidy(axes, grid=False)
    axes.tick_params(length=0)
    bar = figure.colorbar(cells, cax=figure.add_axes((0.89, 0.6 / height, 0.02, 1 - 0.7 / height)))
    bar.ax.tick_params(labelsize=plots.LABEL)
    return _image(plots.render(figure, "svg"), "svg+xml", about)


def picture_html(picture: exhibits.Picture, about: str) -> str:
    """Return the picture as embedded PNG with caption and alternative text."""
    image = _image(_png(picture.pixels), "png", about)
    return f'<figure class="picture">{image}<figcaption>{_safe(picture.caption)}</figcaption></figure>'


def _image(content: bytes, kind: str, about: str) -> str:
    code = base64.b64encode(content).decode("ascii")
    return f'<img alt="{_safe(about)}" src="data:image/{kind};base64,{code}"/>'


def _missing(about: str) -> str:
    needs = "not drawn: it needs matplotlib (pip install 'securefl[plots]'); its numbers are in audit.json"
    return f"<p class='note-text'>{_safe(about)} ({escape(needs)})</p>"


def _safe(text: str) -> str:
    return escape(report.printable(text, 400))


def _plain(text: str) -> str:
    return report.printable(text).replace("$", r"\$")


def _png(pixels: tuple[tuple[int, ...], ...]) -> bytes:
    """Return an eight-bit grey PNG without filter (PNG specification, sections 5 and 11)."""
    rows = b"".join(b"\x00" + bytes(row) for row in pixels)
    header = struct.pack(">IIBBBBB", len(pixels[0]), len(pixels), 8, 0, 0, 0, 0)
    chunks = ((b"IHDR", header), (b"IDAT", zlib.compress(rows, 9)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))
        for kind, body in chunks
    )
