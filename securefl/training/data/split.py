"""Split of a data set: the limits, then the server's own set, then the parties' shares.

The split is public and follows from the seed alone.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass

import numpy as np

from securefl import scenario
from securefl.base.arrays import I64
from securefl.base.errors import ConfigError, UsageError
from securefl.base.ids import PartyId
from securefl.training.data.dataset import Dataset, Roles
from securefl.training.data.partition import largest_remainders, partition
from securefl.training.data.server_set import server_rows
from securefl.training.data.text import MIN_SPEECH

TEST = "test"

SERVER_SET = "server"
"""Stem of the file with the server's own samples."""


@dataclass(frozen=True, eq=False, repr=False)
class Split:
    """Rows for each party, for test and server; no training row is in two shares."""

    parties: Mapping[PartyId, I64]
    """Rows of the training half; parties with the same share have one array."""
    test: I64
    """Rows of the test half."""
    server: I64
    """Training rows that no party has, or rows of ``dataset.servers``; or none."""


def split(
    dataset: Dataset,
    config: scenario.Data,
    parties: tuple[PartyId, ...],
    seed: int,
    behind: Collection[PartyId] = (),
) -> Split:
    """Split ``dataset`` by ``config``.

    ``train_limit`` and ``test_limit`` are totals, and keep the first samples of a permutation seeded with
    ``seed``. By role, only the first ``len(parties)`` roles are used, and ``train_limit`` shortens them
    alike. The server's set is drawn next, unless it comes from another data set. The rest is partitioned into
    a share for each party, or into ``config.shares``, which parties take in turn, those of ``behind`` last.

    Raises:
        ConfigError: the split is not feasible (see :func:`partition`), or there is no such server set.
        UsageError: a name occurs twice or is that of another file.
    """
    if len(set(parties)) != len(parties) or {TEST, SERVER_SET} & set(parties):
        raise UsageError(f"names of parties must be distinct and neither {TEST!r} nor {SERVER_SET!r}")
    # The second word separates this stream from the partition's.
    rng = np.random.Generator(np.random.PCG64([seed, 1]))
    if config.partition.by_role:
        roles = _roles_for(dataset, len(parties))
        classes = roles.train
        train = _limited_alike(classes, len(parties), config.train_limit, rng)
        test = _limit_rows(np.flatnonzero(roles.test < len(parties)), config.test_limit, rng)
    else:
        classes = _classes(dataset, config)
        train = _limit_rows(np.arange(len(dataset.y_train)), config.train_limit, rng)
        test = _limit_rows(np.arange(len(dataset.y_test)), config.test_limit, rng)
    server = server_rows(dataset, train, config, seed)
    if dataset.servers is None:
        train = train[~np.isin(train, server)]
    number = config.shares or len(parties)
    shares = partition(classes[train], number, config.partition, seed)
    # Without shares no split depends on the misbehaving parties.
    queue = sorted(parties, key=lambda party: party in behind) if config.shares else parties
    held = [train[share] for share in shares]
    own = {party: held[turn % number] for turn, party in enumerate(queue)}
    return Split({party: own[party] for party in parties}, test, server)


def _classes(dataset: Dataset, config: scenario.Data) -> I64:
    """Return the class of each sample for the partition: i64 ``(n,)``."""
    if dataset.y_train.ndim == 1:
        return dataset.y_train
    if config.partition.by_label:
        raise ConfigError(
            "data.partition",
            f"{config.partition.name} needs one label per sample, and {dataset.name} has one per character",
            "use roles, iid or log-normal",
        )
    return np.zeros(len(dataset.y_train), dtype=np.int64)


def _roles_for(dataset: Dataset, parties: int) -> Roles:
    roles = dataset.roles
    if roles is None:
        raise ConfigError(
            "data.partition",
            f"roles needs a text with speakers, and {dataset.name} is not one",
            'set data.set = "shakespeare", or another partition',
        )
    if parties > len(roles.names):
        raise ConfigError(
            "parties",
            f"{parties} parties, but {len(roles.names)} roles of {dataset.name} have enough text:"
            f" {MIN_SPEECH:,} characters and one sequence of data.sequence_length each to train and to test",
            f"at most {len(roles.names)}, or another data.partition",
        )
    return roles


def _limit_rows(rows: I64, limit: int | None, rng: np.random.Generator) -> I64:
    order: I64 = rng.permutation(rows)
    return order if limit is None else order[:limit]


def _limited_alike(roles: I64, parties: int, limit: int | None, rng: np.random.Generator) -> I64:
    """Return at most ``limit`` rows of the first roles, the same share of each, at least one."""
    own = [rng.permutation(np.flatnonzero(roles == role)) for role in range(parties)]
    sizes = np.array([len(rows) for rows in own], dtype=np.int64)
    if limit is not None and limit < sizes.sum():
        if limit < parties:
            raise ConfigError(
                "data.train_limit", f"is {limit}, fewer than {parties} parties", f"set at least {parties}"
            )
        # One sample more than the share must not exceed the supply.
        sizes = 1 + largest_remainders(limit - parties, (sizes - 1).astype(np.float64))
    return np.concatenate([rows[:size] for rows, size in zip(own, sizes, strict=True)])
