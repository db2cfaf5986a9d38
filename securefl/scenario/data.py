"""The ``[data]`` table: the data set, and its split over the parties."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from securefl.scenario.section import NonNegative, Positive, PositiveReal, Section


class Iid(Section, tag="iid", frozen=True, kw_only=True):
    """Every party draws from the same distribution; sizes differ by at most one."""


class LabelsPerParty(Section, tag="labels", frozen=True, kw_only=True):
    """Each party holds samples of only ``labels`` classes."""

    labels: Positive


class Dirichlet(Section, tag="dirichlet", frozen=True, kw_only=True):
    """Class shares of each party drawn from a symmetric Dirichlet distribution; small ``alpha`` is uneven."""

    alpha: PositiveReal


class ClassShares(Section, tag="class-shares", frozen=True, kw_only=True):
    """Each class is cut in proportion to uniform draws, one per party; then sizes are made equal.

    Xiang et al. 2023, Algorithm 4 (GetNonIID), which has no parameters but the number of parties.
    """


class LogNormal(Section, tag="log-normal", frozen=True, kw_only=True):
    """Sample counts proportional to log-normal draws; every party keeps at least one sample."""

    sigma: PositiveReal = 1.0


class LogNormalDirichlet(Section, tag="log-normal-dirichlet", frozen=True, kw_only=True):
    """Sample counts multinomial, by shares from a Dirichlet distribution with log-normal parameters.

    Portnoy et al. 2022, section 3.1.1, as the authors' code has it: ``drawn`` clients, of which those without
    samples are dropped. The ``parties`` largest remain; a party that would have none gets one sample.
    """

    mu: Annotated[float, Meta(ge=-20, le=20)] = 1.5
    sigma: Annotated[float, Meta(gt=0, le=20)] = 3.45
    drawn: Positive = 100


class ByRole(Section, tag="roles", frozen=True, kw_only=True):
    """Each party is one speaking role of a text: the first ones with enough to say (``shakespeare`` only)."""


DataSet = Annotated[str, Meta(pattern=r"^(digits|mnist|fashion-mnist|cifar10|shakespeare|(npz|folder):.+)$")]
Partition = Iid | LabelsPerParty | Dirichlet | ClassShares | LogNormal | LogNormalDirichlet | ByRole

ByLabel = LabelsPerParty | Dirichlet | ClassShares
"""Those that go by the label of a sample."""


class ImageFolder(Section, frozen=True, kw_only=True):
    """Reading of the pictures of ``folder:PATH``, and the choice of those for the test."""

    size: tuple[Positive, Positive] | None = None
    """Height and width to which all are resized; by default all must have the same."""
    test_fraction: Annotated[float, Meta(gt=0, lt=1)] = 0.2
    """Of each class."""
    seed: NonNegative = 0
    """Draws the test pictures. Not the run's seed: two runs are to be tested on the same ones."""


class Standardise(Section, frozen=True, kw_only=True):
    """Constants by which inputs are standardised: ``(x - mean) / deviation``, bytes divided by 255 first."""

    mean: float
    deviation: PositiveReal


class Data(Section, frozen=True, kw_only=True):
    """The data set, its split over parties and how much of it is used."""

    set: DataSet = "digits"
    partition: Partition = Iid()
    shares: Positive | None = None
    """Cut what the parties get into so many parts, which they take in turn, those without a behaviour first,
    so that an attacker's made-up parties hold copies; by default everybody has a part of its own."""
    train_limit: Positive | None = None
    """Use only this many training samples (the first ones of a seeded permutation)."""
    test_limit: Positive | None = None
    server_fraction: Annotated[float, Meta(ge=0, lt=1)] = 0.0
    """Share of the training samples that the server gets, as many of each class, and the parties do not."""
    server_per_class: Positive | None = None
    """Instead of a share: so many training samples of each class."""
    server_set: DataSet | None = None
    """Where the server's samples come from instead: the training half of another data set."""
    sequence_length: Positive = 80
    """Text only: characters that a sample shows, each with the next one as its label."""
    images: ImageFolder = ImageFolder()
    """``folder:PATH`` only."""
    standardise: Standardise | None = None
    """Instead of the data set's own mean and deviation."""

    @property
    def server_holds_some(self) -> bool:
        """Whether the server has samples of its own."""
        return bool(self.server_fraction or self.server_per_class)
