"""Shadow models: the same federation on other records, to measure a record's effect."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt

from securefl.base import entropy
from securefl.base.arrays import F32
from securefl.base.errors import RunAbortedError, UsageError
from securefl.base.ids import RunId
from securefl.methods import server_optimisers
from securefl.protocol.round import AnyReport, ModelFinal
from securefl.runtime.simulation.federation import assemble
from securefl.runtime.simulation.limits import without_messages
from securefl.runtime.simulation.rounds import SimulatedRounds
from securefl.scenario import (
    Aggregation,
    Checks,
    Clustering,
    Leakage,
    Participation,
    Scenario,
    SecureSum,
    Stop,
)
from securefl.training import sgd
from securefl.training.data import Dataset

_RUN: Final = RunId("5bad0e" + "0" * 26)


class Shadow(NamedTuple):
    """One shadow model."""

    member: npt.NDArray[np.bool_]
    """Mask of the pool's records that it was trained on, ``(n,)``."""
    params: F32
    """Final parameters, f32 ``(d,)``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pool:
    """Records for shadow models: each trains on another half of ``dataset``'s training half."""

    scenario: Scenario
    """Settled if it has privacy. Its data set, limits and the server's own samples are ignored."""
    dataset: Dataset
    initial: F32 | None = None
    """None for the scenario's own model."""
    share: float = 0.5
    """Part of the pool that each trains on."""

    def shadows(self, count: int, seed: int, secret: entropy.Entropy | None = None) -> Iterator[Shadow]:
        """Train ``count`` models, one after the other; each costs a simulation of the scenario.

        Behaviours of the server are omitted. All follows from ``seed``, except noise and sampling with
        privacy, whose entropy is ``secret``, or the operating system's.

        Raises:
            ConfigError: the scenario cannot be simulated on that many records.
            RunAbortedError: one of them ended without a model.
        """
        size = len(self.dataset.y_train)
        for index in range(count):
            generator = np.random.default_rng((seed, index))
            member = np.zeros(size, dtype=np.bool_)
            member[generator.permutation(size)[: round(self.share * size)]] = True
            yield Shadow(member, self.train(member, seed + index + 1, secret))

    def train(self, member: npt.NDArray[np.bool_], seed: int, secret: entropy.Entropy | None = None) -> F32:
        """Return the model of a federation with these records, f32 ``(d,)``.

        Raises:
            ConfigError: the scenario cannot be simulated on them.
            RunAbortedError: it ended without a model.
            UsageError: a mask of another length.
        """
        if member.shape != self.dataset.y_train.shape[:1]:
            raise UsageError(
                f"members must have one entry per training record, {len(self.dataset.y_train)}, found"
                f" shape {member.shape}"
            )
        data = self.dataset
        held = replace(data, x_train=data.x_train[member], y_train=data.y_train[member])
        own = msgspec.structs.replace(
            self.scenario.data, train_limit=None, server_fraction=0.0, server_per_class=None
        )
        scenario = msgspec.structs.replace(without_messages(self.scenario), data=own)
        hidden = None if scenario.privacy.unit == "none" else secret or entropy.OsEntropy()
        federation = assemble(scenario, _RUN, seed, secret=hidden, dataset=held)
        if self.initial is not None:
            federation = replace(federation, initial=self.initial)
        stop, last = scenario.stop, _Last()
        watched = stop.target is not None or stop.patience is not None
        outcome = SimulatedRounds(federation, (last,)).run(
            federation.evaluator.evaluate if watched else _evaluate_nothing
        )
        if last.params is None:
            raise RunAbortedError(f"training of a shadow model failed: {outcome}")
        return last.params


def one_cluster(scenario: Scenario, size: int) -> Scenario:
    """Return the scenario with one cluster of ``size`` parties and one round that applies its mean.

    Its final model is the initial one plus the cluster's mean update: all that one opened sum reveals.
    Behaviours, checks and settings of several clusters are removed; noise is unchanged.
    """
    sums = scenario.secure_sum
    # As many shares hide a record as before: each party adds the same noise.
    hiding = min(size, sums.min_survivors - sums.colluders_per_cluster)
    return msgspec.structs.replace(
        scenario,
        parties=size,
        participation=Participation(),
        clustering=Clustering(size=size),
        secure_sum=SecureSum(threshold=hiding, min_survivors=hiding, k_anonymity=1),
        checks=Checks(),
        leakage=Leakage(mode="report"),
        aggregation=Aggregation(),
        server_optimiser=server_optimisers.Sgd(),
        stop=Stop(rounds=1),
        behaviours=(),
        expect=(),
        observer=False,
    )


class _Last:
    def __init__(self) -> None:
        self.params: F32 | None = None

    def on_report(self, _now: float, report: AnyReport) -> None:
        if isinstance(report, ModelFinal):
            self.params = report.params

    def on_reject(self, vantage: str, culprit: str, reason: str) -> None:
        """Ignore rejections."""


def _evaluate_nothing(_params: F32) -> sgd.Evaluation:
    return sgd.Evaluation(0.0, 0.0)
