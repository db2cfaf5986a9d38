"""Plots: a PNG file of what was measured, the same one for the same numbers."""

from __future__ import annotations

import io
from statistics import stdev

import pytest
from matplotlib.image import imread

from securefl.base.errors import ConfigError
from securefl.lab.plots import figures
from securefl.lab.plots.figures import (
    HeatMap,
    Histograms,
    Line,
    Plot,
    Series,
    SweepPlot,
    draw,
    draw_heat_map,
    draw_histograms,
    draw_sweep,
)

LINES = (
    Line("no attack", ((0.1, 0.5, 0.8), (0.1, 0.6, 0.82)), baseline=True),
    Line("attack", ((0.1, 0.3, 0.4), (0.1, 0.2))),
)
PLOT = Plot(title="a title", notes=("desk scale",), rounds=3, lines=LINES)


def test_the_same_plot_gives_the_same_file_and_another_gives_another() -> None:
    first = draw(PLOT)
    assert first.startswith(b"\x89PNG\r\n\x1a\n")
    assert draw(PLOT) == first
    warned = Plot(title="a title", notes=("desk scale",), warning="LEAKAGE", rounds=3, lines=LINES)
    fewer = Plot(title="a title", notes=("desk scale",), rounds=3, lines=LINES[:1])
    assert len({first, draw(warned), draw(fewer)}) == 3


def test_notes_and_titles_of_any_length_make_room() -> None:
    short = imread(io.BytesIO(draw(PLOT)))
    long = imread(io.BytesIO(draw(Plot(title="t " * 90, notes=("n " * 200,), rounds=3, lines=LINES))))
    assert short.shape[1] == long.shape[1]
    assert short.shape[0] < long.shape[0]


def test_a_curve_is_the_mean_with_its_deviation_and_an_ended_seed_keeps_its_last() -> None:
    rounds, low, mean, high = figures._band(((0.25, 0.5, 0.75), (0.75, 0.25)))
    assert (rounds, mean) == ([1, 2, 3], [0.5, 0.375, 0.5])
    spreads = [stdev(two) for two in ((0.25, 0.75), (0.5, 0.25), (0.75, 0.25))]
    assert low == pytest.approx([m - s for m, s in zip(mean, spreads, strict=True)])
    assert high == pytest.approx([m + s for m, s in zip(mean, spreads, strict=True)])
    assert figures._band(((0.5,),)) == ([1], [0.5], [0.5], [0.5])


@pytest.mark.parametrize("value", [0.0, 0.5, 1.0])
def test_one_round_and_flat_curves_can_be_drawn(value: float) -> None:
    assert draw(Plot(title="x", rounds=1, lines=(Line("only", ((value,),)),)))


@pytest.mark.parametrize("value", [None, 0.0, 1.0])
def test_a_heat_map_is_the_same_for_the_same_table_and_shows_what_is_not_there(value: float | None) -> None:
    def table(low: float | None) -> HeatMap:
        return HeatMap(
            title="a title",
            row_name="rule",
            column_name="attack",
            rows=("mean", "krum"),
            columns=("none", "alie"),
            values=((0.9, low), (value, value)),
            texts=(("0.900", ""), ("", "")),
        )

    first = draw_heat_map(table(0.1))
    assert first.startswith(b"\x89PNG\r\n\x1a\n")
    assert draw_heat_map(table(0.1)) == first
    assert draw_heat_map(table(None)) != first


@pytest.mark.parametrize(("parties", "classes"), [(1, 2), (7, 73)])
def test_histograms_are_the_same_for_the_same_shares(parties: int, classes: int) -> None:
    def table(first: float) -> Histograms:
        even = (1 / classes,) * classes
        own = (first, *[(1 - first) / (classes - 1)] * (classes - 1))
        names = tuple(f"p{index}" for index in range(parties))
        return Histograms(title="a title", names=names, shares=(own,) * parties, overall=even)

    drawn = draw_histograms(table(0.25))
    assert drawn.startswith(b"\x89PNG\r\n\x1a\n")
    assert draw_histograms(table(0.25)) == drawn
    assert draw_histograms(table(0.75)) != drawn


def test_more_histograms_take_more_room() -> None:
    def height(parties: int) -> int:
        table = Histograms(
            title="x",
            names=tuple(map(str, range(parties))),
            shares=((0.5, 0.5),) * parties,
            overall=(0.5, 0.5),
        )
        return int(imread(io.BytesIO(draw_histograms(table))).shape[0])

    assert height(5) < height(6) < height(11)


def test_a_sweep_is_the_same_for_the_same_numbers_and_leaves_out_what_is_not_there() -> None:
    def sweep(*values: tuple[float, ...]) -> SweepPlot:
        lines = (Series("reference", ((0.8,), (0.9,)), baseline=True), Series("attacked", values))
        return SweepPlot(title="a title", column_name="epsilon", columns=("1/8", "2"), lines=lines)

    first = draw_sweep(sweep((0.5, 0.6), (0.8, 0.9)))
    assert first.startswith(b"\x89PNG\r\n\x1a\n")
    assert draw_sweep(sweep((0.5, 0.6), (0.8, 0.9))) == first
    assert len({first, draw_sweep(sweep((), (0.8, 0.9))), draw_sweep(sweep((), ()))}) == 3


def test_without_matplotlib(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _name: None)
    with pytest.raises(
        ConfigError, match=r"need matplotlib, which is not installed \(pip install 'securefl\[plots\]'\)"
    ):
        draw(PLOT)
