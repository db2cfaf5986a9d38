"""A case for experiments: the models and sums of a recorded run, and whose samples they came from."""

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
"""Told in a line what is done and what it costs."""
Uploads = Callable[[PartyId, int, int], I64 | None]
"""What a party encoded from one local work of a round, i64 ``(d,)``; None where that was not kept."""


@dataclass(frozen=True, slots=True, eq=False)
class Case:
    """A recorded run with its data."""

    recorded: Recorded
    seed: int
    dataset: Dataset
    rows: Mapping[PartyId, I64]
    """Of the data set's training half, each party's."""
    rounds: tuple[ReplayRound, ...]
    """With whole vectors; at least one."""
    uploads: Uploads
    """Ground truth, by party, round and local work."""
    progress: Progress

    def __repr__(self) -> str:
        return f"Case({self.recorded.run})"

    @property
    def first(self) -> ReplayRound:
        """The first round: its model has seen no data, and its sums are those of the first updates."""
        return self.rounds[0]

    @property
    def final(self) -> F32:
        """The last model, ``(d,)``."""
        return self.rounds[-1].after.values

    def weights(self, one: ReplayRound) -> Mapping[PartyId, float]:
        """Public weights of a round's participants."""
        return weighting.public_weights(self.recorded.scenario.weighting, one.counts, one.participants)

    def means(self, one: ReplayRound) -> tuple[clusters.ClusterMean, ...]:
        """The cluster means of a round's sums."""
        return clusters.cluster_means(self.recorded.scenario.encoding, one.sums, self.weights(one))

    def labels(self, party: PartyId) -> I64:
        """Of the party's samples."""
        labels: I64 = self.dataset.y_train[self.rows[party]]
        return labels

    def pool(self, members: I64, extra: int, generator: np.random.Generator) -> Dataset:
        """A data set whose training half is these rows first, then up to ``extra`` that no party holds."""
        data = self.dataset
        unused = np.setdiff1d(np.arange(len(data.y_train)), np.concatenate(list(self.rows.values())))
        # Where the training half is used up the test half has to do.
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
    """The run, with the data that its seed gave to each party.

    Args:
        recorded: the run.
        truth: its ground truth; None without ``--lab``.
        data_dir: where data sets are.
        progress: told what is being done.

    Raises:
        ConfigError: no ground truth, a run that does not say its seed or kept no whole vectors, or a data set
            that is not there.
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
