"""Input of experiments: models and sums of a recorded run, with the parties' samples."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from securefl.base.arrays import F32, I64
from securefl.base.errors import ConfigError
from securefl.base.ids import PartyId
from securefl.lab.audit import GroundTruth, Recorded, ReplayRound, Vectors, replay_rounds
from securefl.lab.privacy_attacks.laboratory import clusters
from securefl.methods import attacks, weighting
from securefl.training.data import Dataset, load_data, split

Progress = Callable[[str], None]
Uploads = Callable[[PartyId, int, int], I64 | None]
"""Encoded update of a party, round and local training, i64 ``(d,)``; None if not kept."""


@dataclass(frozen=True, slots=True, eq=False)
class Case:
    """Recorded run with its data."""

    recorded: Recorded
    seed: int
    dataset: Dataset
    rows: Mapping[PartyId, I64]
    rounds: tuple[ReplayRound, ...]
    """With whole vectors; at least one."""
    uploads: Uploads
    progress: Progress

    def __repr__(self) -> str:
        return f"Case({self.recorded.run})"

    @property
    def first(self) -> ReplayRound:
        """First round, whose model has seen no data."""
        return self.rounds[0]

    @property
    def final(self) -> F32:
        """Final model, ``(d,)``."""
        return self.rounds[-1].after.values

    def weights(self, one: ReplayRound) -> Mapping[PartyId, float]:
        """Return the public weights of a round's participants."""
        return weighting.public_weights(self.recorded.scenario.weighting, one.counts, one.participants)

    def means(self, one: ReplayRound) -> tuple[clusters.ClusterMean, ...]:
        """Return the cluster means of a round."""
        return clusters.cluster_means(self.recorded.scenario.encoding, one.sums, self.weights(one))

    def labels(self, party: PartyId) -> I64:
        """Return the labels of the party's samples."""
        labels: I64 = self.dataset.y_train[self.rows[party]]
        return labels

    def pool(self, members: I64, extra: int, generator: np.random.Generator) -> Dataset:
        """Return a data set that trains on ``members``, then on up to ``extra`` rows that no party holds."""
        data = self.dataset
        unused = np.setdiff1d(np.arange(len(data.y_train)), np.concatenate(list(self.rows.values())))
        # Use the test half too if unused rows are too few.
        x = (
            data.x_train[unused]
            if len(unused) >= extra
            else np.concatenate([data.x_train[unused], data.x_test])
        )
        y = (
            data.y_train[unused]
            if len(unused) >= extra
            else np.concatenate([data.y_train[unused], data.y_test])
        )
        drawn = generator.permutation(len(y))[:extra]
        return replace(
            data,
            x_train=np.concatenate([data.x_train[members], x[drawn]]),
            y_train=np.concatenate([data.y_train[members], y[drawn]]),
        )


def case_of(recorded: Recorded, truth: GroundTruth | None, data_dir: Path | None, progress: Progress) -> Case:
    """Return the run with the data that its seed assigned to each party.

    Raises:
        ConfigError: no ground truth, no recorded seed, no whole vectors, or a missing data set.
    """
    where = "--attacks"
    if truth is None:
        raise ConfigError(where, "experiments need recorded updates", "add --lab, also to securefl run")
    if recorded.seed is None:
        raise ConfigError(
            where, "no transcript states the seed of the data split", "repeat the run with --lab"
        )
    vectors = Vectors(recorded, truth)
    rounds = tuple(one for one in replay_rounds(recorded, vectors) if one.sums) if vectors.whole() else ()
    if not rounds:
        raise ConfigError(
            where, "the run has no recorded models and sums", "repeat it with: securefl run --lab"
        )
    scenario = recorded.scenario
    dataset = load_data(scenario.data, data_dir)
    behind = attacks.behaviours_of(scenario, recorded.seed).keys()
    rows = split(dataset, scenario.data, recorded.parties, recorded.seed, behind).parties
    return Case(recorded, recorded.seed, dataset, rows, rounds, truth.upload, progress)
