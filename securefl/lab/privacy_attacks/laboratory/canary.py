"""Canary audit: a lower bound on epsilon from one simulated run, beside the claimed epsilon.

Canaries pass through the same rounding, noise, clusters and openings as other records. The attacker knows
everything but coins, sampling and noise, as the guarantee assumes. The bound exceeds the claim if noise,
sampling or counted openings are wrong by much.
"""

import math
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from securefl.base.arrays import F32, F64, I64
from securefl.base.entropy import Entropy
from securefl.base.ids import PartyId
from securefl.lab.privacy_attacks.epsilon import Bound, errors_at_most, gaussian_shift, one_run
from securefl.lab.privacy_attacks.openings import best_estimate, log_ratio
from securefl.methods import clustering, encoding, privacy
from securefl.protocol.round import SumOpened
from securefl.runtime import simulation
from securefl.training import sgd

_DELTA = 0.01
"""Largest product of delta and number of canaries, which bounds the loss of confidence by delta."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CanaryAudit:
    """Results of the canaries of one run."""

    claimed: float
    """At ``delta``, of the host with the most releases."""
    delta: float
    """Delta of the test, at most the scenario's: a smaller one can strengthen the guesses."""
    announced: tuple[float, float]
    """Epsilon and delta of the same host at the scenario's delta."""
    releases: int
    bound: Bound
    """Lower bound of one run, for any dependence between updates."""
    gaussian: float | None
    """Epsilon at ``delta`` of the smallest Gaussian release that explains the guesses, at equal confidence.
    It assumes Gaussian releases and independent canaries, true if updates are known except for canary and
    noise. None with sampling, which is not Gaussian.
    """
    scores: F64
    """Log likelihood ratio of each canary, ``(m,)``."""
    present: npt.NDArray[np.bool_]

    @property
    def holds(self) -> bool:
        """True if no lower bound exceeds the claim."""
        return max(self.bound.epsilon, self.gaussian or 0.0) <= self.claimed


def audit_canaries(
    federation: simulation.SimulatedFederation,
    hosts: Collection[PartyId],
    entropy: Entropy,
    *,
    count: int = 1000,
    confidence: float = 0.95,
    train: bool = True,
) -> CanaryAudit:
    """Simulate the scenario once with canaries, and guess which were included.

    Args:
        federation: federation with privacy; not changed.
        hosts: parties with canaries in their updates; the claim must cover them.
        entropy: of coins and sampling, unknown to the server.
        count: canaries (:func:`securefl.runtime.simulation.canaries.plant`).
        confidence: of each bound.
        train: False for zero updates except for canaries: faster, and tests the noise alone.

    Raises:
        ConfigError: the scenario has no guarantee, or its batches cannot omit canaries.
        UsageError: no hosts.
    """
    if not train:
        federation = replace(
            federation, trainings=simulation.Trainings(_keep_parameters(federation.plan.length))
        )
    held, planted = simulation.plant(federation, hosts, count, entropy)
    openings = _Openings(planted.coordinates)
    simulation.SimulatedRounds(held, (openings,)).run(held.evaluator.evaluate if train else _evaluate_nothing)
    mechanism = planted.mechanism
    scores, present = np.zeros(planted.coordinates.size), np.zeros(planted.coordinates.size, dtype=np.bool_)
    releases = 0
    for name in hosts:
        flock = planted.hosts[name].flock
        ratios = list(_ratios(held, planted, openings, name))
        scores[flock.place] = sum(ratios, np.zeros(flock.present.size))
        present[flock.place] = flock.present
        releases = max(releases, len(ratios))
    ledger = privacy.ledger_of(mechanism, releases)
    # Unless delta is far below 1 / count, an algorithm may reveal some canaries within its guarantee.
    lost = math.fsum(event.delta_lost for event in ledger.events)
    delta = min(ledger.delta, max(_DELTA / scores.size, 4 * lost))
    return CanaryAudit(
        claimed=replace(ledger, delta=delta).epsilon(),
        delta=delta,
        announced=(ledger.epsilon(), ledger.delta),
        releases=releases,
        bound=one_run(scores, present, delta, confidence=confidence),
        gaussian=_gaussian(scores, present, delta, confidence) if mechanism.event.rate == 1 else None,
        scores=scores,
        present=present,
    )


def _gaussian(scores: F64, present: npt.NDArray[np.bool_], delta: float, confidence: float) -> float:
    if present.all() or not present.any():
        return 0.0
    shift = gaussian_shift(errors_at_most(scores, present, confidence=confidence))
    return (
        privacy.epsilon([privacy.ReleaseEvent(noise_multiplier=1 / shift, steps=1)], delta) if shift else 0.0
    )


def _keep_parameters(length: int) -> Callable[[simulation.TrainingTask], Iterator[tuple[PartyId, F64]]]:
    return lambda task: ((name, np.zeros(length)) for name in task.names)


class _Opened(NamedTuple):
    """Opened sum at the canaries' coordinates."""

    reclustering: int
    survivors: tuple[PartyId, ...]
    values: I64
    """Steps, ``(m,)``."""


class _Openings:
    """Listener that keeps the ``coordinates`` ``(m,)`` of all opened sums."""

    def __init__(self, coordinates: I64) -> None:
        self._coordinates = coordinates
        self.by_round: dict[int, list[_Opened]] = defaultdict(list)

    def on_report(self, _now: float, report: object) -> None:
        """Keep the coordinates of an opened sum."""
        if isinstance(report, SumOpened):
            one = report.opened
            seen = _Opened(one.reclustering, one.survivors, encoding.from_ring(one.ring)[self._coordinates])
            self.by_round[report.round].append(seen)

    def on_reject(self, vantage: str, culprit: str, reason: str) -> None:
        """Ignore a refusal."""


def _ratios(
    federation: simulation.SimulatedFederation,
    planted: simulation.Planted,
    openings: _Openings,
    name: PartyId,
) -> Iterator[F64]:
    """Yield log likelihood ratios of a host's canaries, f64 ``(c,)``, for each of its releases."""
    scenario, mechanism = federation.plan.scenario, planted.mechanism
    unit = float(1 << scenario.encoding.scale_bits)
    column = {party: index for index, party in enumerate(federation.parties)}
    mine = planted.hosts[name].flock.place
    for round_, work in sorted(planted.hosts[name].without):
        sums = [
            one
            for one in openings.by_round[round_]
            if clustering.work_of(scenario.clustering, one.reclustering) == work
        ]
        rows = np.zeros((len(sums), len(column)), dtype=np.int64)
        for row, one in zip(rows, sums, strict=True):
            row[[column[party] for party in one.survivors]] = 1
        best = best_estimate(rows, column[name])
        if best is None:
            continue
        seen = np.zeros(planted.hosts[name].flock.present.size)
        for factor, one in zip(best.factors.tolist(), sums, strict=True):
            known = [planted.hosts[party].without[round_, work][mine] for party in one.survivors]
            seen += factor * (one.values[mine] / unit - np.sum(known, axis=0))
        kept = max(mechanism.shares.kept_std(len(one.survivors)) for one in sums)
        std = kept / unit / math.sqrt(best.leverage)
        yield log_ratio(seen, simulation.canary_size(scenario), std, mechanism.event.rate)


def _evaluate_nothing(_params: F32) -> sgd.Evaluation:
    return sgd.Evaluation(0.0, 0.0, None)
