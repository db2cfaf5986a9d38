"""Drawings of the page as SVG. The page's style sheet has their colours, for light and dark."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape
from typing import Final

from securefl.base.text import digits

WIDTH: Final = 360
HEIGHT: Final = 210
"""Size of a chart, with text of size 11: a phone shows it without scaling it down."""
_LEFT, _RIGHT, _TOP, _BOTTOM = 46, 10, 10, 34
_ROW, _NAME = 20, 7.2
_CELL, _SLIM, _MOST_WIDE = 22, 17, 40
"""Width of a map's cell, that of a map with many columns, and the most columns of the former."""
_STEPS: Final = (1, 2, 2.5, 5, 10)


@dataclass(frozen=True, slots=True)
class ChartLine:
    """One line of a chart. NaN leaves a gap."""

    label: str
    values: tuple[float, ...]
    low: tuple[float, ...] = ()
    """Lower edge of a band around the line; empty without a band."""
    high: tuple[float, ...] = ()
    error: tuple[float, ...] = ()
    """Half length of each value's error bar; empty without bars."""


def line_chart(rounds: Sequence[int], curves: Sequence[ChartLine], marked: int | None = None) -> str:
    """Return a chart of curves by round.

    Args:
        rounds: the horizontal axis, ascending, at least one.
        curves: values by round, each as many as ``rounds``.
        marked: round with a vertical line.
    """
    bars = [
        value + sign * by
        for one in curves
        for value, by in zip(one.values, one.error, strict=False)
        for sign in (-1, 1)
    ]
    shown = [v for one in curves for v in (*one.values, *one.low, *one.high)] + bars
    ticks = _ticks([value for value in shown if math.isfinite(value)])
    frame = _Frame(rounds[0], rounds[-1], ticks[0], ticks[-1])
    parts = [*_axes(frame, ticks, rounds)]
    if marked is not None:
        x = frame.x(marked)
        parts.append(f"<path class='mark' d='M{x:.1f} {_TOP}V{HEIGHT - _BOTTOM}'/>")
    for number, one in enumerate(curves):
        parts += _draw_curve(frame, rounds, one, number % 6)
    return _svg(WIDTH, HEIGHT, parts)


@dataclass(frozen=True, slots=True)
class _Frame:
    first: float
    last: float
    low: float
    high: float

    def x(self, value: float) -> float:
        share = 0.5 if self.last == self.first else (value - self.first) / (self.last - self.first)
        return _LEFT + share * (WIDTH - _LEFT - _RIGHT)

    def y(self, value: float) -> float:
        return HEIGHT - _BOTTOM - (value - self.low) / (self.high - self.low) * (HEIGHT - _TOP - _BOTTOM)


def _ticks(values: Sequence[float]) -> list[float]:
    """Return round numbers, at most seven, whose first and last enclose the values."""
    low, high = (min(values), max(values)) if values else (0.0, 1.0)
    if low == high:
        pad = abs(low) * 0.1 or 1.0
        low, high = low - pad, high + pad
    rough = (high - low) / 5
    unit = 10.0 ** math.floor(math.log10(rough))
    step = next(unit * one for one in _STEPS if unit * one >= rough)
    first, last = math.floor(low / step), math.ceil(high / step)
    return [number * step for number in range(first, last + 1)]


def _round_step(least: float) -> int:
    """Return the smallest of 1, 2, 5, 10, 20, ... that is at least ``least``."""
    unit = 1
    while True:
        for step in (unit, 2 * unit, 5 * unit):
            if step >= least:
                return step
        unit *= 10


def _axes(frame: _Frame, ticks: Sequence[float], rounds: Sequence[int]) -> Iterator[str]:
    for value in ticks:
        y = frame.y(value)
        yield f"<path class='grid' d='M{_LEFT} {y:.1f}H{WIDTH - _RIGHT}'/>"
        yield f"<text class='end' x='{_LEFT - 5}' y='{y + 3.5:.1f}'>{digits(value)}</text>"
    every = _round_step((rounds[-1] - rounds[0]) / 8)
    for number in range(math.ceil(rounds[0] / every) * every, rounds[-1] + 1, every):
        yield f"<text class='mid' x='{frame.x(number):.1f}' y='{HEIGHT - _BOTTOM + 15}'>{number}</text>"
    yield f"<text class='mid' x='{(_LEFT + WIDTH - _RIGHT) / 2}' y='{HEIGHT - 4}'>round</text>"


def _draw_curve(frame: _Frame, rounds: Sequence[int], curve: ChartLine, colour: int) -> Iterator[str]:
    if curve.low:
        edge = [(r, v) for r, v in zip(rounds, curve.high, strict=True) if math.isfinite(v)]
        edge += [(r, v) for r, v in zip(rounds, curve.low, strict=True) if math.isfinite(v)][::-1]
        if edge:
            points = " ".join(f"{frame.x(r):.1f},{frame.y(v):.1f}" for r, v in edge)
            yield f"<polygon class='band c{colour}' points='{points}'/>"
    pen, path = "M", ""
    for number, value in zip(rounds, curve.values, strict=True):
        if math.isfinite(value):
            path, pen = f"{path}{pen}{frame.x(number):.1f} {frame.y(value):.1f}", "L"
        else:
            pen = "M"
    yield f"<path class='curve c{colour}' d='{path}'/>"
    for number, value, half in zip(rounds, curve.values, curve.error, strict=False):
        if math.isfinite(value) and half > 0:
            x, low, high = frame.x(number), frame.y(value - half), frame.y(value + half)
            yield f"<path class='curve c{colour}' d='M{x:.1f} {low:.1f}V{high:.1f}'/>"
    if len(rounds) <= _DOTTED:
        for number, value in zip(rounds, curve.values, strict=True):
            if math.isfinite(value):
                x, y = frame.x(number), frame.y(value)
                yield f"<circle class='dot c{colour}' cx='{x:.1f}' cy='{y:.1f}' r='2.4'/>"


_DOTTED: Final = 40
"""Longest series whose points are marked."""


@dataclass(frozen=True, slots=True)
class Cell:
    """Cell of a map: a style of the page's, a short text, and a full one."""

    style: str
    text: str
    title: str


def status_map(names: Sequence[str], columns: Sequence[str], cells: Sequence[Sequence[Cell]]) -> str:
    """Return a map with a row for each name and a column for each label.

    It is drawn at the size of its text; the page scrolls it sideways if it is too wide.
    """
    left = 8 + _NAME * max(map(len, names), default=1)
    longest = max((len(cell.text) for line in cells for cell in line), default=1)
    across = _SLIM if len(columns) > _MOST_WIDE and longest <= 2 else _CELL
    width, height = left + across * len(columns) + 8, 22 + _ROW * len(names)
    label_width = 7 + 7 * max(map(len, columns), default=1)
    every = max(1, math.ceil(label_width / across))
    parts = [
        f"<text class='mid' x='{left + across * (at + 0.5):.1f}' y='14'>{escape(label)}</text>"
        for at, label in enumerate(columns)
        if at % every == 0
    ]
    for row, (name, line) in enumerate(zip(names, cells, strict=True)):
        y = 20 + _ROW * row
        parts.append(f"<text class='end' x='{left - 5:.1f}' y='{y + 14}'>{escape(name)}</text>")
        for at, cell in enumerate(line):
            x = left + across * at
            parts.append(
                f"<g class='cell {cell.style}'><title>{escape(cell.title)}</title>"
                f"<rect x='{x + 1:.1f}' y='{y + 1}' width='{across - 2}' height='{_ROW - 2}' rx='3'/>"
                f"<text class='mid' x='{x + across / 2:.1f}' y='{y + 14}'>{escape(cell.text)}</text></g>"
            )
    return _svg(width, height, parts, fixed=True)


@dataclass(frozen=True, slots=True)
class Bar:
    """Bar of stacked parts, in the order of the labels."""

    name: str
    parts: tuple[float, ...]


def bars(rows: Sequence[Bar], unit: str) -> str:
    """Return horizontal bars of stacked parts; their lengths are totals."""
    left = 8 + _NAME * max(map(len, (row.name for row in rows)), default=1)
    most = max((math.fsum(row.parts) for row in rows), default=0.0) or 1.0
    scale, height = (WIDTH - left - 62) / most, 6 + _ROW * len(rows)
    parts = []
    for number, row in enumerate(rows):
        y, x = 3 + _ROW * number, left
        parts.append(f"<text class='end' x='{left - 5:.1f}' y='{y + 14}'>{escape(row.name)}</text>")
        for at, part in enumerate(row.parts):
            parts.append(
                f"<rect class='fill c{at % 6}' x='{x:.1f}' y='{y + 2}' width='{part * scale:.1f}'"
                f" height='{_ROW - 4}'/>"
            )
            x += part * scale
        total = f"{digits(math.fsum(row.parts))} {unit}"
        parts.append(f"<text x='{x + 5:.1f}' y='{y + 14}'>{escape(total)}</text>")
    return _svg(WIDTH, height, parts)


def _svg(width: float, height: float, parts: Sequence[str], *, fixed: bool = False) -> str:
    size = f" width='{width:.0f}' height='{height:.0f}'" if fixed else ""
    return f"<svg viewBox='0 0 {width:.0f} {height:.0f}'{size} aria-hidden='true'>{''.join(parts)}</svg>"
