"""Experiment files: families of a paper's tables and figures that differ in a few settings.

A *study* (``_study.toml``) has the settings and data sets that a paper's experiments share. An *experiment*
(another file there without an underscore) has axes, whose product makes the cells. Its *items* are numbered
tables and figures with changes and published numbers. Changes are ``--set`` overrides with ``$names``
(:mod:`securefl.lab.experiments.quantities`).

A *panel* (a figure of single curves) and a *comparison* (with its own scenario, of no paper) are short forms.
Reference: ``docs/reproduce.md``.
"""

from itertools import product
from math import prod
from typing import Annotated, Any, Final, Literal, NamedTuple

from msgspec import Meta, field

from securefl.lab.experiments.claims import AnyClaim, Labels, Text
from securefl.scenario import FileTable, Positive, PositiveReal

ScaleName = Literal["desk", "paper"]
Kind = Literal["table", "figure"]
Shows = Literal["table", "lines", "curves", "labels", "sizes", "caps"]
SPLITS: Final = frozenset({"labels", "sizes", "caps"})
"""Presentations of a data split, without simulation."""
JOINT: Final = ", "
Label = Annotated[str, Meta(min_length=1, max_length=40)]
Overrides = tuple[str, ...]
"""Overrides ``"path=value"`` as for ``--set``."""
Values = dict[str, int | float | str]
"""Values of ``$names``. Later sources win: study, data set, sheet, scale, item, choices."""
Numbers = tuple[tuple[float | None, ...], ...]
"""Numbers by row: the last axis gives columns, the others rows. None: not in the paper."""
Place = tuple[str, ...]
"""Choice along each axis; empty for a cell apart."""


class StudyDataset(FileTable, frozen=True, kw_only=True):
    """Data set of a study."""

    name: Annotated[str, Meta(pattern=r"^[a-z][a-z0-9-]{0,31}$")]
    """Empty if an experiment's scenario names the data, or there are none."""
    title: Text
    place: str = ""
    """File or folder below the data directory; empty if it comes with the program."""
    scheme: Literal["", "npz:", "folder:"] = ""
    """Prefix of the path in ``data.set`` and ``--dataset``; empty if ``data.set`` is the name."""
    remedy: str = ""
    """Source of its files."""
    unavailable: str = ""
    """Reason why the committed results lack it; for the page."""
    values: Values = field(default_factory=dict)
    overrides: Overrides = ()
    at: dict[ScaleName, Overrides] = field(default_factory=dict)
    notes: dict[ScaleName, str] = field(default_factory=dict)
    """Omissions at a scale, for sheets that show a split."""


UNNAMED: Final = StudyDataset(name="", title="-")
"""Data set of an experiment whose scenario names the data."""


class Study(FileTable, frozen=True, kw_only=True):
    """Settings that all experiments of a paper share."""

    title: Text
    about: str = ""
    """Meaning, unless accuracies."""
    chosen: tuple[Text, ...] = ()
    """Settings that the paper omits or gives twice, with our choice."""
    ours: bool = False
    """True if there is no such paper."""
    values: Values = field(default_factory=dict)
    overrides: Overrides = ()
    datasets: Annotated[tuple[StudyDataset, ...], Meta(min_length=1)]


class Choice(FileTable, frozen=True, kw_only=True):
    """Alternative along an axis."""

    label: Label
    overrides: Overrides = ()
    values: Values = field(default_factory=dict)
    baseline: bool = False
    """True for a reference: drawn apart, grey and dashed."""


class Dimension(FileTable, frozen=True, kw_only=True):
    """Varied setting and its values."""

    name: Label
    choices: Annotated[tuple[Choice, ...], Meta(min_length=1)]


class CellChoice(NamedTuple):
    """Cell: a choice of each axis, or one apart from them."""

    levels: tuple[Choice, ...]
    place: Place
    label: str
    """Label in claims and plots: ``60 %, 1/2``."""

    @property
    def baseline(self) -> bool:
        """True if one of its choices is a baseline."""
        return any(level.baseline for level in self.levels)


class RunScale(FileTable, frozen=True, kw_only=True):
    """Size of an experiment."""

    scenario: Annotated[str, Meta(pattern=r"^_[a-z0-9-]+\.toml$")]
    """File, beside this one, that all cells start from; its description goes under the plot."""
    overrides: Overrides = ()
    note: str = ""
    """Omissions, for plot and page."""
    values: Values = field(default_factory=dict)
    keep: dict[str, Labels] = field(default_factory=dict)
    """Choices by axis; default: all."""


class Quoted(FileTable, frozen=True, kw_only=True):
    """Number that the paper prints of another method: shown, not compared."""

    what: Text
    accuracy: float


class Auxiliary(FileTable, frozen=True, kw_only=True):
    """Further data set that an item needs as ``$auxiliary``."""

    place: Text
    """File or folder below the data directory."""
    scheme: Literal["npz:", "folder:"]
    remedy: str = ""


class Item(FileTable, frozen=True, kw_only=True):
    """Numbered table or figure."""

    kind: Kind
    number: Annotated[str, Meta(pattern=r"^(?!all$)([0-9]{1,2}|[A-Z][0-9]|[a-z]{1,12}(-[a-z]{1,12})?)$")]
    """Number in the paper (in an appendix ``A1``), or a letter or word. Not ``all``."""
    title: Text
    """Title among the sheet's items."""
    ours: bool = False
    """True if not in the paper."""
    only: tuple[Text, ...] = ()
    """Default: all data sets of the study."""
    values: Values = field(default_factory=dict)
    overrides: Overrides = ()
    auxiliary: Auxiliary | None = None
    published: dict[str, Numbers] = field(default_factory=dict)
    """By data set."""
    spread: dict[str, Numbers] = field(default_factory=dict)
    """Numbers behind plus-minus signs, by data set."""
    quoted: tuple[Quoted, ...] = ()
    claims: tuple[AnyClaim, ...] = ()
    claims_on: dict[str, tuple[AnyClaim, ...]] = field(default_factory=dict)

    def claims_about(self, dataset: str) -> tuple[AnyClaim, ...]:
        """Return the item's claims about a data set."""
        return (*self.claims, *self.claims_on.get(dataset, ()))

    @property
    def key(self) -> str:
        """Key in file names: ``table-15``."""
        return f"{self.kind}-{self.number}"


class Experiment(FileTable, frozen=True, kw_only=True):
    """Family of tables and figures."""

    title: Text
    claim: Text
    """About all of them, in our words."""
    settings: Text
    """Settings that the paper gives, and where."""
    chosen: tuple[Text, ...] = ()
    """Settings that the paper omits or gives twice, with our choice."""
    ours: tuple[Text, ...] = ()
    """Parts that are not in the paper."""
    findings: str = ""
    shows: Shows = "table"
    """Presentation: a heat map; lines over the last axis; or accuracy by round. Without simulation, the
    split: ``labels``, distance from equal classes, histograms of the last cell; ``sizes``, histogram of
    samples per party; ``caps``, truncation of counts, U over alpha.
    """
    last: Positive = 10
    """Rounds at the end whose mean accuracy is final."""
    every: Positive = 25
    """Rounds between tests of the model, before the last ones. A test costs about as much as a round."""
    tolerance: PositiveReal = 0.03
    """Largest distance from the paper's number that agrees; the paper's spread also counts."""
    values: Values = field(default_factory=dict)
    overrides: Overrides = ()
    site: str = ""
    """``module:name`` of sites that measure ``stop.metric``."""
    axes: Annotated[tuple[Dimension, ...], Meta(min_length=1)]
    apart: tuple[Choice, ...] = ()
    """Cells outside the product of axes."""
    scale: Annotated[dict[ScaleName, RunScale], Meta(min_length=1)]
    items: Annotated[tuple[Item, ...], Meta(min_length=1)]
    claims: tuple[AnyClaim, ...] = ()

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns of the whole table."""
        *others, across = (len(axis.choices) for axis in self.axes)
        return prod(others), across

    def cells(self, joint: str = JOINT) -> tuple[CellChoice, ...]:
        """Return all cells, row by row, then those apart from the axes."""
        places = product(*(axis.choices for axis in self.axes)) if self.axes else ()
        made = [(levels, tuple(level.label for level in levels)) for levels in places]
        return (
            *(CellChoice(levels, place, joint.join(place)) for levels, place in made),
            *(CellChoice((level,), (), level.label) for level in self.apart),
        )

    def cells_at(self, scale: ScaleName, joint: str = JOINT) -> tuple[CellChoice, ...]:
        """Return the cells of a scale."""
        keep = self.scale[scale].keep
        names = [axis.name for axis in self.axes]
        return tuple(
            cell
            for cell in self.cells(joint)
            if all(label in keep.get(name, (label,)) for name, label in zip(names, cell.place, strict=False))
        )

    def number_at(self, numbers: Numbers, cell: CellChoice) -> float | None:
        """Return the entry of a table like :attr:`Item.published` for one of :meth:`cells`."""
        index = [one.label for one in self.cells()].index(cell.label)
        row, column = divmod(index, self.shape[1])
        return numbers[row][column]


class Panel(FileTable, frozen=True, kw_only=True):
    """Short form for a figure of single curves on one scenario's data."""

    panel: Annotated[str, Meta(pattern=r"^[0-9]{1,2}[a-z]?$")]
    title: Text
    claim: Text
    settings: Text
    chosen: tuple[Text, ...] = ()
    ours: tuple[Text, ...] = ()
    findings: str = ""
    last: Positive = 5
    scale: Annotated[dict[ScaleName, RunScale], Meta(min_length=1)]
    overrides: Overrides = ()
    curves: Annotated[tuple[Choice, ...], Meta(min_length=1)]
    claims: tuple[AnyClaim, ...] = ()

    def whole(self) -> Experiment:
        """Return it as an experiment."""
        return Experiment(
            title=self.title,
            claim=self.claim,
            settings=self.settings,
            chosen=self.chosen,
            ours=self.ours,
            findings=self.findings,
            shows="curves",
            last=self.last,
            every=1,
            overrides=self.overrides,
            axes=(Dimension(name="curve", choices=self.curves),),
            scale=self.scale,
            items=(Item(kind="figure", number=self.panel, title=self.title),),
            claims=self.claims,
        )


class Comparison(FileTable, frozen=True, kw_only=True):
    """Short form for all combinations of choices (rule x attack x clustering x split)."""

    title: Text
    last: Positive = 5
    scenario: dict[str, Any]
    site: str = ""
    """``module:name``, if the model is ``weights``."""
    axes: tuple[Dimension, ...] = ()
    curves: tuple[Choice, ...] = ()
    claims: tuple[AnyClaim, ...] = ()

    def whole(self, name: str) -> Experiment:
        """Return it as an experiment with one table of this name."""
        return Experiment(
            title=self.title,
            claim="-",
            settings="-",
            shows="table" if len(self.axes) > 1 else "curves",
            last=self.last,
            every=1,
            site=self.site,
            axes=self.axes,
            apart=self.curves,
            scale={"desk": RunScale(scenario="_inside.toml")},
            items=(Item(kind="table", number=name, title=self.title),),
            claims=self.claims,
        )
