"""Releases of a party, as far as an accountant needs to know them: frozen values.

The sensitivity of everything here is 1 under add-remove: ``noise_multiplier`` is in units of the norm that a
record's gradient (or a party's update) has at most. Replace-one doubles the sensitivity; the accountant does
that, nobody else may.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Literal, get_args

from securefl.base.errors import UsageError
from securefl.methods.privacy.exposure import fresh_exposure

Unit = Literal["record", "party"]
"""Whose presence is hidden: one example's, or all that a party has."""
Relation = Literal["add-remove", "replace-one"]
"""Which data sets are neighbours: one has a unit more, or one unit is another."""
Sampler = Literal["poisson", "fixed-size", "shuffle", "none"]
"""How a step's batch comes about. Poisson: each record by its own coin. Fixed-size: a uniform subset, drawn
anew for each step. Shuffle: epochs in a random order, the first of which begins with the event; no
amplification is claimed for it. None: everything."""
Mechanism = Literal["gaussian", "skellam", "discrete-gaussian"]

OTHER: dict[Relation, Relation] = {"add-remove": "replace-one", "replace-one": "add-remove"}
SENSITIVITY: dict[Relation, int] = {"add-remove": 1, "replace-one": 2}


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleaseEvent:
    """``steps`` releases of one kind by one party.

    Raises:
        UsageError: values out of range or that do not go together.
    """

    noise_multiplier: float
    """Standard deviation of the noise that this party adds to its own upload, over the norm bound; > 0."""
    steps: int
    """Batches (record level) or updates (party level) that were released, >= 1."""
    mechanism: Mechanism = "gaussian"
    unit: Unit = "record"
    relation: Relation = "add-remove"
    sampler: Sampler = "none"
    records: int = 1
    """Units sampled from; 1 without a sampler."""
    batch: int = 1
    """Expected number of sampled units per step, at most ``records``."""
    denominator: int | Literal["drawn"] = 1
    """What noisy sums are divided by: a number fixed beforehand (1: sums are released as they are), or how
    many units were drawn, which is private under most samplers and then has no accounting."""
    survivors: tuple[int, ...] = (1,)
    """h of each opening of one update: members whose noise the adversary does not know, >= 1. (1,) is local
    noise: what the others add does not count."""
    leverage: float | None = None
    """Exposure where noise is added once for all openings, at least 1 / max(survivors), see
    :func:`securefl.methods.leakage.leverage.leverages`. ``None``: fresh noise in each opening, which adds up
    to the sum of 1 / h."""
    mu_slack: float = 0.0
    """Relative increase of mu that covers a discrete mechanism's distance from the Gaussian one."""
    delta_slack: float = 0.0
    """Statistical distance of the sampled noise of all steps from the law in the proof, summed."""
    delta_lost: float = 0.0
    """Probability that some step is not what the proof takes it for (rounding beyond its bound), summed over
    all steps: it comes off delta."""

    def __post_init__(self) -> None:
        if not (math.isfinite(self.noise_multiplier) and self.noise_multiplier > 0 and self.steps >= 1):
            raise UsageError(
                f"noise multiplier {self.noise_multiplier} or {self.steps} steps are out of range"
            )
        if not 1 <= self.batch <= self.records:
            raise UsageError(f"a batch of {self.batch} is out of range for {self.records} records")
        if self.sampler == "none" and self.batch != self.records:
            raise UsageError(f"a batch of {self.batch} from {self.records} records needs a sampler")
        if isinstance(self.denominator, int) and self.denominator < 1:
            raise UsageError(f"the denominator must be at least 1, not {self.denominator}")
        fresh_exposure(self.survivors)
        if self.leverage is not None and not self.leverage * max(self.survivors) >= 1 - 1e-9:
            raise UsageError(f"leverage {self.leverage} below 1 / {max(self.survivors)}")
        if not (self.mu_slack >= 0 and 0 <= self.delta_slack < 1 and 0 <= self.delta_lost < 1):
            raise UsageError(f"slack {self.mu_slack}, {self.delta_slack}, {self.delta_lost}")
        _check_choice(self.mechanism, Mechanism)
        _check_choice(self.unit, Unit)
        _check_choice(self.relation, Relation)
        _check_choice(self.sampler, Sampler)

    @property
    def exposure(self) -> float:
        """Of one update by all its openings together (:mod:`securefl.methods.privacy.exposure`)."""
        return fresh_exposure(self.survivors) if self.leverage is None else self.leverage

    @property
    def multiplier(self) -> float:
        """Noise multiplier of the one Gaussian release that equals all openings of one update; 0 if exposed.

        That of add-remove: what an opened sum carries, over the norm bound. R openings are one release, so
        that sampling amplifies it once.
        """
        return self.noise_multiplier / (math.sqrt(self.exposure) * (1 + self.mu_slack))

    @property
    def rate(self) -> float:
        """Sampling probability q of a unit."""
        return self.batch / self.records

    def times(self, count: int) -> ReleaseEvent:
        """``count`` times these steps as one event.

        Raises:
            UsageError: ``count`` below 1, or so many that nothing of delta is left.
        """
        return replace(
            self,
            steps=count * self.steps,
            delta_slack=count * self.delta_slack,
            delta_lost=count * self.delta_lost,
        )

    def sampling(self) -> str:
        """The sampler in words, with rate and denominator."""
        match self.sampler:
            case "none":
                drawn = "no sampling"
            case "shuffle":
                drawn = f"shuffled batches of {self.batch} of {self.records} (no amplification)"
            case "poisson" | "fixed-size":
                kind = "Poisson" if self.sampler == "poisson" else "fixed-size"
                drawn = f"{kind} sampling, q = {self.batch}/{self.records}"
        return drawn if self.denominator == 1 else f"{drawn}, denominator {self.denominator}"


def _check_choice(value: str, choices: object) -> None:
    if value not in get_args(choices):
        raise UsageError(f"{value!r} is not one of {', '.join(get_args(choices))}")
