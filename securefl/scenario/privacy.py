"""The ``[privacy]`` table and ``[training.dp_sgd]``: what is hidden, by what noise, from whose view.

``docs/privacy.md`` says what each choice is worth. A scenario is **settled** when the noise of every party
follows from it and the model's size alone: before, an epsilon has to become a multiplier, which takes the
parties' numbers of records and an accountant (:mod:`securefl.methods.privacy.settling`).

The ``[checks]`` table: the server's checks of opened sums (step 12 of the data flow).

``secure_sum.validate``: updates that are measured before they count (ADR 0024).
"""

from typing import Annotated, Literal

from msgspec import Meta

from securefl.scenario import section
from securefl.scenario.section import Section

MAX_COMPONENTS = 64
"""Dropouts that dropout-exact noise is made for: the shares of so many secrets fit a share box."""
_Multiplier = Annotated[float, Meta(gt=0, le=1e9)]
"""Nobody learns anything through as much noise, and beyond it variances are no numbers any more."""


class Normalise(section.Section, tag="normalise", frozen=True, kw_only=True):
    """Each example's gradient is brought to length 1 (Xiang et al. 2023, algorithm 1)."""


class ClipEach(section.Section, tag="clip", frozen=True, kw_only=True):
    """Each example's gradient is shortened to ``norm`` where it is longer (Abadi et al. 2016)."""

    norm: section.PositiveReal = 1.0


class DpSgd(section.Section, frozen=True, kw_only=True):
    """One step of DP-SGD a round instead of epochs of SGD.

    The update is minus the sum of bounded per-example gradients over ``training.batch_size``, which is
    the expected size of a batch. Its noise is added after the encoding, as ``[privacy]`` says.
    """

    bound: Normalise | ClipEach = Normalise()
    sampler: Literal["poisson", "fixed-size"] = "poisson"
    """Poisson: each record by its own secret coin. Fixed-size: a uniform subset without replacement."""
    momentum: Annotated[float, Meta(ge=0, lt=1)] = 0.0
    """beta: an example's gradient counts 1 - beta, ``carry`` counts beta, before both are bounded."""
    carry: Literal["off", "own", "global"] = "off"
    """``own``: the party's last upload, noise included, which is public without a secure sum only.
    ``global``: the last step of the global model over the server's learning rate."""

    @property
    def norm(self) -> float:
        """No example's bounded gradient is longer."""
        return self.bound.norm if isinstance(self.bound, ClipEach) else 1.0


class Transfer(section.Section, frozen=True, kw_only=True):
    """Scale the server's learning rate by ``multiplier`` over the run's own (Xiang et al., section 4.2)."""

    multiplier: _Multiplier
    """sigma_b: the noise multiplier at which ``server_optimiser.learning_rate`` was tuned."""


class QuantileClip(section.Section, frozen=True, kw_only=True):
    """Clip of updates that follows a quantile of their norms (Andrew et al. 2021), at party level.

    The clip C becomes C exp(-``rate`` (share - ``quantile``)) after each round; ``share`` is that of updates
    no longer than C, with noise.
    """

    quantile: Annotated[float, Meta(ge=0, le=1)] = 0.5
    """Share of updates that should not be cut."""
    initial: section.PositiveReal = 0.1
    """C of the first round, L2 norm of a whole update."""
    minimum: section.PositiveReal = 1e-6
    maximum: section.PositiveReal = 1e6
    rate: Annotated[float, Meta(gt=0, le=10)] = 0.2
    noise: section.PositiveReal | None = None
    """Standard deviation of the noise on a sum of bits, in bits of one party; 3 times the noise multiplier
    of updates unless given."""


class Privacy(section.Section, frozen=True, kw_only=True):
    """Differential privacy of what is opened."""

    unit: Literal["none", "record", "party"] = "none"
    """What is hidden: nothing, one example of a party, or all that a party has."""
    relation: Literal["add-remove", "replace-one"] = "add-remove"
    epsilon: section.PositiveReal | None = None
    """For the whole run; the noise multiplier follows. Either this or ``multiplier``."""
    multiplier: _Multiplier | None = None
    """sigma: noise in an opened sum that the adversary does not know, over the sensitivity of add-remove."""
    delta: Annotated[float, Meta(gt=0, lt=1)] | Literal["auto"] = "auto"
    """``auto``: ``records`` ^ -1.1, or parties ^ -1.1."""
    records: section.Positive | None = None
    """Record level: every party has so many at least. Where a launcher splits the data, it counts them."""
    law: Literal["skellam", "discrete-gaussian"] = "skellam"
    placement: Literal["local", "threshold", "dropout-exact"] = "local"
    """All of the noise in each upload, or shares of it (:mod:`securefl.methods.privacy.components`)."""
    budget: section.PositiveReal | None = None
    """Epsilon beyond which a party releases no more; ``epsilon`` unless given."""
    releases: section.NonNegative | None = None
    """So many releases keep to the budget; worked out when the scenario is settled."""
    accountant: Literal["pld", "rdp"] = "pld"
    """Which bound turns epsilon into noise; both are reported."""
    transfer: Transfer | None = None
    clip: QuantileClip | None = None
    """None: ``encoding.clip`` in all rounds."""

    @property
    def shared(self) -> bool:
        """Whether the guarantee rests on others' noise, too."""
        return self.placement != "local"

    @property
    def settled(self) -> bool:
        """Whether the noise, and how often it may be relied on, follow from the scenario alone."""
        if self.unit == "none":
            return True
        known = self.multiplier is not None and self.delta != "auto"
        counted = self.unit == "party" or self.records is not None
        return known and counted and (self.budget is None or self.releases is not None)


class Checks(Section, frozen=True, kw_only=True):
    """Checks of opened sums against the noise that was agreed; a sum that fails is left out."""

    kind: Literal["none", "published", "corrected"] = "none"
    """``corrected``: all of :mod:`securefl.methods.privacy.checks`, whose rate of false alarms is known.
    ``published``: the norm and KS tests of Xiang et al. 2023, algorithm 2, for clusters of one."""
    alpha: Annotated[float, Meta(ge=1e-6, le=0.5)] = 0.01
    """``corrected``: probability that a round leaves out any sum of honest parties."""


DEAL_BYTES = 480 * 1024
"""Largest box of triples: one member's deal has to fit into a frame, so that it can be relayed as signed."""


class Validate(section.Section, frozen=True, kw_only=True):
    """A bound on the L2 norm of what a party submits, checked under MPC before it is counted."""

    norm: section.PositiveReal
    """C, in the unit of the parameters: honest updates stay below 0.9 C, and 2 C or more are refused."""
    projections: Annotated[int, Meta(ge=8, le=256, multiple_of=8)] = 64
    failure: Annotated[float, Meta(gt=0, le=0.1)] = 1e-3
    """Bound on the probability of either error, for each update."""
