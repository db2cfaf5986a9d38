"""Local setup of a run on one machine: keys, and in one private folder roster and shards.

For demos and tests only: in a deployment each party creates its own key, and private keys never share a
machine.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from securefl.base import crypto
from securefl.base.entropy import Entropy
from securefl.base.ids import SERVER, PartyId
from securefl.methods import attacks, feasibility
from securefl.protocol import secure_sum
from securefl.scenario import Model, Scenario
from securefl.training.data import ShardFiles, load_data, turns_of, write_shards


@dataclass(frozen=True, slots=True)
class LocalSetup:
    """Keys and files of a local run."""

    roster_file: Path
    identities: Mapping[PartyId, crypto.Identity] = field(repr=False)
    """Private keys of all; in no file, since a launcher may be killed."""
    shards: Mapping[PartyId, Path]
    """The server's is the test set. Empty if sites train."""
    server_data: Path | None
    samples: Mapping[PartyId, int]
    coalitions: Path | None


def local_setup(
    scenario: Scenario, seed: int, entropy: Entropy, data_dir: Path | None, directory: Path
) -> LocalSetup:
    """Create keys for all and split the data; without data if sites train.

    Raises:
        ConfigError: the data set is missing, corrupt or cannot be split; or a custom model cannot be built.
    """
    names = attacks.party_names(scenario.parties)
    files = None
    if not scenario.model.by_sites:
        shards = directory / "shards"
        shards.mkdir(mode=0o700)
        files = _split_data(scenario, seed, data_dir, shards)
    made, roster = crypto.make_identities(
        names, entropy, with_dealer=secure_sum.sums_of(scenario).dealer is not None
    )
    roster_file = directory / "roster.toml"
    crypto.write_roster(roster_file, roster)
    coalitions = None
    if any(map(attacks.shares_updates, scenario.behaviours)):
        coalitions = directory / "coalitions"
        coalitions.mkdir(mode=0o700)
    if files is None:
        return LocalSetup(roster_file, made, {}, None, {}, coalitions)
    data = {**files.parties, SERVER: files.test}
    return LocalSetup(roster_file, made, data, files.server, files.counts, coalitions)


def _split_data(scenario: Scenario, seed: int, data_dir: Path | None, directory: Path) -> ShardFiles:
    names = attacks.party_names(scenario.parties)
    dataset = load_data(scenario.data, data_dir)
    attacks.check_on_data(scenario.behaviours, dataset.classes, dataset.input_shape)
    tokens = dataset.x_train.dtype == np.int64
    _check_factory(scenario.model, dataset.input_shape, dataset.classes, tokens=tokens)
    misbehaving = attacks.behaviours_of(scenario, seed).keys()
    turns = turns_of(scenario.groups, names)
    files = write_shards(dataset, scenario.data, names, seed, directory, misbehaving, turns)
    feasibility.check_new_work(scenario, min(files.counts.values()))
    return files


def _check_factory(model: Model, input_shape: tuple[int, ...], classes: int, *, tokens: bool) -> None:
    """Build a custom model once here, so that its error is reported once."""
    if not model.is_own:
        return
    from securefl.training.models import build_model  # noqa: PLC0415 - torch, for such models alone

    build_model(model, input_shape, classes, 0, tokens=tokens)
