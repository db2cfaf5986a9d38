"""U over alpha: what is marked, and that its ticks can be read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import pytest

from securefl.lab.plots import figures
from securefl.lab.plots.figures import draw_caps

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def drawn(
    monkeypatch: pytest.MonkeyPatch,
    points: Sequence[tuple[float, float]],
    chosen: tuple[float, float] | None = None,
) -> Axes:
    seen: list[Figure] = []

    def keep(figure: Figure, _kind: str) -> bytes:
        figure.canvas.draw()
        seen.append(figure)
        return b""

    monkeypatch.setattr(figures, "render", keep)
    draw_caps("title", (), {"alpha* = 0.5": points}, chosen)
    return seen[0].axes[0]


def test_the_chosen_alpha_and_its_cap_are_marked(monkeypatch: pytest.MonkeyPatch) -> None:
    axes = drawn(monkeypatch, [(0.4, 3.0), (0.1, 4500.0)], (0.1, 4500.0))
    figure = axes.get_figure(root=True)
    assert figure is not None
    (legend,) = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == ["alpha* = 0.5", "alpha = 0.1: U = 4,500"]
    assert [np.asarray(line.get_xdata()).tolist() for line in axes.lines] == [[0.4, 0.1], [0.1, 0.1], [0.1]]
    unmarked = drawn(monkeypatch, [(0.4, 3.0), (0.1, 4500.0)])
    assert len(unmarked.lines) == 1


@pytest.mark.parametrize("caps", [(1180.0, 1210.0), (5.0, 5.0), (0.5, 1.0), (2.0, 15.0)])
def test_caps_of_about_one_size_have_ticks_in_full(
    caps: tuple[float, float], monkeypatch: pytest.MonkeyPatch
) -> None:
    axes = drawn(monkeypatch, [(0.4, caps[0]), (0.1, caps[1])])
    low, high = axes.get_ylim()
    ticks = [
        text.get_text()
        for text in axes.get_yticklabels()
        if text.get_text() and low <= text.get_position()[1] <= high
    ]
    assert len(ticks) >= 3
    assert all(low <= float(tick.replace(",", "")) <= high for tick in ticks)
