"""Property inference: class shares of a cluster's samples, estimated from its opened sum.

The server trains shadow parties with known shares on its own samples, and learns how shares change the last
layer's bias.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import msgspec
import numpy as np

from securefl.base.arrays import F32, F64, I64
from securefl.base.errors import ConfigError
from securefl.base.ids import PartyId, RunId
from securefl.lab.privacy_attacks.labels import LabelModel, distances, learn
from securefl.lab.privacy_attacks.laboratory.clusters import ClusterMean
from securefl.methods import attacks
from securefl.protocol.round import UpdateId
from securefl.runtime import simulation
from securefl.scenario import Data, Scenario
from securefl.training.data import Dataset, Dirichlet, split

_RUN: Final = RunId("1abe1" + "0" * 27)
_MIX: Final = 0.5
"""Dirichlet concentration of shadow parties' class shares, from nearly one class to nearly all."""


@dataclass(frozen=True, slots=True, eq=False)
class LabelAttack:
    """Results of an attack on label shares."""

    estimated: F64
    """f64 ``(clusters, classes)``."""
    true: F64
    """Same shape, weighted as the members' updates."""
    parties: F64
    """Shares of each survivor's own samples, f64 ``(survivors, classes)``, cluster by cluster."""
    sizes: tuple[int, ...]
    prior: F64
    """Guess without sums: shares of the server's samples, f64 ``(classes,)``."""

    @property
    def error(self) -> float:
        """Mean total variation between estimated and true shares of clusters, 0 to 1."""
        return float(distances(self.estimated, self.true).mean())

    @property
    def blind(self) -> float:
        """Mean error of the prior for clusters."""
        return float(distances(np.broadcast_to(self.prior, self.true.shape), self.true).mean())

    @property
    def error_by_party(self) -> float:
        """Mean error for single survivors, estimated by their cluster."""
        return float(distances(np.repeat(self.estimated, self.sizes, axis=0), self.parties).mean())

    @property
    def blind_by_party(self) -> float:
        """Mean error of the prior for single survivors."""
        return float(distances(np.broadcast_to(self.prior, self.parties.shape), self.parties).mean())


def learn_labels(
    scenario: Scenario, dataset: Dataset, params: F32, *, parties: int, samples: int, seed: int
) -> LabelModel:
    """Learn the effect of class shares on the last layer's bias in one local training from ``params``.

    Args:
        scenario: shadow parties repeat its training without noise.
        dataset: has the server's samples as training half.
        params: global model, f32 ``(d,)``.
        parties: shadow parties, a local training each.
        samples: per shadow party, similar to real ones, drawn with replacement.
        seed: of all draws.

    Raises:
        ConfigError: the model's last parameters are not one bias per class.
    """
    if not scenario.model.class_biases:
        raise ConfigError("model.type", "has no last layer with one bias per class", "use another model")
    rows = np.random.default_rng(seed).integers(0, len(dataset.y_train), parties * samples)
    held = replace(dataset, x_train=dataset.x_train[rows], y_train=dataset.y_train[rows])
    base = simulation.one_cluster(scenario, scenario.clustering.size)
    data = Data(set=scenario.data.set, partition=Dirichlet(alpha=_MIX), standardise=scenario.data.standardise)
    shadow = msgspec.structs.replace(base, parties=parties, data=data)
    names = attacks.party_names(parties)
    owned = split(held, data, names, seed).parties
    federation = simulation.assemble(shadow, _RUN, seed, dataset=held)
    updates = dict(federation.trainings.of(UpdateId(0, 0, params, ()), names))
    trained = [(name, update) for name, update in updates.items() if update is not None]
    return learn(
        np.stack([update[-held.classes :] for _, update in trained]),
        np.stack([shares_in(held.y_train[owned[name]], held.classes) for name, _ in trained]),
    )


def infer_labels(
    model: LabelModel,
    clusters: Sequence[ClusterMean],
    labels: Mapping[PartyId, I64],
    weights: Mapping[PartyId, float],
    prior: F64,
) -> LabelAttack:
    """Estimate the class shares of each cluster, and compare them with the truth.

    Args:
        model: of :func:`learn_labels`, from the same parameters.
        clusters: of one round.
        labels: labels of each survivor's samples.
        weights: of survivors.
        prior: guess without sums, f64 ``(classes,)``.
    """
    classes = len(prior)
    estimated = model.estimate(np.stack([one.update[-classes:] for one in clusters]))
    own = [[shares_in(labels[party], classes) for party in one.survivors] for one in clusters]
    true = [
        np.average(shares, axis=0, weights=[weights[party] for party in one.survivors])
        for shares, one in zip(own, clusters, strict=True)
    ]
    pooled = np.stack([shares for some in own for shares in some])
    return LabelAttack(estimated, np.stack(true), pooled, tuple(map(len, own)), prior)


def shares_in(labels: I64, classes: int) -> F64:
    """Return the share of each class, f64 ``(classes,)``."""
    shares: F64 = np.bincount(labels, minlength=classes) / max(len(labels), 1)
    return shares
