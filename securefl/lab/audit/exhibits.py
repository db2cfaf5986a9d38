"""Tables and plots of an audit as values; :mod:`securefl.lab.audit.page` and its neighbours draw them.

Exhibits contain no secrets, except reconstructions, which are shown in lab mode only.
"""

from dataclasses import dataclass

from securefl.base.errors import UsageError

Cell = str | int | float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """Rows of figures. Floats are written with four digits, None as a dash."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    note: str = ""

    def __post_init__(self) -> None:
        if any(len(row) != len(self.columns) for row in self.rows):
            raise UsageError(
                f"each row of table {self.title!r} must have one cell for each of its {len(self.columns)}"
                " columns"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class Curve:
    """Points of one curve, in the order of the line."""

    label: str
    x: tuple[float, ...]
    y: tuple[float, ...]
    predicted: bool = False
    """True if predicted by theory or simulation: drawn as a broken line."""
    dots: bool = False
    """True for points without a line."""

    def __post_init__(self) -> None:
        if len(self.x) != len(self.y):
            raise UsageError(
                f"curve {self.label!r} must have as many x as y values, found {len(self.x)} and {len(self.y)}"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditPlot:
    """Curves over common axes. Points that a logarithmic axis cannot show are left out."""

    title: str
    x_name: str
    y_name: str
    curves: tuple[Curve, ...]
    note: str = ""
    x_log: bool = False
    y_log: bool = False
    x_range: tuple[float, float] | None = None
    y_range: tuple[float, float] | None = None
    diagonal: bool = False
    """True to draw the line x = y, as for a ROC."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditHeatMap:
    """Values by row and column in colours, from ``low`` to ``high``; None is a gap."""

    title: str
    row_name: str
    column_name: str
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    values: tuple[tuple[float | None, ...], ...]
    low: float = 0.0
    high: float = 1.0
    note: str = ""

    def __post_init__(self) -> None:
        if len(self.values) != len(self.rows) or any(len(row) != len(self.columns) for row in self.values):
            raise UsageError(
                f"the values of heat map {self.title!r} must have one row per row title and one column per"
                " column title"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class Picture:
    """Grey values 0 to 255 by row and column, with a caption."""

    caption: str
    pixels: tuple[tuple[int, ...], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Pictures:
    """Small pictures side by side, such as originals above their reconstructions."""

    title: str
    rows: tuple[tuple[Picture, ...], ...]
    note: str = ""


Exhibit = Table | AuditPlot | AuditHeatMap | Pictures
