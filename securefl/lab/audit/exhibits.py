"""Tables and plots of an audit as values. Only reconstructions, in lab mode, contain secrets."""

from dataclasses import dataclass

from securefl.base.errors import UsageError

Cell = str | int | float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """Rows of cells. Floats are written with four digits, None as a dash."""

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
    """Points of one curve, in order."""

    label: str
    x: tuple[float, ...]
    y: tuple[float, ...]
    predicted: bool = False
    """True if theory or simulation predicted it: a broken line."""
    dots: bool = False

    def __post_init__(self) -> None:
        if len(self.x) != len(self.y):
            raise UsageError(
                f"curve {self.label!r} must have as many x as y values, found {len(self.x)} and {len(self.y)}"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditPlot:
    """Curves over common axes. Logarithmic axes omit values <= 0."""

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
    """True to draw x = y, as for a ROC."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditHeatMap:
    """Values as colours from ``low`` to ``high``; None is a gap."""

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
    """Grey values 0 to 255 with a caption."""

    caption: str
    pixels: tuple[tuple[int, ...], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Pictures:
    """Rows of small pictures, such as originals above reconstructions."""

    title: str
    rows: tuple[tuple[Picture, ...], ...]
    note: str = ""


Exhibit = Table | AuditPlot | AuditHeatMap | Pictures
