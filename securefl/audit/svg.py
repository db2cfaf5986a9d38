"""Plots and heat maps as SVG inside a page, whose style sheet gives the colours (light and dark).

Own drawing instead of matplotlib, which is an optional extra and would make the page ten times as large; the
audits' plots are lines and cells only.
"""

from __future__ import annotations

import base64
import struct
import zlib
from collections.abc import Iterator
from html import escape
from itertools import pairwise

from securefl.audit.axes import Axis, axis, label
from securefl.audit.exhibits import Curve, HeatMap, Picture, Plot
from securefl.report.text import printable

_WIDTH, _HEIGHT = 760, 330
_LEFT, _RIGHT, _TOP, _BOTTOM = 64, 16, 14, 46
_COLOURS = 7
_LEGEND_ROW = 19
_STOPS = ((68, 1, 84), (59, 82, 139), (33, 145, 140), (94, 201, 98), (253, 231, 37))
"""Viridis (van der Walt and Smith), which keeps its order in grey and for any colour vision."""


def plot_svg(plot: Plot) -> str:
    """The plot with axes, legend and a title for readers that do not see it."""
    whole = all(float(v).is_integer() for c in plot.curves for v in c.x)
    x = axis((v for c in plot.curves for v in c.x), log=plot.x_log, fixed=plot.x_range, wanted=8, whole=whole)
    y = axis((v for c in plot.curves for v in c.y), log=plot.y_log, fixed=plot.y_range)
    height = _HEIGHT + _LEGEND_ROW * len(plot.curves)
    parts = [*_frame(plot, x, y)]
    lines: list[str] = []
    points: list[str] = []
    if plot.diagonal:
        lines.append(_path(Curve(label="", x=(x.low, x.high), y=(x.low, x.high)), x, y, "diagonal"))
    colours = _colours(plot)
    for number, (curve, colour) in enumerate(zip(plot.curves, colours, strict=True)):
        style = f"c{colour}" + (" predicted" if curve.predicted else "")
        if not curve.dots:
            lines.append(_path(curve, x, y, f"curve {style}"))
        points += _points(curve, x, y, style)
        at = _HEIGHT + _LEGEND_ROW * number + 4
        mark = f'<line class="curve {style}" x1="{_LEFT}" x2="{_LEFT + 26}" y1="{at}" y2="{at}"/>'
        if curve.dots:
            mark = f'<circle class="dot {style}" cx="{_LEFT + 13}" cy="{at}" r="3.5"/>'
        parts.append(f'{mark}<text x="{_LEFT + 34}" y="{at + 4}">{_safe(curve.label)}</text>')
    about = f"{plot.title}: {plot.y_name} against {plot.x_name}. " + "; ".join(c.label for c in plot.curves)
    return _svg(about, _WIDTH, height, [*parts, _inside(lines), *points])


def heat_map_svg(table: HeatMap) -> str:
    """The cells, with a tooltip each, and the scale of colours."""
    left = 16 + 7 * max(map(len, (*table.rows, table.row_name)))
    cell = max(9.0, min(54.0, (_WIDTH - left - 80) / max(1, len(table.columns))))
    tall = max(11.0, min(22.0, cell))
    bottom = _TOP + tall * len(table.rows)
    parts = []
    for i, (name, row) in enumerate(zip(table.rows, table.values, strict=True)):
        at = _TOP + tall * i
        parts.append(_label("end small", left - 6, at + tall / 2 + 4, name))
        for k, value in enumerate(row):
            where = f'x="{left + cell * k:.1f}" y="{at:.1f}" width="{cell - 1:.1f}" height="{tall - 1:.1f}"'
            told = f"{name}, {table.column_name} {table.columns[k]}: " + (
                "-" if value is None else f"{value:.3g}"
            )
            fill = 'class="gap"' if value is None else f'fill="{_shade(value, table.low, table.high)}"'
            parts.append(f"<rect {where} {fill}><title>{_safe(told)}</title></rect>")
    every = max(1, -(-len(table.columns) * 26 // max(1, round(cell * len(table.columns)))))
    parts += [
        _label("middle small", left + cell * (k + 0.5), bottom + 14, table.columns[k])
        for k in range(0, len(table.columns), every)
    ]
    parts.append(_label("end small", left - 6, _TOP - 4, table.row_name))
    parts.append(_label("middle", left + cell * len(table.columns) / 2, bottom + 32, table.column_name))
    parts += _scale(table, left + cell * len(table.columns) + 18, max(60.0, bottom - _TOP))
    about = f"{table.title}: {label(table.low)} to {label(table.high)}"
    about += f", by {table.row_name} and {table.column_name}"
    return _svg(about, _WIDTH, round(max(bottom + 44, _TOP + 70)), parts)


def picture_html(picture: Picture, about: str) -> str:
    """The picture as PNG inside the page, enlarged without smoothing, with its caption.

    ``about`` is what readers hear that do not see it.
    """
    code = base64.b64encode(_png(picture.pixels)).decode("ascii")
    return (
        f'<figure class="picture"><img alt="{_safe(about)}" src="data:image/png;base64,{code}"/>'
        f"<figcaption>{_safe(picture.caption)}</figcaption></figure>"
    )


def _frame(plot: Plot, x: Axis, y: Axis) -> Iterator[str]:
    right, bottom = _WIDTH - _RIGHT, _HEIGHT - _BOTTOM
    for tick in y.ticks:
        at = _down(y.place(tick) or 0.0)
        yield f'<line class="grid" x1="{_LEFT}" x2="{right}" y1="{at:.1f}" y2="{at:.1f}"/>'
        yield _label("end small", _LEFT - 7, at + 4, label(tick))
    for tick in x.ticks:
        at = _across(x.place(tick) or 0.0)
        yield f'<line class="grid" x1="{at:.1f}" x2="{at:.1f}" y1="{_TOP}" y2="{bottom}"/>'
        yield _label("middle small", at, bottom + 16, label(tick))
    yield _label("middle", (_LEFT + right) / 2, bottom + 34, plot.x_name)
    turned = f"translate(14 {(_TOP + bottom) / 2:.0f}) rotate(-90)"
    yield f'<text class="middle" transform="{turned}">{_safe(plot.y_name)}</text>'


def _inside(lines: list[str]) -> str:
    """Lines, cut off at the frame: a logarithmic axis does not show all of a curve."""
    width, height = _WIDTH - _RIGHT - _LEFT, _HEIGHT - _BOTTOM - _TOP
    # Half a line's width more, so that a line along the frame is whole.
    box = f"{_LEFT - 2} {_TOP - 2} {width + 4} {height + 4}"
    x, y, wide, tall = box.split()
    return f'<svg x="{x}" y="{y}" width="{wide}" height="{tall}" viewBox="{box}">{"".join(lines)}</svg>'


def _label(style: str, x: float, y: float, text: str) -> str:
    return f'<text class="{style}" x="{x:.1f}" y="{y:.1f}">{_safe(text)}</text>'


def _safe(text: str) -> str:
    """Names come from outside: no markup and no control characters are in them."""
    return escape(printable(text))


def _path(curve: Curve, x: Axis, y: Axis, style: str) -> str:
    places = [(x.place(a), y.place(b)) for a, b in zip(curve.x, curve.y, strict=True)]
    shown = [(_across(a), _down(b)) for a, b in places if a is not None and b is not None]
    drawn = " ".join(f"{'L' if k else 'M'}{a:.1f} {b:.1f}" for k, (a, b) in enumerate(shown))
    return f'<path class="{style}" d="{drawn}"/>' if drawn else ""


def _points(curve: Curve, x: Axis, y: Axis, style: str) -> Iterator[str]:
    if len(curve.x) > 80 and not curve.dots:
        return
    for a, b in zip(curve.x, curve.y, strict=True):
        across, down = x.place(a), y.place(b)
        if across is None or down is None or not (_shown(across) and _shown(down)):
            continue
        where = f'cx="{_across(across):.1f}" cy="{_down(down):.1f}" r="3.2"'
        told = _safe(f"{curve.label}: {a:.4g}, {b:.4g}")
        yield f'<circle class="dot {style}" {where}><title>{told}</title></circle>'


def _shown(place: float) -> bool:
    return -1e-9 <= place <= 1 + 1e-9


def _colours(plot: Plot) -> list[int]:
    """A prediction has the colour of the measurement that has its place among the measured curves."""
    counts = {True: 0, False: 0}
    colours = []
    for curve in plot.curves:
        colours.append(counts[curve.predicted] % _COLOURS)
        counts[curve.predicted] += 1
    return colours


def _across(place: float) -> float:
    return _LEFT + place * (_WIDTH - _RIGHT - _LEFT)


def _down(place: float) -> float:
    return _HEIGHT - _BOTTOM - place * (_HEIGHT - _BOTTOM - _TOP)


def _shade(value: float, low: float, high: float) -> str:
    place = min(1.0, max(0.0, (value - low) / ((high - low) or 1.0))) * (len(_STOPS) - 1)
    stops = list(pairwise(_STOPS))
    first, second = stops[min(int(place), len(stops) - 1)]
    part = place - min(int(place), len(stops) - 1)
    red, green, blue = (round(a + part * (b - a)) for a, b in zip(first, second, strict=True))
    return f"#{red:02x}{green:02x}{blue:02x}"


def _scale(table: HeatMap, left: float, height: float) -> Iterator[str]:
    steps = 24
    for k in range(steps):
        value = table.high - (table.high - table.low) * k / (steps - 1)
        at, tall = _TOP + height * k / steps, height / steps + 0.5
        shade = _shade(value, table.low, table.high)
        yield f'<rect x="{left:.1f}" y="{at:.1f}" width="12" height="{tall:.1f}" fill="{shade}"/>'
    yield _label("small", left + 17, _TOP + 9, label(table.high))
    yield _label("small", left + 17, _TOP + height, label(table.low))


def _svg(about: str, width: int, height: int, parts: list[str]) -> str:
    told = escape(printable(about, 400))
    head = f'<svg viewBox="0 0 {width} {height}" role="img" aria-label="{told}">'
    return head + "".join(parts) + "</svg>"


def _png(pixels: tuple[tuple[int, ...], ...]) -> bytes:
    """Eight-bit greys, no filter (PNG specification, sections 5 and 11)."""
    rows = b"".join(b"\x00" + bytes(row) for row in pixels)
    header = struct.pack(">IIBBBBB", len(pixels[0]), len(pixels), 8, 0, 0, 0, 0)
    chunks = ((b"IHDR", header), (b"IDAT", zlib.compress(rows, 9)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))
        for kind, body in chunks
    )
