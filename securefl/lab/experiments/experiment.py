"""Experiment files: families of a paper's tables and figures that differ in a few settings.

A *study* (``_study.toml`` in the paper's folder) holds the settings and data sets that all experiments of a
paper share. An *experiment* (any other file there without an underscore) has axes, whose product makes the
cells, and *items*: numbered tables and figures with their own changes and the published numbers. Changes are
``--set`` overrides with ``$names`` (:mod:`securefl.lab.experiments.quantities`).

Two short forms exist: a *panel*, a figure whose cells are single curves, and a *comparison*, which holds its
scenario and belongs to no paper. Reference: ``docs/reproduce.md``.
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
"""Separator of the choices in a cell's label."""
Label = Annotated[str, Meta(min_length=1, max_length=40)]
Overrides = tuple[str, ...]
"""Overrides as for ``--set``: ``"path=value"`` each (:mod:`securefl.scenario.overrides`)."""
Values = dict[str, int | float | str]
"""Values of the ``$names`` in overrides. Later sources win: study, data set, sheet, scale, item, choices."""
Numbers = tuple[tuple[float | None, ...], ...]
"""Numbers by row: the last axis gives the columns, all others the rows. None: the paper prints none."""
Place = tuple[str, ...]
"""Label of the choice along each axis; empty for a cell apart from the axes."""


class StudyDataset(FileTable, frozen=True, kw_only=True):
    """Data set of a study."""

    name: Annotated[str, Meta(pattern=r"^[a-z][a-z0-9-]{0,31}$")]
    """Name; empty only if an experiment's scenario names the data, or there are none."""
    title: Text
    """Title in the paper."""
    place: str = ""
    """File or folder below the data directory; empty: it comes with the program."""
    scheme: Literal["", "npz:", "folder:"] = ""
    """Prefix of the path in ``data.set`` and ``--dataset``; empty: ``data.set`` is the name."""
    remedy: str = ""
    """Source of its files."""
    values: Values = field(default_factory=dict)
    overrides: Overrides = ()
    at: dict[ScaleName, Overrides] = field(default_factory=dict)
    notes: dict[ScaleName, str] = field(default_factory=dict)
    """Omissions at one scale, for sheets that show a split. For trained experiments the scenario's
    description states them.
    """


UNNAMED: Final = StudyDataset(name="", title="-")
"""Data set of an experiment whose scenario names the data."""


class Study(FileTable, frozen=True, kw_only=True):
    """Settings that all experiments of a paper share."""

    title: Text
    about: str = ""
    """Meaning of the numbers, if they are not accuracies."""
    chosen: tuple[Text, ...] = ()
    """Settings, common to all experiments, that the paper omits or gives twice, with our choice."""
    ours: bool = False
    """True if no such paper exists."""
    values: Values = field(default_factory=dict)
    overrides: Overrides = ()
    datasets: Annotated[tuple[StudyDataset, ...], Meta(min_length=1)]


class Choice(FileTable, frozen=True, kw_only=True):
    """One alternative along an axis."""

    label: Label
    overrides: Overrides = ()
    values: Values = field(default_factory=dict)
    baseline: bool = False
    """True for the reference of the others: drawn apart, grey and dashed."""


class Dimension(FileTable, frozen=True, kw_only=True):
    """Varied setting and its values."""

    name: Label
    choices: Annotated[tuple[Choice, ...], Meta(min_length=1)]


class CellChoice(NamedTuple):
    """One cell: a choice of each axis, or a choice apart from them."""

    levels: tuple[Choice, ...]
    place: Place
    label: str
    """Label in claims and plots: ``60 %, 1/2``."""

    @property
    def baseline(self) -> bool:
        """True if one of its choices is a baseline."""
        return any(level.baseline for level in self.levels)


class RunScale(FileTable, frozen=True, kw_only=True):
    """Size at which an experiment can be run."""

    scenario: Annotated[str, Meta(pattern=r"^_[a-z0-9-]+\.toml$")]
    """Name of the scenario file, beside this one, that all cells start from. Its description goes under the
    plot.
    """
    overrides: Overrides = ()
    note: str = ""
    """Omissions, for plot and page."""
    values: Values = field(default_factory=dict)
    keep: dict[str, Labels] = field(default_factory=dict)
    """Choices that are run, by the name of an axis; default: all."""


class Quoted(FileTable, frozen=True, kw_only=True):
    """Number that the paper prints of another method. It is shown, but not compared."""

    what: Text
    accuracy: float


class Auxiliary(FileTable, frozen=True, kw_only=True):
    """Further data set that an item needs; ``$auxiliary`` stands for it."""

    place: Text
    """File or folder below the data directory."""
    scheme: Literal["npz:", "folder:"]
    remedy: str = ""


class Item(FileTable, frozen=True, kw_only=True):
    """Numbered table or figure."""

    kind: Kind
    number: Annotated[str, Meta(pattern=r"^(?!all$)([0-9]{1,2}|[A-Z][0-9]|[a-z]{1,12}(-[a-z]{1,12})?)$")]
    """Number in the paper (in an appendix: ``A1``); a letter or a word if it is not in the paper. Not
    ``all``.
    """
    title: Text
    """Title that distinguishes it from the other items of the sheet."""
    ours: bool = False
    """True if it is not in the paper."""
    only: tuple[Text, ...] = ()
    """Data sets that it covers; default: all of the study."""
    values: Values = field(default_factory=dict)
    overrides: Overrides = ()
    auxiliary: Auxiliary | None = None
    published: dict[str, Numbers] = field(default_factory=dict)
    """Numbers of the paper by data set."""
    spread: dict[str, Numbers] = field(default_factory=dict)
    """Numbers behind the paper's plus-minus signs, by data set."""
    quoted: tuple[Quoted, ...] = ()
    claims: tuple[AnyClaim, ...] = ()
    """Claims besides those of the sheet."""
    claims_on: dict[str, tuple[AnyClaim, ...]] = field(default_factory=dict)
    """Further claims about one data set only, by data set."""

    def claims_about(self, dataset: str) -> tuple[AnyClaim, ...]:
        """Return the item's claims about one of its data sets."""
        return (*self.claims, *self.claims_on.get(dataset, ()))

    @property
    def key(self) -> str:
        """Key in file names: ``table-15``."""
        return f"{self.kind}-{self.number}"


class Experiment(FileTable, frozen=True, kw_only=True):
    """Family of tables and figures."""

    title: Text
    claim: Text
    """Claim of the paper about all of them, in our words."""
    settings: Text
    """Settings that the paper gives, and where."""
    chosen: tuple[Text, ...] = ()
    """Settings that the paper omits or gives twice, with our choice."""
    ours: tuple[Text, ...] = ()
    """Parts shown here that are not in the paper."""
    findings: str = ""
    shows: Shows = "table"
    """Presentation: a heat map; lines over the last axis; or accuracy by round. Without simulation, the split
    itself: ``labels``, distance from equal classes at all parties, histograms of the last cell; ``sizes``,
    histogram of samples per party; ``caps``, truncation of their counts, U over alpha.
    """
    last: Positive = 10
    """Rounds at the end whose mean accuracy is the final one."""
    every: Positive = 25
    """Rounds between tests of the model, before the last ones; plots are flat between them. A test costs
    about as much as a round.
    """
    tolerance: PositiveReal = 0.03
    """Largest distance from the paper's number that agrees with it; the paper's spread also counts."""
    values: Values = field(default_factory=dict)
    overrides: Overrides = ()
    site: str = ""
    """``module:name`` of the parties' sites; then the numbers are those of ``stop.metric``."""
    axes: Annotated[tuple[Dimension, ...], Meta(min_length=1)]
    apart: tuple[Choice, ...] = ()
    """Cells outside the product of the axes' choices."""
    scale: Annotated[dict[ScaleName, RunScale], Meta(min_length=1)]
    items: Annotated[tuple[Item, ...], Meta(min_length=1)]
    claims: tuple[AnyClaim, ...] = ()
    """Claims about cells, by their labels."""

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns of the whole table."""
        *others, across = (len(axis.choices) for axis in self.axes)
        return prod(others), across

    def cells(self, joint: str = JOINT) -> tuple[CellChoice, ...]:
        """Return all combinations of choices, row by row; cells apart from the axes come last."""
        places = product(*(axis.choices for axis in self.axes)) if self.axes else ()
        made = [(levels, tuple(level.label for level in levels)) for levels in places]
        return (
            *(CellChoice(levels, place, joint.join(place)) for levels, place in made),
            *(CellChoice((level,), (), level.label) for level in self.apart),
        )

    def cells_at(self, scale: ScaleName, joint: str = JOINT) -> tuple[CellChoice, ...]:
        """Return the cells that are run at one of the scales."""
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
    """Short form for a figure whose cells are single curves, all on the data of one scenario."""

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
        """Return the same as an experiment."""
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
    """Short form for all combinations of some choices (rule x attack x clustering x split)."""

    title: Text
    last: Positive = 5
    scenario: dict[str, Any]
    """Scenario, as in a scenario file, that all cells start from."""
    site: str = ""
    """``module:name`` of the parties' sites, if the model is ``weights``."""
    axes: tuple[Dimension, ...] = ()
    curves: tuple[Choice, ...] = ()
    """Further curves, apart from the axes."""
    claims: tuple[AnyClaim, ...] = ()

    def whole(self, name: str) -> Experiment:
        """Return the same as an experiment with one table of this name."""
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
