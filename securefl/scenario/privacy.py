"""The ``[privacy]``, ``[training.dp_sgd]`` and ``[checks]`` tables, and ``secure_sum.validate`` (ADR 0024).

A scenario is **settled** if it and the model's size determine the noise of every party. For an epsilon this
needs the parties' numbers of records and an accountant (:mod:`securefl.methods.privacy.settling`).
"""

from typing import Annotated, Literal

from msgspec import Meta

from securefl.scenario import section
from securefl.scenario.section import Section

MAX_COMPONENTS = 64
"""Most dropouts for dropout-exact noise: the shares of that many secrets fit a share box."""
_Multiplier = Annotated[float, Meta(gt=0, le=1e9)]
"""Noise multiplier; beyond 1e9 variances overflow."""


class Normalise(section.Section, tag="normalise", frozen=True, kw_only=True):
    """Example gradients scaled to length 1 (Xiang et al. 2023, algorithm 1).

    >>> from securefl.sections import DpSgd, Normalise
    >>> DpSgd(bound=Normalise()).norm
    1.0
    """


class ClipEach(section.Section, tag="clip", frozen=True, kw_only=True):
    """Example gradients shortened to ``norm`` if they are longer (Abadi et al. 2016).

    >>> from securefl.sections import ClipEach
    >>> ClipEach(norm=2.0).norm
    2.0
    """

    norm: section.PositiveReal = 1.0
    """Largest L2 norm."""


class DpSgd(section.Section, frozen=True, kw_only=True):
    """One step of DP-SGD per round in place of epochs of SGD.

    The update is minus the sum of bounded per-example gradients over ``training.batch_size``, which is
    the expected size of a batch. The noise of ``[privacy]`` is added after the encoding.

    >>> from securefl.sections import DpSgd
    >>> DpSgd(sampler="fixed-size").norm
    1.0
    """

    bound: Normalise | ClipEach = Normalise()
    """Bound of each example's gradient."""
    sampler: Literal["poisson", "fixed-size"] = "poisson"
    """``poisson``: each record is drawn by its own secret coin. ``fixed-size``: a uniform subset of
    ``batch_size`` without replacement."""
    momentum: Annotated[float, Meta(ge=0, lt=1)] = 0.0
    """beta. Before the bound an example's gradient has weight 1 - beta, the carried vector beta. Needs
    ``carry``."""
    carry: Literal["off", "own", "global"] = "off"
    """Carried vector; needs ``momentum``. ``own``: the party's last upload with its noise, in clusters of
    1 only. ``global``: the last step of the global model over the server's learning rate."""

    @property
    def norm(self) -> float:
        """Largest L2 norm of an example's bounded gradient."""
        return self.bound.norm if isinstance(self.bound, ClipEach) else 1.0


class Transfer(section.Section, frozen=True, kw_only=True):
    """Factor of the server's learning rate: ``multiplier`` over the run's own (Xiang et al., section 4.2).

    >>> from securefl.sections import Transfer
    >>> Transfer(multiplier=1.5).multiplier
    1.5
    """

    multiplier: _Multiplier
    """sigma_b: the noise multiplier at which ``server_optimiser.learning_rate`` was tuned."""


class QuantileClip(section.Section, frozen=True, kw_only=True):
    """Clip of updates that follows a quantile of their norms (Andrew et al. 2021), at party level.

    After each round the clip C becomes C exp(-``rate`` (share - ``quantile``)). ``share`` is the noisy share
    of updates no longer than C.

    >>> from securefl.sections import QuantileClip
    >>> QuantileClip(quantile=0.5).rate
    0.2
    """

    quantile: Annotated[float, Meta(ge=0, le=1)] = 0.5
    """Share of updates that should not be clipped."""
    initial: section.PositiveReal = 0.1
    """C of the first round, L2 norm of a whole update."""
    minimum: section.PositiveReal = 1e-6
    """Lower limit of C."""
    maximum: section.PositiveReal = 1e6
    """Upper limit of C."""
    rate: Annotated[float, Meta(gt=0, le=10)] = 0.2
    """Step of the logarithm of C at a distance of 1 from the quantile."""
    noise: section.PositiveReal | None = None
    """Standard deviation of the noise on a sum of bits, in bits of one party. None: 3 times the noise
    multiplier of updates."""


class Privacy(section.Section, frozen=True, kw_only=True):
    """Differential privacy of all opened values (docs/privacy.md).

    >>> from securefl.sections import Privacy
    >>> Privacy(unit="party", epsilon=2.0).placement
    'local'
    """

    unit: Literal["none", "record", "party"] = "none"
    """Protected unit: nothing, one example, or all data of a party. ``record`` needs ``training.dp_sgd``
    and ``weighting.mode = "ignore"``; ``party`` needs ``encoding.clip`` or ``privacy.clip``."""
    relation: Literal["add-remove", "replace-one"] = "add-remove"
    """Neighbouring relation of data sets."""
    epsilon: section.PositiveReal | None = None
    """Budget of the whole run, which determines the noise multiplier. Either this or ``multiplier``."""
    multiplier: _Multiplier | None = None
    """sigma: standard deviation of the noise in an opened sum that the adversary does not know, over the
    sensitivity of add-remove."""
    delta: Annotated[float, Meta(gt=0, lt=1)] | Literal["auto"] = "auto"
    """Below 1 / records. ``auto``: records^-1.1 with the records of the smallest party, or parties^-1.1.
    The header warns of a delta above 0.01 (65 units or fewer)."""
    records: section.Positive | None = None
    """Record level: fewest records of any party. ``run`` and ``simulate`` count them. A deployment states
    the number, and a party with fewer refuses to join."""
    law: Literal["skellam", "discrete-gaussian"] = "skellam"
    """Distribution of the noise, on integers."""
    placement: Literal["local", "threshold", "dropout-exact"] = "local"
    """``local``: each upload carries all noise. ``threshold``: 1 / h of its variance, h =
    ``min_survivors`` - f. ``dropout-exact``: enough that s survivors keep 1 / (s - f) each, for at most
    64 tolerated dropouts."""
    budget: section.PositiveReal | None = None
    """Epsilon above which a party releases nothing. None: ``epsilon``."""
    releases: section.NonNegative | None = None
    """Number of releases within the budget; computed when the scenario is settled."""
    accountant: Literal["pld", "rdp"] = "pld"
    """Accountant that converts epsilon to noise; the report has both."""
    transfer: Transfer | None = None
    """Scaling of the server's learning rate."""
    clip: QuantileClip | None = None
    """Clip that follows a quantile, at party level. None: ``encoding.clip`` in all rounds."""

    @property
    def shared(self) -> bool:
        """True if the guarantee relies on the noise of other parties."""
        return self.placement != "local"

    @property
    def settled(self) -> bool:
        """True if the scenario determines the noise and the number of releases."""
        if self.unit == "none":
            return True
        known = self.multiplier is not None and self.delta != "auto"
        counted = self.unit == "party" or self.records is not None
        return known and counted and (self.budget is None or self.releases is not None)


class Checks(Section, frozen=True, kw_only=True):
    """Checks of opened sums against the agreed noise; failing sums are left out (docs/checks.md).

    >>> from securefl.sections import Checks
    >>> Checks(kind="corrected").alpha
    0.01
    """

    kind: Literal["none", "published", "corrected"] = "none"
    """``corrected``: all checks, with a known rate of false alarms. ``published``: the norm and KS tests
    of Xiang et al. 2023, algorithm 2, for clusters of one and noise of 3 sqrt(d) steps or more. Both
    need the noise of ``[privacy]``."""
    alpha: Annotated[float, Meta(ge=1e-6, le=0.5)] = 0.01
    """``corrected``: probability that a round leaves out a sum of honest parties, and that the evidence of
    a whole run names an honest party."""


DEAL_BYTES = 480 * 1024
"""Largest box of triples: a member's deal must fit into a frame, so that it can be relayed as signed."""


class Validate(section.Section, frozen=True, kw_only=True):
    """Bound on the L2 norm of an upload, checked under MPC before it counts."""

    norm: section.PositiveReal
    """C, in the unit of the parameters, times the party's weight. Honest updates stay below 0.9 C; 2 C or
    more is rejected. Needs a clip of at most 0.9 C and no privacy noise."""
    projections: Annotated[int, Meta(ge=8, le=256, multiple_of=8)] = 64
    """Random projections per update; more projections lower both errors."""
    failure: Annotated[float, Meta(gt=0, le=0.1)] = 1e-3
    """Bound on the probability of either error, for each update."""
