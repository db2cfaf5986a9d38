"""Plot of a plan's rows: error and risk over bytes."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from securefl.lab import planning
from securefl.lab.plots import canvas

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_FLOOR: Final = 1e-6


def draw_plan(plan: planning.Plan, chosen: int) -> bytes:
    """Return a PNG file of numbered rows, the chosen one (from 0) ringed.

    Raises:
        ConfigError: matplotlib is missing.
    """
    # Fixed places: an automatic layout takes longer than all the rest.
    figure = canvas.blank(11.0, 4.2)
    private = plan.demand.epsilon is not None
    error = "noise of the aggregate / sensitivity" if private else "variance of the aggregate / an update's"
    panels: tuple[tuple[str, Callable[[planning.Row], float]], ...] = (
        (error, lambda row: row.noise if private else row.variance),
        ("P(a round loses a cluster)", lambda row: max(row.p_lost, _FLOOR)),
        ("P(more than f colluding mates, in the run)", lambda row: max(row.p_exceeded, _FLOOR)),
    )
    grid = figure.subplots(1, len(panels))
    figure.subplots_adjust(left=0.07, right=0.985, bottom=0.2, top=0.9, wspace=0.32)
    for axes, (name, value) in zip(grid, panels, strict=True):
        _panel(axes, plan, chosen, name, value)
    handles, labels = grid[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="lower center", ncols=6, frameon=False, fontsize=8)
    demand = plan.demand
    figure.suptitle(
        f"Plans for {demand.parties} parties: {demand.colluders} collude, {demand.liars} lie ({demand.case}"
        f" case), {100 * demand.dropout:g} % drop out, k = {demand.k}",
        fontsize=10,
        weight="bold",
    )
    return canvas.render(figure)


def _panel(
    axes: Axes, plan: planning.Plan, chosen: int, name: str, value: Callable[[planning.Row], float]
) -> None:
    kinds = sorted({_kind(row) for row in plan.rows})
    for number, row in enumerate(plan.rows):
        place = (row.bytes / 1000, value(row))
        colour = canvas.COLOURS[kinds.index(_kind(row)) % len(canvas.COLOURS)]
        axes.plot(*place, "o", color=colour, markersize=6)
        axes.annotate(str(number + 1), place, xytext=(3, 4), textcoords="offset points", fontsize=7)
        if number == chosen:
            axes.plot(*place, "o", markersize=12, fillstyle="none", color="black")
    for index, kind in enumerate(kinds):
        axes.plot([], [], "o", color=canvas.COLOURS[index % len(canvas.COLOURS)], label=kind)
    if all(value(row) > 0 for row in plan.rows):
        axes.set_yscale("log")
    axes.set_xlabel("kB per party and round")
    axes.set_ylabel(name)
    axes.grid(visible=True, color="#DDDDDD", linewidth=0.6)
    axes.set_axisbelow(True)


def _kind(row: planning.Row) -> str:
    shape = row.design.shape
    kind = ", atoms" if shape.atoms > 1 else ", new work" if shape.new_work else ""
    return f"R = {shape.reclusterings}{kind}"
