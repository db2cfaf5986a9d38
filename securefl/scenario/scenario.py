"""The scenario: all settings of a run, as structs.

msgspec checks single fields; :mod:`securefl.methods.feasibility.limits` checks them together.
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
from securefl.scenario.privacy import Checks, DpSgd, Privacy
from securefl.scenario.secure_sum import Encoding, Leakage, SecureSum


class Training(section.Section, frozen=True, kw_only=True):
    """Local SGD at each party.

    >>> from securefl.sections import Training
    >>> Training(epochs=2, batch_size=16).learning_rate
    0.1
    """

    epochs: section.Positive = 1
    """Passes over the party's samples per round."""
    batch_size: section.Positive = 32
    """Samples per step."""
    batch_fraction: section.Fraction | None = None
    """Share of a party's own samples in a batch, rounded, at least one sample; in place of ``batch_size``.
    Simulations do not vectorise it."""
    steps: section.Positive | None = None
    """Batches per round, even in the middle of an epoch. Simulations do not vectorise it."""
    learning_rate: section.PositiveReal = 0.1
    """Step length of local SGD."""
    momentum: Annotated[float, Meta(ge=0, lt=1)] = 0.0
    """Momentum of local SGD."""
    weight_decay: Annotated[float, Meta(ge=0)] = 0.0
    """L2 penalty of local SGD."""
    device: Literal["auto", "cpu", "cuda"] = "auto"
    """Device of training, and of CrypTen's shares. ``auto`` takes a GPU with enough memory. ``securefl
    run`` starts a process for each party. With less than 1 GiB of GPU memory for each, ``auto`` takes
    the CPU and reports it, and ``cuda`` is refused."""
    method: LocalMethod = field(default_factory=partial(default_of, LocalMethod, "sgd"))
    """Correction of local gradients."""
    dp_sgd: DpSgd | None = None
    """One step of DP-SGD per round in place of epochs. Then only ``batch_size`` and ``device`` of this
    table count; other fields are refused, except with ``fltrust``."""


class Clustering(section.Section, frozen=True, kw_only=True):
    """Random clusters, drawn ``reclusterings`` times per round.

    >>> from securefl.sections import Clustering
    >>> Clustering(size=4, reclusterings=2).atoms
    1
    """

    size: section.Positive = 3
    """m, the smallest cluster. P participants form floor(P / m) clusters whose sizes differ by at most
    one."""
    reclusterings: section.Positive = 1
    """R, independent assignments per round; the results of those that open are averaged. The leakage
    ledger bounds R."""
    new_work: bool = False
    """True if a party trains again for each reclustering, from the same model in another sample order, so
    that no two sums of a round hold the same update. It takes R times the training, within
    ``deadlines.training``."""
    fixed: bool = False
    """True if clusters are the same in all rounds: a baseline for experiments (SHARE, Figure 9). Needs
    ``leakage.mode = "report"``, ``reclusterings = 1`` and no draw of participants."""
    atoms: section.Positive = 1
    """Fewest members of an atom, a block of parties that is fixed for the whole run. Clusters are unions
    of at least two atoms. At least f + k; ``size`` is then a multiple of it. A dropout removes its
    whole atom. 1: no atoms."""


class Groups(section.Section, frozen=True, kw_only=True):
    """Task groups: parties whose data share a distribution learn one of ``count`` models (BR-IFCA).

    >>> from securefl.sections import Groups
    >>> Groups(count=2).mode
    'open'
    """

    count: Annotated[int, Meta(ge=1, le=64)] = 1
    """k, number of models, at most the number of parties. 1: all parties learn one model."""
    mode: Literal["open", "hidden"] = "open"
    """``open``: a party sends its group in its hello, and clusters lie inside groups. ``hidden``: neither
    a party nor the server learns the group of a party."""
    warmup: section.NonNegative = 0
    """Rounds in which all parties learn the first model, which then splits. 0: k models are drawn at
    random, of which parties often use only two."""
    pace: section.Positive = 2
    """Rounds between splits, until ``count`` models exist in round ``warmup`` + (``count`` - 2) ``pace``.
    Only with ``warmup`` and 3 groups or more."""
    choice_epsilon: Annotated[float, Meta(gt=0, le=20)] | None = None
    """``open`` only: epsilon of the randomised response by which a party sends its group when a further
    model has begun (pure, of all its data). It keeps the answer until the next model. Needed with an
    active server. None: the true group, in every round."""
    choices: section.Positive = 1
    """Answers with ``choice_epsilon`` after all models exist, one per round. The epsilons of all answers
    add up."""
    screen: section.PositiveReal | None = None
    """Factor of the median length over the sums of all models; longer sums are left out before the rule.
    For groups with few sums each, most of which attackers may hold. None: no sum is left out."""
    tasks: Literal["given", "rotations"] = "given"
    """``given``: the data as split. ``rotations``: images turned by a further quarter from party to party,
    at most 4 groups. Accuracy is then the mean over the rotations, each tested with its own model."""
    sizes: tuple[section.Positive, ...] = ()
    """Parties of each rotation, in the order of their names, adding up to ``parties``. Empty: even."""


class Participation(section.Section, frozen=True, kw_only=True):
    """Participants of a round: all parties, or a draw from the round's certified seed.

    >>> from securefl.sections import Participation
    >>> Participation(fraction=0.5).count is None
    True
    """

    count: section.Positive | None = None
    """P, number of participants. None: all parties."""
    fraction: section.Fraction | None = None
    """Share of all parties, rounded to a whole number, in place of ``count``."""


class Weighting(section.Section, frozen=True, kw_only=True):
    """Weight of a party: min(n, cap) / cap of its declared sample count n (docs/weighting.md).

    >>> from securefl.sections import Weighting
    >>> Weighting(mode="truncate", alpha=0.1).alpha_star
    0.5
    """

    mode: Literal["ignore", "passthrough", "truncate"] = "passthrough"
    """``ignore``: all weights 1. ``passthrough``: the cap is the largest declared count. ``truncate``: the
    cap of the fields below."""
    cap: section.Positive | None = None
    """``truncate`` only: cap known in advance, in place of ``alpha``."""
    alpha: float | None = None
    """``truncate`` only: share of the parties that may lie, below ``alpha_star``. The cap of a round is
    the largest with which the ceil(alpha K) heaviest of K parties have at most ``alpha_star`` of the
    weight, among both the present and the drawn parties."""
    alpha_star: float = 0.5
    """Share of the weight that the rule withstands, between ``alpha`` and 1; below half for medians and
    trimmed means."""
    use: Literal["all", "truncated"] = "all"
    """Samples that an honest party trains on: all, or the first min(n, cap). ``truncated`` is refused with
    ``training.dp_sgd``."""


class Stop(section.Section, frozen=True, kw_only=True):
    """End of a run: after ``rounds``, at ``target``, or after ``patience`` rounds without a gain.

    >>> from securefl.sections import Stop
    >>> Stop(rounds=50, patience=5).rounds
    50
    """

    rounds: section.Positive = 10
    """T, largest number of rounds."""
    patience: section.Positive | None = None
    """Rounds without a gain after which the run ends, by test accuracy at the server or by ``metric``."""
    metric: str | None = None
    """Number of ``[evaluation]``, such as ``"scores.auc"``, for patience, target and the best model, which
    is kept."""
    target: float | None = None
    """Value of ``metric``, or of test accuracy without one, that ends the run; not below an expected
    accuracy."""
    min_gain: section.NonNegativeReal | None = None
    """Least gain that counts as better, in the unit of ``metric``. None: any gain; for a metric with noise
    a hundredth of its range. Values whose noise has a larger standard deviation are not used."""


IN_TIME = 0.9
"""Share of ``deadlines.training`` for the training itself; the rest is for sending."""


class Deadlines(section.Section, frozen=True, kw_only=True):
    """Seconds that the server waits in each step before it continues without the missing parties.

    >>> from securefl.sections import Deadlines
    >>> Deadlines(training=600).training
    600.0
    """

    join: section.Seconds = 60.0
    """For the first hello of every party, at the start of the run."""
    hello: section.Seconds = 20.0
    """For the hellos of a round."""
    reveal: section.Seconds = 10.0
    """For the nonces."""
    keys: section.Seconds = 20.0
    """For the keys of a secure sum."""
    shares: section.Seconds = 20.0
    """For its shares."""
    training: section.Seconds = 300.0
    """For local training and the masked inputs."""
    submit: section.Seconds | None = None
    """Seconds from the draw of the clusters until all masked inputs are sent, however long training took;
    below ``training``. A training that has not ended by then counts as failed and sends zeros. None:
    with ``[privacy]`` nine tenths of ``training``; without, a party sends its input when its training
    ends, which reveals the training time."""
    certify: section.Seconds = 15.0
    """For the signatures under the freeze."""
    release: section.Seconds = 15.0
    """For the released shares."""
    verify: section.Seconds = 30.0
    """With ``secure_sum.verify``: for the parties that repeat a round, after all others have answered."""
    quorum: section.Seconds = 600.0
    """For enough online parties for a round; then the run ends."""


class Expect(section.Section, frozen=True, kw_only=True):
    """Claim about the outcome; exit code 0 needs all claims to hold.

    ``accuracy``: test accuracy of the final model, 0 to 1. ``backdoor_success``: share of patched test images
    of other classes that the final model assigns to the backdoor's target. ``evaluation``: last value of the
    number ``of``; with ``stop.metric``, that of the best model.

    ``rounds``: rounds that ended with a new model. ``verified_rounds``: rounds whose step verifiers
    confirmed. ``survivors``: smallest number of parties that any of these rounds counted. ``opened_sums``:
    opened sums, over all rounds and reclusterings. ``clusters_lost``: planned sums that did not open,
    including those that the leakage ledger keeps closed. ``refusals``: messages that honest parties or the
    server rejected. ``aborted``: 1 if the run aborted, else 0; an expected abort exits with 0.

    ``checks_failed``: opened sums that the checks left out. ``skippers_failed``: share that the checks left
    out, of the opened sums with a ``no-noise`` party that adds none in the round. ``false_alarms``: sums left
    out without a party that attacks its update, or shows ``no-clip`` or ``no-noise``, in that round.
    ``updates_refused``: times that ``secure_sum.validate`` left a party out. ``dishonest_counted``: times
    that a party with a behaviour counted in a round. ``epsilon``: epsilon spent by the honest party with the
    most releases; none with seeded entropy.

    >>> from securefl.sections import Expect
    >>> Expect(metric="accuracy", at_least=0.9).at_most is None
    True
    """

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
    """Metric to compare."""
    of: str | None = None
    """``evaluation`` only: the number, such as ``"scores.auc"``."""
    at_least: float | None = None
    """Inclusive lower bound; at least one bound is needed."""
    at_most: float | None = None
    """Inclusive upper bound."""


class Scenario(section.Section, frozen=True, kw_only=True):
    """All settings of one federated run, as the tables of a scenario file (docs/scenarios.md).

    Immutable; the constructor checks all fields. :func:`securefl.load` also derives missing fields of
    ``secure_sum``.

    >>> import securefl
    >>> securefl.Scenario(name="wards", parties=-3)
    Traceback (most recent call last):
    securefl.base.errors.ConfigError: Scenario.parties: expected int >= 1, found -3
    """

    name: section.Name
    """Name of the run in topics and directories."""
    description: str = ""
    """Text for people."""
    parties: Annotated[int, Meta(ge=1, le=100_000)]
    """N, number of parties. Their names are ``p00``, ``p01``, ... with as many digits as the last one
    needs."""
    data: Data = Data()
    """Data set and its split."""
    model: Model = field(default_factory=partial(default_of, Model, "mlp"))
    """Model that is trained."""
    training: Training = Training()
    """Local training."""
    clustering: Clustering = Clustering()
    """Clusters of secure sums."""
    groups: Groups = Groups()
    """Task groups."""
    participation: Participation = Participation()
    """Participants of a round."""
    secure_sum: SecureSum = SecureSum()
    """Secure sums."""
    privacy: Privacy = Privacy()
    """Differential privacy."""
    encoding: Encoding = Encoding()
    """Fixed-point encoding."""
    weighting: Weighting = Weighting()
    """Weights of parties."""
    checks: Checks = Checks()
    """Checks of opened sums."""
    aggregation: Aggregation = Aggregation()
    """Rule on cluster means."""
    server_optimiser: ServerOptimiser = field(default_factory=partial(default_of, ServerOptimiser, "sgd"))
    """Step of the model from a round's aggregated update."""
    stop: Stop = Stop()
    """End of the run."""
    evaluation: SiteEvaluation = SiteEvaluation()
    """Metrics at sites."""
    statistics: SiteStatistics = SiteStatistics()
    """Statistics of the sites' columns."""
    deadlines: Deadlines = Deadlines()
    """Deadlines of each step."""
    leakage: Leakage = Leakage()
    """Limits of leakage."""
    observer: bool = False
    """True if a local run adds an observer at the broker, like ``--observe``."""
    behaviours: tuple[Behaviour, ...] = ()
    """Attacks and faults."""
    expect: tuple[Expect, ...] = ()
    """Expected outcome."""

    def __repr__(self) -> str:
        rule, kind = self.aggregation.rule.name, self.secure_sum.kind
        return f"<Scenario {self.name}: {self.parties} parties, {self.stop.rounds} rounds, {kind}, {rule}>"

    @property
    def submit_seconds(self) -> float | None:
        """Seconds from the draw until all parties send; None if each sends after its training."""
        hides_times = self.deadlines.submit is None and self.privacy.unit != "none"
        return self.training_seconds if hides_times else self.deadlines.submit

    @property
    def training_seconds(self) -> float:
        """Seconds from the draw after which an unfinished training has failed."""
        deadlines = self.deadlines
        return IN_TIME * deadlines.training if deadlines.submit is None else deadlines.submit
