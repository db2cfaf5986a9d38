"""Comparison of screenshots that survives another version of the browser or of its fonts."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray
from PIL import Image

SCALE: Final = 2
"""Pixels of a page for one of its reference, in each direction."""
CELL: Final = 4
"""Pixels of a reference that are averaged, in each direction: eight of the page."""
TILE: Final = 6
"""Cells of a tile: 48 pixels of the page."""
COLOURS: Final = 32


@dataclass(frozen=True, slots=True)
class Difference:
    """Difference of two pictures, as a share of black to white."""

    mean: float
    worst: float
    """Difference of the worst tile."""
    height: int
    """Pixels of the page."""


MOST: Final = Difference(mean=0.01, worst=0.04, height=4)
"""Largest difference that passes; docs/adr/0073 has the measured noise."""


def shrink(picture: Image.Image) -> Image.Image:
    """Return the picture as a reference is kept: smaller, with few colours."""
    return _halve(picture).quantize(COLOURS, Image.Quantize.MEDIANCUT, kmeans=4, dither=Image.Dither.NONE)


def _halve(picture: Image.Image) -> Image.Image:
    size = picture.width // SCALE, picture.height // SCALE
    return picture.convert("RGB").resize(size, Image.Resampling.BOX)


def save(picture: Image.Image, file: Path) -> None:
    """Write a reference."""
    file.parent.mkdir(parents=True, exist_ok=True)
    shrink(picture).save(file, optimize=True)


def difference(reference: Image.Image, picture: Image.Image) -> Difference:
    """Return the difference of a reference from a picture of the page.

    Raises:
        ValueError: their widths differ.
    """
    if reference.width != picture.width // SCALE:
        raise ValueError(f"a reference of {reference.width} px for a page of {picture.width} px")
    one, other = _cells(reference), _cells(_halve(picture))
    rows = min(len(one), len(other))
    apart = np.abs(one[:rows] - other[:rows])
    tiles = [
        float(apart[top : top + TILE, left : left + TILE].mean())
        for top in range(0, rows, TILE)
        for left in range(0, apart.shape[1], TILE)
    ]
    height = abs(reference.height * SCALE - picture.height)
    return Difference(float(apart.mean()), max(tiles), height)


def passes(found: Difference) -> bool:
    """Return True if the difference may be that of another rendering of the same page."""
    return found.mean <= MOST.mean and found.worst <= MOST.worst and found.height <= MOST.height


def _cells(picture: Image.Image) -> NDArray[np.float64]:
    grey = np.asarray(picture.convert("L"), dtype=np.float64) / 255
    rows, columns = grey.shape[0] // CELL, grey.shape[1] // CELL
    cut = grey[: rows * CELL, : columns * CELL]
    return np.asarray(cut.reshape(rows, CELL, columns, CELL).mean(axis=(1, 3)))
