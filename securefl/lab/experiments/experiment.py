"""The file of an experiment: a family of a paper's tables and figures that differ in a few settings only.

A *study* (``_study.toml`` in the paper's folder) says what all experiments of a paper share, the data sets
among it. An *experiment* (any other file there without an underscore) has axes, whose product makes the
cells, and *items*: the numbered tables and figures that it stands for, each with changes of its own and the
numbers that the paper prints. Changes are ``--set`` overrides with ``$names`` in them. These stand for
numbers that the cell's choices give, or that follow from those (:mod:`securefl.lab.experiments.quantities`).

Two short forms are read as experiments too: a *panel*, a figure whose cells are single curves, and a
*comparison*, which holds its scenario and belongs to no paper. ``docs/reproduce.md`` is the
reference for people.
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
"""Those that show how the data are split: nothing is simulated."""
JOINT: Final = ", "
"""Between the choices of a cell, in its label."""
Label = Annotated[str, Meta(min_length=1, max_length=40)]
Overrides = tuple[str, ...]
"""As for ``--set``: ``"path=value"`` each (:mod:`securefl.scenario.overrides`)."""
Values = dict[str, int | float | str]
"""By name, for the ``$names`` in overrides. Later ones win: study, data set, sheet, scale, item, choices."""
Numbers = tuple[tuple[float | None, ...], ...]
"""Row by row: the last axis gives the columns, all others the rows. None: the paper has none there."""
Place = tuple[str, ...]
"""The choice along each axis, by its label; empty of a cell apart from the axes."""


class StudyDataset(FileTable, frozen=True, kw_only=True):
    """One of the data sets of a study."""

    name: Annotated[str, Meta(pattern=r"^[a-z][a-z0-9-]{0,31}$")]
    """Empty only where an experiment's scenario names the data itself, or there are none."""
    title: Text
    """As the paper writes it."""
    place: str = ""
    """File or folder below the data directory; nothing: it comes with the program."""
    scheme: Literal["", "npz:", "folder:"] = ""
    """In front of the path, in ``data.set`` and ``--dataset``; nothing: ``data.set`` is the name."""
    remedy: str = ""
    """Where its files come from."""
    values: Values = field(default_factory=dict)
    overrides: Overrides = ()
    at: dict[ScaleName, Overrides] = field(default_factory=dict)
    """Further overrides at one scale."""
    notes: dict[ScaleName, str] = field(default_factory=dict)
    """What is left out of it at one scale, for sheets that show a split. Where something is trained, the
    scenarios' description says it."""


UNNAMED: Final = StudyDataset(name="", title="-")
"""The data set of an experiment whose scenario says what the data are."""


class Study(FileTable, frozen=True, kw_only=True):
    """Settings that all experiments of a paper share."""

    title: Text
    about: str = ""
    """How to read the numbers, where they are no accuracies."""
    chosen: tuple[Text, ...] = ()
    """Of all experiments: what the paper does not give, or gives twice, and what is taken here."""
    ours: bool = False
    """Whether there is no such paper."""
    values: Values = field(default_factory=dict)
    overrides: Overrides = ()
    datasets: Annotated[tuple[StudyDataset, ...], Meta(min_length=1)]


class Choice(FileTable, frozen=True, kw_only=True):
    """One of the alternatives along an axis."""

    label: Label
    overrides: Overrides = ()
    values: Values = field(default_factory=dict)
    baseline: bool = False
    """What the others are compared with: drawn apart, grey and broken."""


class Dimension(FileTable, frozen=True, kw_only=True):
    """A varied setting, and its values."""

    name: Label
    choices: Annotated[tuple[Choice, ...], Meta(min_length=1)]


class CellChoice(NamedTuple):
    """One cell: a choice of each axis, or a choice apart from them."""

    levels: tuple[Choice, ...]
    place: Place
    label: str
    """What claims and plots call it: ``60 %, 1/2``."""

    @property
    def baseline(self) -> bool:
        """Whether one of its choices is a baseline."""
        return any(level.baseline for level in self.levels)


class RunScale(FileTable, frozen=True, kw_only=True):
    """One size at which an experiment can be run."""

    scenario: Annotated[str, Meta(pattern=r"^_[a-z0-9-]+\.toml$")]
    """Name of the scenario file, beside this one, that all cells start from. Its description goes under the
    plot."""
    overrides: Overrides = ()
    note: str = ""
    """What is left out, for plot and page."""
    values: Values = field(default_factory=dict)
    keep: dict[str, Labels] = field(default_factory=dict)
    """By the name of an axis: the choices that are run; all of them where nothing is said."""


class Quoted(FileTable, frozen=True, kw_only=True):
    """A number that the paper prints of somebody else's method. It is shown, and nothing is compared."""

    what: Text
    accuracy: float


class Auxiliary(FileTable, frozen=True, kw_only=True):
    """A further data set that an item needs; ``$auxiliary`` stands for it."""

    place: Text
    """File or folder below the data directory."""
    scheme: Literal["npz:", "folder:"]
    remedy: str = ""


class Item(FileTable, frozen=True, kw_only=True):
    """One numbered table or figure."""

    kind: Kind
    number: Annotated[str, Meta(pattern=r"^(?!all$)([0-9]{1,2}|[A-Z][0-9]|[a-z]{1,12}(-[a-z]{1,12})?)$")]
    """As in the paper (of an appendix: ``A1``); of one that is not in it a letter or a word. Not ``all``."""
    title: Text
    """What tells it from the other items of the sheet."""
    ours: bool = False
    """Whether it is not in the paper."""
    only: tuple[Text, ...] = ()
    """The data sets that it is about; all of the study where nothing is said."""
    values: Values = field(default_factory=dict)
    overrides: Overrides = ()
    auxiliary: Auxiliary | None = None
    published: dict[str, Numbers] = field(default_factory=dict)
    """By data set: the paper's numbers."""
    spread: dict[str, Numbers] = field(default_factory=dict)
    """By data set: what the paper prints behind its plus-minus signs."""
    quoted: tuple[Quoted, ...] = ()
    claims: tuple[AnyClaim, ...] = ()
    """Besides those of the sheet."""
    claims_on: dict[str, tuple[AnyClaim, ...]] = field(default_factory=dict)
    """By data set: claims about that one alone, besides all others."""

    def claims_about(self, dataset: str) -> tuple[AnyClaim, ...]:
        """Of the item, those about one of its data sets."""
        return (*self.claims, *self.claims_on.get(dataset, ()))

    @property
    def key(self) -> str:
        """``table-15``: of file names."""
        return f"{self.kind}-{self.number}"


class Experiment(FileTable, frozen=True, kw_only=True):
    """A family of tables and figures."""

    title: Text
    claim: Text
    """What the paper says of all of them, in our words."""
    settings: Text
    """What the paper gives of the settings, and where."""
    chosen: tuple[Text, ...] = ()
    """What the paper does not give, or gives twice, and what is taken here."""
    ours: tuple[Text, ...] = ()
    """What is shown here that the paper does not show."""
    findings: str = ""
    shows: Shows = "table"
    """A heat map; lines over the last axis; or accuracy by round. Where nothing is simulated, the split
    itself: ``labels``, how far it is from everybody having the same classes, histograms of the last cell;
    ``sizes``, how many samples the parties have, a histogram; ``caps``, truncation of their counts, U over
    alpha."""
    last: Positive = 10
    """Rounds at the end whose mean accuracy is the final one."""
    every: Positive = 25
    """Rounds from one test of the model to the next, before those; between them plots are flat. A test costs
    about as much as a round."""
    tolerance: PositiveReal = 0.03
    """A cell is as published if it is no further from the paper's number, or within the paper's spread."""
    values: Values = field(default_factory=dict)
    overrides: Overrides = ()
    site: str = ""
    """``module:name`` of the parties' sites; then the numbers are those of ``stop.metric``."""
    axes: Annotated[tuple[Dimension, ...], Meta(min_length=1)]
    apart: tuple[Choice, ...] = ()
    """Cells that are no combination of the axes' choices."""
    scale: Annotated[dict[ScaleName, RunScale], Meta(min_length=1)]
    items: Annotated[tuple[Item, ...], Meta(min_length=1)]
    claims: tuple[AnyClaim, ...] = ()
    """Of cells, by their labels."""

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns of the whole."""
        *others, across = (len(axis.choices) for axis in self.axes)
        return prod(others), across

    def cells(self, joint: str = JOINT) -> tuple[CellChoice, ...]:
        """All combinations of choices, row by row; those apart come last."""
        places = product(*(axis.choices for axis in self.axes)) if self.axes else ()
        made = [(levels, tuple(level.label for level in levels)) for levels in places]
        return (
            *(CellChoice(levels, place, joint.join(place)) for levels, place in made),
            *(CellChoice((level,), (), level.label) for level in self.apart),
        )

    def cells_at(self, scale: ScaleName, joint: str = JOINT) -> tuple[CellChoice, ...]:
        """Those that are run at one of the scales."""
        keep = self.scale[scale].keep
        names = [axis.name for axis in self.axes]
        return tuple(
            cell
            for cell in self.cells(joint)
            if all(label in keep.get(name, (label,)) for name, label in zip(names, cell.place, strict=False))
        )

    def number_at(self, numbers: Numbers, cell: CellChoice) -> float | None:
        """The entry of a table like :attr:`Item.published` for one of :meth:`cells`."""
        index = [one.label for one in self.cells()].index(cell.label)
        row, column = divmod(index, self.shape[1])
        return numbers[row][column]


class Panel(FileTable, frozen=True, kw_only=True):
    """The short form for a figure whose cells are single curves, all on the data of one scenario."""

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
        """The same as an experiment."""
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
    """The short form for all combinations of some choices (rule x attack x clustering x split)."""

    title: Text
    last: Positive = 5
    scenario: dict[str, Any]
    """As in a scenario file; what all cells start from."""
    site: str = ""
    """``module:name`` of the parties' sites, where the model is ``weights``."""
    axes: tuple[Dimension, ...] = ()
    curves: tuple[Choice, ...] = ()
    """Further ones, apart from the axes."""
    claims: tuple[AnyClaim, ...] = ()

    def whole(self, name: str) -> Experiment:
        """The same as an experiment with one table of this name."""
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
