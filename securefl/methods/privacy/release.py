"""Releases of a party, as an accountant sees them; only accountants double replace-one's sensitivity."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Literal, get_args

from securefl.base.errors import UsageError
from securefl.methods.privacy.exposure import fresh_exposure

Unit = Literal["record", "party"]
"""Unit whose presence is hidden: one example, or all data of a party."""
Relation = Literal["add-remove", "replace-one"]
"""Neighbouring data sets: one has a unit more, or one unit is replaced."""
Sampler = Literal["poisson", "fixed-size", "shuffle", "none"]
"""Sampling of a step's batch. Poisson: each record independently. Fixed-size: a uniform subset, afresh for
each step. Shuffle: epochs in random order, starting with the event, without amplification. None: all
records."""
Mechanism = Literal["gaussian", "skellam", "discrete-gaussian"]

OTHER: dict[Relation, Relation] = {"add-remove": "replace-one", "replace-one": "add-remove"}
SENSITIVITY: dict[Relation, int] = {"add-remove": 1, "replace-one": 2}


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleaseEvent:
    """``steps`` releases of one kind by one party; inconsistent values raise a UsageError."""

    noise_multiplier: float
    """Standard deviation of the noise that this party adds to its own upload, over the largest norm of a
    record's gradient (or a party's update); > 0."""
    steps: int
    """Number of released batches (record level) or updates (party level), >= 1."""
    mechanism: Mechanism = "gaussian"
    unit: Unit = "record"
    relation: Relation = "add-remove"
    sampler: Sampler = "none"
    records: int = 1
    """Units sampled from; 1 without a sampler."""
    batch: int = 1
    """Expected number of sampled units per step, at most ``records``."""
    denominator: int | Literal["drawn"] = 1
    """Denominator of noisy sums: fixed beforehand (1: released as they are), or the drawn number of units,
    which is private under most samplers and then has no accounting."""
    survivors: tuple[int, ...] = (1,)
    """For each opening of one update, h >= 1: members whose noise the adversary does not know; (1,) for local
    noise."""
    leverage: float | None = None
    """Exposure (:func:`securefl.methods.leakage.leverage.leverages`) if noise is added once for all openings,
    at least 1 / max(survivors). ``None``: fresh noise in each opening, so it is the sum of 1 / h."""
    mu_slack: float = 0.0
    """Relative increase of mu that covers a discrete mechanism's distance from the Gaussian one."""
    delta_slack: float = 0.0
    """Statistical distance of the sampled noise from the law in the proof, summed over all steps."""
    delta_lost: float = 0.0
    """Probability that some step violates an assumption of the proof (as rounding beyond its bound), summed
    over all steps; subtracted from delta."""

    def __post_init__(self) -> None:
        if not (math.isfinite(self.noise_multiplier) and self.noise_multiplier > 0 and self.steps >= 1):
            raise UsageError(
                f"noise multiplier {self.noise_multiplier} or {self.steps} steps are out of range"
            )
        if not 1 <= self.batch <= self.records:
            raise UsageError(
                f"batch must be from 1 to {self.records}, the number of records; found {self.batch}"
            )
        if self.sampler == "none" and self.batch != self.records:
            raise UsageError(
                f'batch must be {self.records}, all records, or sampler not "none"; found batch {self.batch}'
            )
        if isinstance(self.denominator, int) and self.denominator < 1:
            raise UsageError(f"denominator must be at least 1, found {self.denominator}")
        fresh_exposure(self.survivors)
        if self.leverage is not None and not self.leverage * max(self.survivors) >= 1 - 1e-9:
            raise UsageError(
                f"leverage must be at least 1 / {max(self.survivors)} (the most survivors), found"
                f" {self.leverage}"
            )
        if not (self.mu_slack >= 0 and 0 <= self.delta_slack < 1 and 0 <= self.delta_lost < 1):
            raise UsageError(
                "mu_slack must be at least 0, delta_slack and delta_lost in [0, 1); found"
                f" {self.mu_slack}, {self.delta_slack}, {self.delta_lost}"
            )
        _check_choice(self.mechanism, Mechanism)
        _check_choice(self.unit, Unit)
        _check_choice(self.relation, Relation)
        _check_choice(self.sampler, Sampler)

    @property
    def exposure(self) -> float:
        """Exposure of one update by all its openings (:mod:`securefl.methods.privacy.exposure`)."""
        return fresh_exposure(self.survivors) if self.leverage is None else self.leverage

    @property
    def multiplier(self) -> float:
        """Multiplier (add-remove) of the one release that equals all openings of an update; 0 if exposed."""
        return self.noise_multiplier / (math.sqrt(self.exposure) * (1 + self.mu_slack))

    @property
    def rate(self) -> float:
        """Sampling probability q of a unit."""
        return self.batch / self.records

    def times(self, count: int) -> ReleaseEvent:
        """Return ``count`` times these steps as one event.

        Raises:
            UsageError: ``count`` below 1, or so large that no delta remains.
        """
        return replace(
            self,
            steps=count * self.steps,
            delta_slack=count * self.delta_slack,
            delta_lost=count * self.delta_lost,
        )

    def sampling(self) -> str:
        """Return the sampler as text, with rate and denominator."""
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
        raise UsageError(
            f"a choice of a release must be one of {', '.join(get_args(choices))}; found {value!r}"
        )
