"""Which workforce simulates a scenario, and what is said about it."""

from __future__ import annotations

import copy
import os
from collections.abc import Mapping
from typing import NamedTuple

import torch

from securefl.base.entropy import Entropy
from securefl.base.ids import PartyId
from securefl.runtime.misbehaviour import PartyBehaviour
from securefl.runtime.simulation.workforce import (
    Allotment,
    Allotments,
    PartyByParty,
    Vectorised,
    VectorisedDpSgd,
    Workforce,
)
from securefl.scenario import CustomModel, Mlp, Model, Training
from securefl.training.batched import DenseFleet, DpFleet, dense_widths, fits_fleet
from securefl.training.data import SamplePool, Shard, pool_samples
from securefl.training.rounds import RoundTrainer


class Staff(NamedTuple):
    """A workforce, and its description."""

    workforce: Workforce
    vectorised: bool
    """Whether results differ from those of a run in the rounding of floating-point sums."""
    note: str
    """For the header."""


def available_cores() -> int:
    """How many cores this process may use."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # not on macOS
        return os.cpu_count() or 1


_VECTORISED = (
    "training: vectorised over parties, {}: as run but for rounding,"
    " from which other clusters follow after the first round (--exact: to the bits of run)"
)


def staff(
    model: Model,
    module: torch.nn.Module,
    shards: Mapping[PartyId, Shard],
    cast: Mapping[PartyId, PartyBehaviour],
    config: Training,
    device: torch.device,
    root: Entropy,
    *,
    exact: bool,
    threads: int,
) -> Staff:
    """Return who trains.

    Args:
        model: what ``module`` is.
        module: overwritten when parties train one by one.
        shards: of all parties.
        cast: of all parties: who poisons, and when.
        config: of local training.
        device: what computes.
        root: the root of the run's randomness.
        exact: whether the results are to be those of a run, bit for bit.
        threads: parties or chunks trained at the same time on a CPU; no result depends on it.
    """
    first = next(iter(shards.values()))
    # Shares of very different sizes side by side would be filled up to the largest.
    plain = not exact and config.batch_fraction is None and config.steps is None
    widths = dense_widths(model, first.input_shape, first.classes) if plain else None
    if config.dp_sgd is None and widths is not None:
        pool, allotments = _allot(shards, cast, device, root)
        fleet = DenseFleet(widths, pool, config, threads=threads)
        note = _VECTORISED.format("since the model is dense")
        return Staff(Vectorised(fleet, allotments), vectorised=True, note=note)
    if config.dp_sgd is not None and not exact and fits_fleet(module):
        pool, allotments = _allot(shards, cast, device, root)
        steps = DpFleet(module, pool, first.input_shape, config, config.dp_sgd, threads=threads)
        note = _VECTORISED.format("one step of DP-SGD from the same model")
        return Staff(VectorisedDpSgd(steps, allotments), vectorised=True, note=note)
    # Dropout and models of one's own draw from torch's global generator, which threads would share.
    draws = isinstance(model, CustomModel) or (isinstance(model, Mlp) and model.dropout > 0)
    alone = device.type != "cpu" or draws
    trainers = {
        name: RoundTrainer(module, shard, config, device, cast[name].data, cast[name].poisons)
        for name, shard in shards.items()
    }
    crews = [trainers]
    for _ in range(1, 1 if alone else threads):
        twin = copy.deepcopy(module)
        crews.append({name: trainer.with_module(twin) for name, trainer in trainers.items()})
    tag = model.__struct_config__.tag
    others = f"only dense models with ReLU and no dropout are vectorised, this is {tag}"
    if config.batch_fraction is not None or config.steps is not None:
        others = "training.batch_fraction and training.steps are not vectorised"
    if config.dp_sgd is not None:
        others = f"only known layers are vectorised, and {tag} has others"
    why = "--exact" if exact else others
    note = f"training: party by party, to the bits of run ({why})"
    workforce = PartyByParty([{n: t.update for n, t in crew.items()} for crew in crews], root)
    return Staff(workforce, vectorised=False, note=note)


def _allot(
    shards: Mapping[PartyId, Shard],
    cast: Mapping[PartyId, PartyBehaviour],
    device: torch.device,
    root: Entropy,
) -> tuple[SamplePool, Allotments]:
    """All samples in one pool, honest and poisoned, and which of them each party trains on."""
    names = list(shards)
    honest = [(shards[name].x, shards[name].y) for name in names]
    poisoned = [cast[name].data(shards[name].x, shards[name].y, shards[name].classes) for name in names]
    pool, portions = pool_samples(honest + poisoned, device)
    parties = {
        name: Allotment(portions[index], portions[len(names) + index], cast[name].poisons)
        for index, name in enumerate(names)
    }
    return pool, Allotments(parties, root)
