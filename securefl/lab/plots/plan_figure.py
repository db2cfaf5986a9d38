"""Plot of a plan's rows: error and risk over bytes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from securefl.base.text import digits
from securefl.lab import planning
from securefl.lab.plots import canvas, style

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_FLOOR: Final = 1e-6
_PAGE: Final = 11.0
_MARGIN: Final = 0.75
_INNER: Final = 2.9
_BETWEEN: Final = 0.75
"""Inches across the picture, left of a panel, down a panel, and between panels."""
_PLACES: Final = (
    (3, 4),
    (3, -10),
    (-9, 4),
    (-9, -10),
    (9, -3),
    (-15, -3),
    (3, 12),
    (3, -18),
    (-9, 12),
    (-9, -18),
)
"""Places of a number beside its point, in points, best first."""


def draw_plan(plan: planning.Plan, chosen: int) -> bytes:
    """Return a PNG file of numbered rows, the chosen one (from 0) ringed.

    Raises:
        ConfigError: matplotlib is missing.
    """
    private = plan.demand.epsilon is not None
    error = "noise of the aggregate / sensitivity" if private else "variance of the aggregate / an update's"
    panels: tuple[tuple[str, Callable[[planning.Row], float]], ...] = (
        (error, lambda row: row.noise if private else row.variance),
        ("P(a round loses a cluster)", lambda row: max(row.p_lost, _FLOOR)),
        ("P(more than f colluding mates, in the run)", lambda row: max(row.p_exceeded, _FLOOR)),
    )
    folded = [
        f"{name}: {'at most ' if same <= _FLOOR else ''}{digits(same)} for all {len(plan.rows)} plans"
        for name, value in panels
        if (same := style.constant([value(row) for row in plan.rows])) is not None
    ]
    drawn = [
        (name, value) for name, value in panels if style.constant([value(row) for row in plan.rows]) is None
    ]
    kinds = sorted({_kind(row) for row in plan.rows})
    demand = plan.demand
    title = style.wrap_text(
        f"Plans for {demand.parties} parties: {demand.colluders} collude, {demand.liars} lie ({demand.case}"
        f" case), {100 * demand.dropout:g} % drop out, k = {demand.k}",
        _PAGE - 2 * _MARGIN,
        style.TITLE,
    )
    notes = [*folded, "Numbers: rows of the plan. Ring: the chosen row."]
    legend = style.legend_height(kinds, _PAGE - 2 * _MARGIN) if drawn else 0.0
    top, foot = 0.45 + 0.18 * style.lines_of([title]), 0.15 + 0.16 * len(notes) + legend
    inner = _INNER if drawn else 0.0
    height = top + inner + foot + (0.55 if drawn else 0.0)
    # Fixed places: an automatic layout takes longer than all the rest.
    figure = canvas.blank(_PAGE, height)
    figure.text(_MARGIN / _PAGE, 1 - 0.12 / height, title, fontsize=style.TITLE, weight="bold", va="top")
    across = (_PAGE - _MARGIN) / max(1, len(drawn))
    for at, (name, value) in enumerate(drawn):
        place = (_MARGIN + at * across, foot + 0.55, across - _BETWEEN, inner)
        axes = figure.add_axes((place[0] / _PAGE, place[1] / height, place[2] / _PAGE, place[3] / height))
        _panel(axes, plan, chosen, style.wrap_text(name, across - _BETWEEN, style.PANEL), value)
    if drawn:
        handles, labels = figure.axes[0].get_legend_handles_labels()
        style.legend_below(figure, handles, labels, _MARGIN, foot, _PAGE - 2 * _MARGIN)
    for at, note in enumerate(reversed(notes)):
        figure.text(_MARGIN / _PAGE, (0.1 + 0.16 * at) / height, note, fontsize=style.NOTE, color=style.SOFT)
    return canvas.render(figure)


def _panel(
    axes: Axes, plan: planning.Plan, chosen: int, name: str, value: Callable[[planning.Row], float]
) -> None:
    kinds = sorted({_kind(row) for row in plan.rows})
    for number, row in enumerate(plan.rows):
        place = (row.bytes / 1000, value(row))
        colour = style.COLOURS[kinds.index(_kind(row)) % len(style.COLOURS)]
        axes.plot(*place, "o", color=colour, markersize=5)
        if number == chosen:
            axes.plot(*place, "o", markersize=12, fillstyle="none", color=style.SOFT)
    for index, kind in enumerate(kinds):
        axes.plot([], [], "o", color=style.COLOURS[index % len(style.COLOURS)], label=kind)
    if all(value(row) > 0 for row in plan.rows):
        axes.set_yscale("log")
    axes.set_xlabel("kB per party and round")
    axes.set_title(name, fontsize=style.PANEL, loc="left", pad=4)
    style.tidy(axes)
    _number(axes, [(row.bytes / 1000, value(row)) for row in plan.rows])


def _number(axes: Axes, points: Sequence[tuple[float, float]]) -> None:
    """Write the rows' numbers beside their points, where they cover neither each other nor a point.

    Rows at one point share a text. A number without a free place is left out: the plan's table has all rows.
    """
    axes.margins(0.12)
    axes.autoscale_view()
    scale = 72 / axes.figure.dpi
    shared: dict[tuple[int, int], list[int]] = {}
    for number, point in enumerate(points, 1):
        x, y = axes.transData.transform(point) * scale
        shared.setdefault((round(x / 4), round(y / 4)), []).append(number)
    taken = [(4.0 * x - 3, 4.0 * y - 3, 4.0 * x + 3, 4.0 * y + 3) for x, y in shared]
    for (x, y), numbers in shared.items():
        text = ", ".join(map(str, numbers[:4])) + (", ..." if len(numbers) > 4 else "")
        for right, up in _PLACES:
            left, low = 4.0 * x + right, 4.0 * y + up
            box = left, low, left + 4.8 * len(text), low + 7
            if not any(_meet(box, other) for other in taken):
                taken.append(box)
                at = points[numbers[0] - 1]
                axes.annotate(
                    text,
                    at,
                    xytext=(right, up),
                    textcoords="offset points",
                    fontsize=7,
                    annotation_clip=False,
                )
                break


def _meet(one: tuple[float, ...], other: tuple[float, ...]) -> bool:
    return one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3]


def _kind(row: planning.Row) -> str:
    shape = row.design.shape
    kind = ", atoms" if shape.atoms > 1 else ", new work" if shape.new_work else ""
    return f"R = {shape.reclusterings}{kind}"
