"""The ``[data]`` table: the data set, and its split over the parties."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Annotated, ClassVar, Final

from msgspec import Meta, field

from securefl.scenario import parts, section
from securefl.scenario.tables import TableSchema

if TYPE_CHECKING:
    import numpy as np

    from securefl.base.arrays import I64


class Partition(parts.Part, tag_field="type", frozen=True, kw_only=True):
    """Base of splits of the training samples over parties. A subclass is one kind with its parameters.

    >>> import numpy as np, securefl
    >>> class Sorted(securefl.Partition, frozen=True, kw_only=True):
    ...     def split(self, labels, parties, rng):
    ...         return np.array_split(np.argsort(labels, kind="stable"), parties)
    >>> [part.tolist() for part in Sorted().split(np.array([1, 0, 1, 0]), 2, np.random.default_rng(0))]
    [[1, 3], [0, 2]]
    """

    homes: ClassVar[tuple[str, ...]] = ("securefl.training.data.partitions",)
    usual: ClassVar[str] = "iid"
    required: ClassVar[tuple[str, ...]] = ("split",)
    by_label: ClassVar[bool] = False
    """Whether it goes by the label of a sample, which a text does not have."""
    by_role: ClassVar[bool] = False
    """Whether ``labels`` are to be the numbers of speaking roles."""

    def split(self, labels: I64, parties: int, rng: np.random.Generator) -> Sequence[I64]:
        """Return the indices of each party's samples: i64, disjoint, none empty, in the order of training.

        Args:
            labels: class of each sample, i64 ``(n,)``, n >= ``parties``.
            parties: number of parties.
            rng: the only source of randomness. The split is public.

        Raises:
            ConfigError: no such split is possible; the error names a field of the table.
        """
        raise NotImplementedError


DATA_FORMS: Final = (
    "digits, mnist, fashion-mnist, cifar10, shakespeare, npz:PATH, csv:PATH, parquet:PATH, idx:DIR,"
    " folder:DIR or module:function"
)
DATA_PATTERN: Final = (
    r"^(digits|mnist|fashion-mnist|cifar10|shakespeare"
    rf"|({'|'.join(parts.SCHEMES)}):.+|[A-Za-z0-9_.]+:[A-Za-z0-9_]+)$"
)
DataSet = Annotated[str, Meta(pattern=DATA_PATTERN)]
"""A known name, one of :data:`securefl.scenario.parts.SCHEMES` and a path, or ``module:function``."""


class ImageFolder(section.Section, frozen=True, kw_only=True):
    """Reading of the pictures of ``folder:DIR``, and the share of them for the test."""

    size: tuple[section.Positive, section.Positive] | None = None
    """Height and width to which all are resized; by default all must have the same."""
    test_fraction: Annotated[float, Meta(gt=0, lt=1)] = 0.2
    """Of each class, for the test."""


class Standardise(section.Section, frozen=True, kw_only=True):
    """Constants by which inputs are standardised: ``(x - mean) / deviation``, bytes divided by 255 first."""

    mean: float
    deviation: section.PositiveReal


class Data(section.Section, frozen=True, kw_only=True):
    """The data set, its split over parties and how much of it is used."""

    set: DataSet = "digits"
    classes: Annotated[int, Meta(ge=2, le=65_536)] | tuple[str, ...] | None = None
    """Number or names of the classes, where the data do not say it; everybody's data must agree with it."""
    shape: tuple[section.Positive, ...] | None = None
    """Of a sample. It changes nothing: everybody's samples must have it."""
    table: TableSchema | None = None
    """Columns of ``csv:PATH`` and ``parquet:PATH``."""
    test_fraction: Annotated[float, Meta(gt=0, lt=1)] = 0.2
    """Of each class, for the test, where one's own data come undivided; ``images`` has that of pictures."""
    partition: Partition = field(default_factory=partial(parts.default_of, Partition, "iid"))
    shares: section.Positive | None = None
    """Cut what the parties get into so many parts, which they take in turn, those without a behaviour first,
    so that an attacker's made-up parties hold copies; by default everybody has a part of its own."""
    train_limit: section.Positive | None = None
    """Use only this many training samples (the first ones of a seeded permutation)."""
    test_limit: section.Positive | None = None
    server_fraction: Annotated[float, Meta(ge=0, lt=1)] = 0.0
    """Share of the training samples that the server gets, as many of each class, and the parties do not."""
    server_per_class: section.Positive | None = None
    """Instead of a share: so many training samples of each class."""
    server_set: DataSet | None = None
    """Where the server's samples come from instead: the training half of another data set."""
    sequence_length: section.Positive = 80
    """Text only: characters that a sample shows, each with the next one as its label."""
    images: ImageFolder = ImageFolder()
    """``folder:DIR`` only."""
    standardise: Standardise | None = None
    """Instead of the data set's own mean and deviation."""

    @property
    def class_count(self) -> int | None:
        """How many classes are declared, if any are."""
        return len(self.classes) if isinstance(self.classes, tuple) else self.classes

    @property
    def class_names(self) -> tuple[str, ...]:
        """Their names, or their numbers in place of them; nothing if none are declared."""
        return self.classes if isinstance(self.classes, tuple) else tuple(map(str, range(self.classes or 0)))

    @property
    def declared_shape(self) -> tuple[int, ...] | None:
        """The shape of a sample, if it is declared or follows from the columns of a table."""
        if self.shape is None and self.table is not None:
            return (sum(column.width for column in self.table.features),)
        return self.shape

    @property
    def server_holds_some(self) -> bool:
        """Whether the server has samples of its own."""
        return bool(self.server_fraction or self.server_per_class)
