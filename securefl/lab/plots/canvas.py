"""Empty figures and their files.

Matplotlib, an optional extra that loads slowly, is imported with the first figure.
"""

from __future__ import annotations

import importlib.util
import io
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Literal, cast, get_args

from securefl.base.errors import ConfigError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Format = Literal["png", "svg", "pdf"]


def picture_format(path: Path) -> Format:
    """Return the format of a file's suffix.

    Raises:
        ConfigError: another suffix.
    """
    ending = path.suffix.removeprefix(".")
    for kind in get_args(Format):
        if ending == kind:
            return cast("Format", kind)
    raise ConfigError(str(path), "is not a picture file", "choose a name that ends in .png, .svg or .pdf")


def has_matplotlib() -> bool:
    """Return True if the optional extra is installed."""
    return importlib.util.find_spec("matplotlib") is not None


def need_matplotlib() -> None:
    """Raise ConfigError if matplotlib is missing."""
    if not has_matplotlib():
        raise ConfigError(
            "figures", "need matplotlib, which is not installed", "pip install 'securefl[plots]'"
        )


def blank(width: float, height: float) -> Figure:
    """Return an empty figure of this size in inches.

    Raises:
        ConfigError: matplotlib is missing.
    """
    need_matplotlib()
    with _without_cache():
        from matplotlib.backends.backend_agg import FigureCanvasAgg  # noqa: PLC0415 - an optional extra
        from matplotlib.figure import Figure  # noqa: PLC0415 - an optional extra

    figure = Figure(figsize=(width, height), dpi=110)
    FigureCanvasAgg(figure)
    return figure


@contextmanager
def _without_cache() -> Iterator[None]:
    """Silence matplotlib's warning for a user without a home, which names another variable than ours."""
    log = logging.getLogger("matplotlib")
    level = log.level
    log.setLevel(logging.ERROR)
    try:
        yield
    finally:
        log.setLevel(level)


def render(figure: Figure, kind: Format = "png") -> bytes:
    """Return the figure as a file; equal figures give equal bytes."""
    from matplotlib import rc_context  # noqa: PLC0415 - an optional extra

    file = io.BytesIO()
    # Leave out matplotlib's version and the time.
    unsaid = {"png": ("Software",), "pdf": ("CreationDate", "Creator")}
    of_svg = ("Date", "Creator", "Format", "Type")
    with rc_context({"svg.hashsalt": "securefl", "svg.fonttype": "none"}):
        figure.savefig(file, format=kind, metadata=dict.fromkeys(unsaid.get(kind, of_svg)))
    return file.getvalue()
