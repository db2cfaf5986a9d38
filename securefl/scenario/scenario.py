"""The scenario: everything that a run is made of, as the structs that the TOML file is decoded into.

Field by field checks (types, ranges, unknown names) are done by msgspec while decoding; checks between fields
are in :mod:`securefl.methods.feasibility.limits`. ``docs/scenarios.md`` is the reference for people.
"""

from functools import partial
from typing import Annotated, Literal

from msgspec import Meta, field

from securefl.scenario import section
from securefl.scenario.aggregation import Aggregation
from securefl.scenario.behaviours import Behaviour
from securefl.scenario.data import Data
from securefl.scenario.evaluation import SiteEvaluation, SiteStatistics
from securefl.scenario.local_method import LocalMethod, ServerOptimiser
from securefl.scenario.model import Model
from securefl.scenario.parts import default_of
from securefl.scenario.privacy import Checks, DpSgd, Privacy, Validate


class Training(section.Section, frozen=True, kw_only=True):
    """Local SGD at each party."""

    epochs: section.Positive = 1
    batch_size: section.Positive = 32
    batch_fraction: section.Fraction | None = None
    """Instead of ``batch_size``: the share of a party's samples that one of its batches holds."""
    steps: section.Positive | None = None
    """Stop after so many batches, in the middle of an epoch."""
    learning_rate: section.PositiveReal = 0.1
    momentum: Annotated[float, Meta(ge=0, lt=1)] = 0.0
    weight_decay: Annotated[float, Meta(ge=0)] = 0.0
    device: Literal["auto", "cpu", "cuda"] = "auto"
    """Of training, and of CrypTen's shares."""
    method: LocalMethod = field(default_factory=partial(default_of, LocalMethod, "sgd"))
    """What is changed in the gradients."""
    dp_sgd: DpSgd | None = None
    """One step of DP-SGD instead; of the fields above only ``batch_size`` and ``device`` count then."""


class Clustering(section.Section, frozen=True, kw_only=True):
    """Random clusters of ``size`` members (or a little more), drawn ``reclusterings`` times per round."""

    size: section.Positive = 3
    reclusterings: section.Positive = 1
    new_work: bool = False
    """Whether a party trains anew for each reclustering, so that no two sums hold the same update."""
    fixed: bool = False
    """Whether the clusters are the same in all rounds: a baseline for experiments (SHARE, Figure 9)."""
    atoms: section.Positive = 1
    """Fewest members of the blocks that clusters are unions of, the same for the whole run; 1: no blocks."""


class Groups(section.Section, frozen=True, kw_only=True):
    """Task groups: parties whose data have one distribution learn one of ``count`` models (BR-IFCA)."""

    count: Annotated[int, Meta(ge=1, le=64)] = 1
    """k; 1: all learn one model."""
    mode: Literal["open", "hidden"] = "open"
    """``open``: parties tell their group, clusters lie inside groups. ``hidden``: nobody learns it."""
    warmup: section.NonNegative = 0
    """Rounds in which all learn one model, which is then parted; 0: k models drawn at random."""
    pace: section.Positive = 2
    """Rounds from one model that is parted off to the next, until there are ``count``."""
    choice_epsilon: Annotated[float, Meta(gt=0, le=20)] | None = None
    """``open``: a choice is told by randomised response with this epsilon, and kept until the next one is
    due. None: the true one, in every round."""
    choices: section.Positive = 1
    """With ``choice_epsilon``: choices from the round on in which all models are there, one a round."""
    screen: section.PositiveReal | None = None
    """Sums are left out whose means are longer than so many times the median over all models; None: none."""
    tasks: Literal["given", "rotations"] = "given"
    """What parties' data are: as split; or images turned a quarter further from party to party."""
    sizes: tuple[section.Positive, ...] = ()
    """With rotations: parties of each, in the order of their names; empty: as many of each as can be."""


class Participation(section.Section, frozen=True, kw_only=True):
    """Participation in a round: everybody (neither field), or a draw from the round's certified seed."""

    count: section.Positive | None = None
    fraction: section.Fraction | None = None


class SecureSum(section.Section, frozen=True, kw_only=True):
    """Parameters of the cluster-local secure sums, with the names of protocol.md."""

    kind: Literal["masking", "crypten", "plain"] = "masking"
    """``crypten``: CrypTen's arithmetic shares in place of pairwise masks (docs/crypten.md). ``plain``:
    nothing; in simulations and tests only."""
    validate: Validate | Literal["none"] = "none"
    """``crypten`` only: leave out members whose update is too long, before the sum is opened (ADR 0024)."""
    server: Literal["curious", "active"] = "curious"
    verify: Literal["off", "committee", "all"] | None = None
    """Who repeats what the server makes of a round, before anybody trains on it. None: a committee where the
    server is ``active``, elsewhere nobody."""
    threshold: section.Positive = 2
    """t: members needed to open. Loading derives this and the next three fields if a file leaves them out
    (:mod:`securefl.scenario.sum_defaults`); the values here are those of a table that is made in Python."""
    min_survivors: section.Positive = 2
    """Fewest survivors that an opened sum may have."""
    colluders_per_cluster: section.NonNegative = 0
    """f: bound on parties in one cluster that collude with the server."""
    colluders: section.NonNegative = 0
    """q: bound on parties that collude with the server over the whole run."""
    k_anonymity: section.Positive = 2
    """k: smallest group of honest members that may ever be determined."""
    max_attempts: Annotated[int, Meta(ge=1, le=8)] = 2
    """Attempts per instance, the first included; retries happen before the freeze only."""

    @property
    def verification(self) -> Literal["off", "committee", "all"]:
        """``verify``, or what it is where it is left open."""
        return self.verify or ("committee" if self.server == "active" else "off")

    @property
    def verified(self) -> bool:
        """Whether openings and steps are verified."""
        return self.verification != "off"

    @property
    def validated(self) -> Validate | None:
        """The validation of updates; None where there is none."""
        return None if self.validate == "none" else self.validate


class Encoding(section.Section, frozen=True, kw_only=True):
    """Clip and fixed point: a coordinate x becomes round(x * 2^scale_bits), with abs(x) at most ``range``."""

    clip: section.PositiveReal | Literal["none"] = "none"
    """L2 bound of the whole update before weighting; 1, in units of the clip, with ``privacy.clip``."""
    scale_bits: Annotated[int, Meta(ge=0, le=40)] = 16
    range: section.PositiveReal = 256.0
    """Largest magnitude of one coordinate; an honest update beyond it is cut, and stops a local run."""
    ring_bits: Literal["auto", 32, 64] = "auto"


class Weighting(section.Section, frozen=True, kw_only=True):
    """Weight of a party: min(n, cap) / cap of its declared sample count n (Portnoy et al. 2022)."""

    mode: Literal["ignore", "passthrough", "truncate"] = "passthrough"
    """``ignore``: all 1; ``passthrough``: cap = largest declared count; ``truncate``: as the fields below
    say."""
    cap: section.Positive | None = None
    """``truncate`` only: a cap that is known beforehand, instead of ``alpha``."""
    alpha: float | None = None
    """``truncate`` only: share of the parties that may lie. The cap of a round is then the largest with which
    so many of those who are present weigh ``alpha_star`` of all at most, whatever they declare."""
    alpha_star: float = 0.5
    """Share of the weight that the rule withstands; medians and trimmed means less than half."""
    use: Literal["all", "truncated"] = "all"
    """What an honest party trains on: all of its samples, or only as many as it weighs for."""


class Stop(section.Section, frozen=True, kw_only=True):
    """The end of a run: after ``rounds``, at the target, or after ``patience`` rounds without gain."""

    rounds: section.Positive = 10
    patience: section.Positive | None = None
    """Of the server's accuracy, or of ``metric``."""
    metric: str | None = None
    """A number of ``[evaluation]`` that stopping goes by, and that picks the model which is kept."""
    target: float | None = None
    """Value of ``metric``, or of the server's accuracy without one, that ends the run."""
    min_gain: section.NonNegativeReal | None = None
    """Least gain that counts for ``patience`` and for the best model, in the unit of ``metric``. None: any
    gain, and for a metric with noise a hundredth of its range. Numbers whose standard deviation by noise is
    larger are not used."""


IN_TIME = 0.9
"""Share of ``deadlines.training`` for the training itself. The rest is for the input on its way."""


class Deadlines(section.Section, frozen=True, kw_only=True):
    """Seconds that the server waits in each step before it goes on without the missing."""

    join: section.Seconds = 60.0
    """For the first hello of every party, at the start of the run."""
    hello: section.Seconds = 20.0
    reveal: section.Seconds = 10.0
    keys: section.Seconds = 20.0
    shares: section.Seconds = 20.0
    training: section.Seconds = 300.0
    """For local training and the masked inputs."""
    submit: section.Seconds | None = None
    """After the draw of the clusters: then every masked input leaves, not before. A training that has not
    ended sends zeros. None: with ``[privacy]`` nine tenths of ``training``; without, an input leaves when its
    training has ended, and so shows how long that took (:attr:`Scenario.submit_seconds`)."""
    certify: section.Seconds = 15.0
    release: section.Seconds = 15.0
    verify: section.Seconds = 30.0
    """``secure_sum.verify`` only: for those who repeat a round, once everybody else has answered."""
    quorum: section.Seconds = 600.0
    """Online with too few parties for a round: after so long in a row the run ends."""


Audit = Literal[
    "exposure",
    "views",
    "unmasking",
    "budget",
    "replay",
    "chain",
    "reconstruction",
    "inversion",
    "membership",
    "canary",
    "properties",
]
"""What ``securefl audit`` looks at (docs/audit.md)."""


class Leakage(section.Section, frozen=True, kw_only=True):
    """Limits on what all sums of one update give away together, besides ``secure_sum.k_anonymity``."""

    mode: Literal["veto", "report"] = "veto"
    """``veto``: a party releases nothing that crosses anybody's limit. ``report``: experiments only."""
    colluders: section.NonNegative | None = None
    """Colluders that a combination of sums is reckoned to hold; f unless given."""
    leverage: Annotated[float, Meta(ge=1e-6, le=1)] = 1.0
    """The most that a party's leverage may be; 1 is no limit of its own."""
    allow: tuple[Audit, ...] = ()
    """Audits whose breaches this scenario is about: ``securefl audit`` reports them and ends with 0."""


class Expect(section.Section, frozen=True, kw_only=True):
    """A claim about the outcome. The run's exit code says whether all of them hold."""

    metric: Literal[
        "accuracy",
        "backdoor_success",
        "rounds",
        "survivors",
        "clusters_lost",
        "opened_sums",
        "refusals",
        "aborted",
        "epsilon",
        "checks_failed",
        "skippers_failed",
        "false_alarms",
        "updates_refused",
        "dishonest_counted",
        "verified_rounds",
        "evaluation",
    ]
    of: str | None = None
    """``evaluation`` only: the number of ``[evaluation]``, its last value."""
    at_least: float | None = None
    at_most: float | None = None


class Scenario(section.Section, frozen=True, kw_only=True):
    """All settings of one federated run, as the tables of a scenario file (docs/scenarios.md).

    Immutable, and checked when it is made. :func:`securefl.load` also derives the fields of ``secure_sum``
    that are left out.

    >>> import securefl
    >>> securefl.Scenario(name="wards", parties=-3)
    Traceback (most recent call last):
    securefl.base.errors.ConfigError: Scenario.parties: expected int >= 1, found -3
    """

    name: section.Name
    description: str = ""
    parties: Annotated[int, Meta(ge=1, le=100_000)]
    data: Data = Data()
    model: Model = field(default_factory=partial(default_of, Model, "mlp"))
    training: Training = Training()
    clustering: Clustering = Clustering()
    groups: Groups = Groups()
    participation: Participation = Participation()
    secure_sum: SecureSum = SecureSum()
    privacy: Privacy = Privacy()
    encoding: Encoding = Encoding()
    weighting: Weighting = Weighting()
    checks: Checks = Checks()
    aggregation: Aggregation = Aggregation()
    server_optimiser: ServerOptimiser = field(default_factory=partial(default_of, ServerOptimiser, "sgd"))
    stop: Stop = Stop()
    evaluation: SiteEvaluation = SiteEvaluation()
    statistics: SiteStatistics = SiteStatistics()
    deadlines: Deadlines = Deadlines()
    leakage: Leakage = Leakage()
    observer: bool = False
    """Whether a local run adds an observer at the broker (metadata and hash of every frame)."""
    behaviours: tuple[Behaviour, ...] = ()
    expect: tuple[Expect, ...] = ()

    @property
    def submit_seconds(self) -> float | None:
        """Seconds from the draw until all parties send their inputs; None: when their training ends."""
        hides_times = self.deadlines.submit is None and self.privacy.unit != "none"
        return self.training_seconds if hides_times else self.deadlines.submit

    @property
    def training_seconds(self) -> float:
        """Seconds from the draw after which an unfinished training counts as failed."""
        deadlines = self.deadlines
        return IN_TIME * deadlines.training if deadlines.submit is None else deadlines.submit
