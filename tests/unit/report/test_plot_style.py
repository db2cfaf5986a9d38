"""All plots: no text leaves the picture or covers another, legends cover no data, constants are text."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from typing import TYPE_CHECKING

import pytest
from matplotlib.text import Text

import securefl
from securefl.lab import planning, plots
from securefl.lab.audit.exhibits import AuditHeatMap, AuditPlot, Curve
from securefl.lab.audit.plots import heat_map_html, plot_html
from securefl.lab.plots import canvas, figures, style
from securefl.lab.plots.figures import HeatMap, Histograms, Line, Plot, Series, SweepPlot
from securefl.lab.plots.plan_figure import draw_plan
from securefl.lab.plots.run_figure import RunPlot, Trace, draw_run, run_plot
from securefl.scenario.load import parse_scenario
from tests.unit.report.test_run_picture import record

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from matplotlib.transforms import Bbox

TITLE = (
    "A title of a plot that is longer than the plot is wide, as those of papers with data and scale are: " * 2
)
NOTES = ("A note on the scale.", "A caption with the measure, the spread over seeds and the data; " * 4)
LABELS = tuple(f"rule {number}, with a pre-aggregation and an attack against it" for number in range(9))
ROUNDS = tuple(range(20))


def decay(number: int) -> tuple[float, ...]:
    return tuple(math.exp(-at / (5 + number)) + 0.02 * ((at * 7 + number) % 5) for at in ROUNDS)


def thirteen_panels() -> bytes:
    traces = [Trace(name, decay(at)) for at, name in enumerate(("accuracy", "loss"))]
    names = (f"a long name of a metric, {at} of the sites / cases per 1000 (%)" for at in range(10))
    traces += [Trace(name, decay(at)) for at, name in enumerate(names)]
    spread = tuple(one - 0.1 for one in decay(3)), tuple(one + 0.1 for one in decay(3))
    traces.append(Trace("scores.auc", decay(3), *spread, best=17))
    traces += [Trace("exposed", (0.25,) * 20), Trace("destroyed", (math.nan,) * 20)]
    return draw_run(
        RunPlot(title=TITLE.replace(" ", "-"), rounds=ROUNDS, traces=tuple(traces), void=(4, 5, 11))
    )


def curves() -> bytes:
    lines = [Line(label, (decay(at), decay(at + 1)), at == 0) for at, label in enumerate(LABELS)]
    return figures.draw(
        Plot(title=TITLE, notes=NOTES, warning="A warning.", rounds=20, lines=tuple(lines), value_name="loss")
    )


def sweep() -> bytes:
    columns = tuple(f"attack {at} of a paper" for at in range(6))
    lines = tuple(
        Series(label, tuple((0.1 * at + 0.05 * column, 0.1 * at) for column in range(6)))
        for at, label in enumerate(LABELS)
    )
    return figures.draw_sweep(
        SweepPlot(title=TITLE, notes=NOTES, column_name="attack", columns=columns, lines=lines)
    )


def heat_map(*values: float) -> bytes:
    texts = tuple((f"{value:.3f} (0.91)\n± 0.012",) * 6 for value in values)
    return figures.draw_heat_map(
        HeatMap(
            title=TITLE, notes=NOTES, row_name="rule", column_name="attack",
            rows=tuple(f"geometric median with buckets of {at} and clipping" for at in range(len(values))),
            columns=tuple(f"inner product {at}" for at in range(6)),
            values=tuple((value,) * 6 for value in values), texts=texts,
        )
    )  # fmt: skip


def histograms() -> bytes:
    shares = tuple(tuple(((at * 3 + label) % 7) / 30 for label in range(10)) for at in range(13))
    names = tuple(f"hospital {at} of the north" for at in range(13))
    return figures.draw_histograms(
        Histograms(title=TITLE, notes=NOTES, names=names, shares=shares, overall=(0.1,) * 10)
    )


def caps() -> bytes:
    points = {
        label: [(0.1 * at, 4500.0 / (at + number + 1)) for at in range(5)]
        for number, label in enumerate(LABELS[:5])
    }
    return figures.draw_caps(TITLE, NOTES, points, (0.2, 1500.0))


def sizes() -> bytes:
    return figures.draw_sizes(TITLE, NOTES, [1, 5, 9, 40, 41, 700])


@cache
def plan_of(dropout: float) -> planning.Plan:
    return securefl.plan(parties=60, byzantine=0.05, colluders=2, dropout=dropout)


def plan() -> bytes:
    found = plan_of(0.02)
    return draw_plan(found, found.chosen)


def audit_plot() -> bytes:
    shown = [
        Curve(label=label * 3, x=tuple(map(float, ROUNDS)), y=decay(at), predicted=at > 2)
        for at, label in enumerate(LABELS[:4])
    ]
    plot_html(
        AuditPlot(title="t", x_name="round", y_name="epsilon spent", curves=tuple(shown), diagonal=True)
    )
    return b""


def audit_map() -> bytes:
    names = tuple(f"p{at:02}" for at in range(13))
    values = tuple(tuple((row * at % 7) / 7 for at in range(60)) for row in range(13))
    heat_map_html(
        AuditHeatMap(
            title="t",
            row_name="party",
            column_name="round",
            rows=names,
            columns=tuple(map(str, range(60))),
            values=values,
        )
    )
    return b""


DRAWN: dict[str, Callable[[], bytes]] = {
    "thirteen panels": thirteen_panels, "curves": curves, "sweep": sweep,
    "heat map": lambda: heat_map(0.5, 0.75, 0.9), "constant map": lambda: heat_map(0.5, 0.5),
    "histograms": histograms, "caps": caps, "sizes": sizes, "plan": plan, "audit plot": audit_plot,
    "audit map": audit_map,
}  # fmt: skip


def figure_of(monkeypatch: pytest.MonkeyPatch, draw: Callable[[], bytes]) -> Figure:
    seen: list[Figure] = []

    def keep(figure: Figure, kind: str = "png") -> bytes:
        figure.canvas.draw()
        seen.append(figure)
        return b""

    # The lazy package first: it would take the replaced function of the others for its own.
    for module in (plots, canvas, figures):
        monkeypatch.setattr(module, "render", keep)
    draw()
    (figure,) = seen
    return figure


def texts_of(figure: Figure) -> Iterator[tuple[str, Bbox]]:
    """Yield each visible text with its box in pixels."""
    ticks = set()
    for axes in (*figure.axes, *(child for one in figure.axes for child in one.child_axes)):
        for axis, limits in ((axes.xaxis, axes.get_xlim()), (axes.yaxis, axes.get_ylim())):
            low, high = sorted(limits)
            for tick in (*axis.get_major_ticks(), *axis.get_minor_ticks()):
                if not low <= tick.get_loc() <= high or not axes.axison:
                    ticks |= {tick.label1, tick.label2}
    for text in figure.findobj(Text):
        if text.get_visible() and text.get_text().strip() and text not in ticks:
            yield text.get_text(), text.get_window_extent()


def overlap(one: Bbox, other: Bbox) -> float:
    width = min(one.x1, other.x1) - max(one.x0, other.x0)
    height = min(one.y1, other.y1) - max(one.y0, other.y0)
    return float(min(width, height))


def faults(figure: Figure) -> list[str]:
    found, shown = [], list(texts_of(figure))
    width, height = figure.get_size_inches() * figure.dpi
    for text, box in shown:
        if box.x0 < 0 or box.y0 < 0 or box.x1 > width or box.y1 > height:
            found.append(f"{text!r} leaves the picture")
    for (text, box), (other, other_box) in itertools.combinations(shown, 2):
        if overlap(box, other_box) > 1:
            found.append(f"{text!r} and {other!r} overlap")
    for legend in (*figure.legends, *(one for axes in figure.axes if (one := axes.get_legend()))):
        area = legend.get_window_extent()
        found += [
            "the legend covers data" for axes in figure.axes if overlap(area, axes.get_window_extent()) > 0
        ]
    return found


@pytest.mark.parametrize("name", DRAWN)
def test_no_text_leaves_the_picture_or_covers_another(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    figure = figure_of(monkeypatch, DRAWN[name])
    assert len(list(texts_of(figure))) >= 2
    assert faults(figure) == []


def test_faults_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    figure = figure_of(monkeypatch, sizes)
    figure.axes[0].plot([1, 9], [1, 1], label="a line")
    figure.axes[0].legend(loc="upper right")
    figure.text(0.9, 0.5, "a text that is longer than the room to its right")
    figure.text(0.1, 0.52, "one")
    figure.text(0.1, 0.52, "another")
    figure.canvas.draw()
    found = " ".join(faults(figure))
    for fault in ("leaves the picture", "'one' and 'another' overlap", "the legend covers data"):
        assert fault in found


def sentences(figure: Figure) -> str:
    return " ".join(" ".join(text.split()) for text, _ in texts_of(figure))


def test_a_constant_metric_is_a_line_of_text(monkeypatch: pytest.MonkeyPatch) -> None:
    figure = figure_of(monkeypatch, thirteen_panels)
    assert len(figure.axes) == 13
    told = sentences(figure)
    assert "exposed: 0.25 in 20 measured rounds" in told
    assert "destroyed: no finite value in 20 rounds" in told
    assert "Dotted: round 17, whose model was kept." in told


def test_void_rounds_are_grey_in_each_panel_and_named(monkeypatch: pytest.MonkeyPatch) -> None:
    figure = figure_of(monkeypatch, thirteen_panels)
    for axes in figure.axes:
        grey = [one for one in axes.patches if one.get_facecolor()[:3] == pytest.approx((0xE4 / 255,) * 3)]
        assert [one.get_extents().transformed(axes.transData.inverted()).x0 for one in grey] == pytest.approx(
            [3.5, 4.5, 10.5]
        )
    assert "3 rounds whose step was void, so that the model was not changed: 4, 5, 11." in sentences(figure)


def test_void_rounds_are_those_that_verifiers_did_not_confirm() -> None:
    rows = [record(at, 0.1 * at) for at in range(3)]
    rows[2] = rows[2].__class__(
        **{name: getattr(rows[2], name) for name in rows[2].__slots__} | {"claims": {0: "", 1: "no quorum"}}
    )
    assert run_plot(parse_scenario('name = "x"\nparties = 6\n'), rows).void == (1,)


def test_constant_maps_are_a_line_of_text(monkeypatch: pytest.MonkeyPatch) -> None:
    folded = figure_of(monkeypatch, lambda: heat_map(0.5, 0.5))
    assert "All 12 values by rule and attack: 0.500 (0.91) ± 0.012" in sentences(folded)
    assert not folded.axes[0].images
    assert figure_of(monkeypatch, lambda: heat_map(0.5, 0.75)).axes[0].images

    def of(*values: float | None) -> str:
        columns = tuple(map(str, range(len(values))))
        return heat_map_html(
            AuditHeatMap(
                title="t", row_name="r", column_name="c", rows=("a",), columns=columns, values=(values,)
            )
        )

    assert "t: 0.5 in all 3 cells, by r and c" in of(0.5, 0.5, 0.5)
    for changing in (of(0.5, 0.5, 0.75), of(0.5, 0.5, None)):
        assert "<img" in changing


def test_a_constant_panel_of_a_plan_is_a_line_of_text(monkeypatch: pytest.MonkeyPatch) -> None:
    found = plan_of(0.0)
    assert len(found.rows) > 1
    assert {row.p_lost for row in found.rows} == {0.0}
    figure = figure_of(monkeypatch, lambda: draw_plan(found, 0))
    assert f"P(a round loses a cluster): at most 1e-06 for all {len(found.rows)} plans" in sentences(figure)
    assert len(figure.axes) == 1 + (len({row.p_exceeded for row in found.rows}) > 1)


def test_more_curves_than_colours_differ_by_their_strokes(monkeypatch: pytest.MonkeyPatch) -> None:
    (axes,) = figure_of(monkeypatch, curves).axes
    assert len({(line.get_color(), line.get_linestyle()) for line in axes.lines}) == len(LABELS)


def test_metrics_have_their_colours_in_each_plot(monkeypatch: pytest.MonkeyPatch) -> None:
    def colours(names: Sequence[str]) -> list[object]:
        traces = tuple(Trace(name, decay(at)) for at, name in enumerate(names))
        figure = figure_of(monkeypatch, lambda: draw_run(RunPlot(title="x", rounds=ROUNDS, traces=traces)))
        return [axes.lines[0].get_color() for axes in figure.axes]

    assert colours(["loss"]) == colours(["accuracy", "auc", "loss"])[2:]
    assert len({*colours(["accuracy", "loss", "a", "b", "c", "d", "e"])}) == len(style.COLOURS)


def test_units_are_with_the_names(monkeypatch: pytest.MonkeyPatch) -> None:
    titles = [axes.get_title(loc="left") for axes in figure_of(monkeypatch, thirteen_panels).axes]
    assert titles[:2] == ["accuracy (share of the test set)", "loss (nats)"]
