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
    """True if the split uses labels of samples, which a text does not have."""
    by_role: ClassVar[bool] = False
    """True if ``labels`` must be numbers of speaking roles."""

    def split(self, labels: I64, parties: int, rng: np.random.Generator) -> Sequence[I64]:
        """Return the indices of each party's samples: i64, disjoint, none empty, in training order.

        Args: labels: class of each sample, i64 ``(n,)``, n >= ``parties``. parties: number of parties. rng:
        only source of randomness. The split is public.

        Raises:
            ConfigError: no such split exists; it names a field of the table.
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
"""Known name, a scheme with a path, or ``module:function``."""


class ImageFolder(section.Section, frozen=True, kw_only=True):
    """Pictures of ``folder:DIR``.

    >>> from securefl.sections import ImageFolder
    >>> ImageFolder(size=(32, 32)).test_fraction
    0.2
    """

    size: tuple[section.Positive, section.Positive] | None = None
    """Height and width of all pictures after resizing. None: all must have the same size."""
    test_fraction: Annotated[float, Meta(gt=0, lt=1)] = 0.2
    """Share of each class in the test set."""


class Standardise(section.Section, frozen=True, kw_only=True):
    """Constants that standardise inputs: ``(x - mean) / deviation``; bytes are divided by 255 first.

    >>> from securefl.sections import Standardise
    >>> Standardise(mean=0.5, deviation=0.25).mean
    0.5
    """

    mean: float
    """Mean to subtract."""
    deviation: section.PositiveReal
    """Deviation to divide by."""


class Data(section.Section, frozen=True, kw_only=True):
    """Data set, its split over the parties, and limits on its size.

    ``cifar10`` is read from ``<data-dir>/cifar10/``: ``data_batch_1`` to ``data_batch_5`` and ``test_batch``,
    as ``.bin`` or ``.bin.gz``. A file has any number of records of one label byte and 3,072 pixel bytes. A
    plot has the title "CIFAR-10" only for 50,000 and 10,000 records. The first 761 records of each file must
    be the original ones: the publisher states a digest of the archive only. A known subset of 20,000 and
    5,000 JPEG images has its own name; all else is "unknown files".

    ``shakespeare`` is read from ``<data-dir>/shakespeare/plays.txt.gz``: ASCII, with a line ``=== PLAY:
    <title> ===`` before each play. Each speech is the speaker's name and a colon, its lines, and an empty
    line. A role is a speaker in one play, numbered by its first speech, with at least 1,000 characters and
    one sequence each for training and test. The 37 plays have 634 roles for sequences of 40. The first 80 %
    of a role's text are for training; no sequence crosses that border. Sequences begin ``sequence_length``
    characters apart; the label of each character is the next one. Tokens 1 to 72 are the characters in ASCII
    order, 0 is any other: 73 classes. Sample counts are sequences, accuracy is per character.

    >>> from securefl.sections import Data
    >>> Data(set="mnist", train_limit=6_000).classes is None
    True
    """

    set: DataSet = "digits"
    """``digits`` comes with scikit-learn. ``mnist``, ``fashion-mnist``, ``cifar10`` and ``shakespeare``
    are read from ``--data-dir`` and recognised by digest. All others are your own data (docs/data.md)."""
    classes: Annotated[int, Meta(ge=2, le=65_536)] | tuple[str, ...] | None = None
    """Number or names of the classes, if the data do not state them. Data that contradict it are refused."""
    shape: tuple[section.Positive, ...] | None = None
    """Shape of a sample. Data with another shape are refused."""
    table: TableSchema | None = None
    """Columns of ``csv:PATH`` and ``parquet:PATH``."""
    test_fraction: Annotated[float, Meta(gt=0, lt=1)] = 0.2
    """Share of each class in the test set, for undivided data of your own. The draw is the same in all
    runs."""
    partition: Partition = field(default_factory=partial(parts.default_of, Partition, "iid"))
    """Split of the training samples over the parties."""
    shares: section.Positive | None = None
    """Number of parts, at most the number of parties. Parties take them in turn, those without a behaviour
    first, so that Byzantine parties hold copies (Xiang et al. 2023). None: one part each."""
    train_limit: section.Positive | None = None
    """Training samples in total, the first of a seeded permutation; by role, the same share of each role's
    samples."""
    test_limit: section.Positive | None = None
    """Test samples in total."""
    server_fraction: Annotated[float, Meta(ge=0, lt=1)] = 0.0
    """Share of the training samples that the server holds and no party has, for rules with server data.
    Equally many of each class, none of which may be missing; of a text, drawn uniformly."""
    server_per_class: section.Positive | None = None
    """Training samples of each class for the server, in place of a share. Not for texts."""
    server_set: DataSet | None = None
    """Another data set whose training half supplies the server's samples; the parties keep all of theirs.
    Shape and number of classes must be equal."""
    sequence_length: section.Positive = 80
    """``shakespeare`` only: characters of a sample."""
    images: ImageFolder = ImageFolder()
    """``folder:DIR`` only."""
    standardise: Standardise | None = None
    """Constants in place of the data set's own."""

    @property
    def class_count(self) -> int | None:
        """Declared number of classes; None if undeclared."""
        return len(self.classes) if isinstance(self.classes, tuple) else self.classes

    @property
    def class_names(self) -> tuple[str, ...]:
        """Names of the classes, or else their numbers; empty if undeclared."""
        return self.classes if isinstance(self.classes, tuple) else tuple(map(str, range(self.classes or 0)))

    @property
    def declared_shape(self) -> tuple[int, ...] | None:
        """Shape of a sample, as declared or by the columns of a table; else None."""
        if self.shape is None and self.table is not None:
            return (sum(column.width for column in self.table.features),)
        return self.shape

    @property
    def server_holds_some(self) -> bool:
        """True if the server has samples of its own."""
        return bool(self.server_fraction or self.server_per_class)
