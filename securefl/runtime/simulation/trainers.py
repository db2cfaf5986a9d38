"""Trainers of a simulation."""

import copy
import os
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from queue import SimpleQueue
from types import MappingProxyType
from typing import NamedTuple

import torch

from securefl import scenario
from securefl.base import foreign
from securefl.base.arrays import F32, F64
from securefl.base.entropy import Entropy
from securefl.base.errors import UsageError
from securefl.base.ids import PartyId
from securefl.protocol.round import UpdateId, party_entropy, training_entropy
from securefl.runtime import misbehaviour
from securefl.training import batched, data, models, rounds
from securefl.training.sgd import ahead

Carries = Mapping[PartyId, F64]
"""Start of per-example momentum by party, f64 (d,); zeros for missing parties."""

NO_CARRY: Carries = MappingProxyType({})


class TrainingTask(NamedTuple):
    """Local training of several parties from one model."""

    round: int
    work: int
    """Index among the round's local trainings; each has its own randomness."""
    params: F32
    """f32 ``(d,)``."""
    names: Sequence[PartyId]
    carries: Carries = NO_CARRY
    samples: int | None = None
    """Maximum of own samples; None for all."""


TrainParties = Callable[[TrainingTask], Iterator[tuple[PartyId, F64 | None]]]
"""Function that yields each party once, in any order, with its update f64 ``(d,)``, or None if its training
failed. The same task gives the same bits. Callers may stop early.
"""


def one_by_one(crews: Sequence[Mapping[PartyId, rounds.Trainer]], root: Entropy) -> TrainParties:
    """Train each party as its own process would, to the same bits.

    ``crews`` are the trainers of all parties, once per thread; those of one crew may share a model.
    """
    idle: SimpleQueue[Mapping[PartyId, rounds.Trainer]] = SimpleQueue()
    for crew in crews:
        idle.put(crew)

    def train(task: TrainingTask) -> Iterator[tuple[PartyId, F64 | None]]:
        def one(name: PartyId) -> F64 | None:
            entropy = training_entropy(party_entropy(root, name), task.round, task.work)
            crew = idle.get()
            try:
                return crew[name](task.round, task.params, task.carries.get(name), entropy, task.samples)
            except UsageError:
                raise
            except BaseException as error:
                foreign.pass_interrupt(error)
                return None
            finally:
                idle.put(crew)

        yield from ahead(one, task.names, len(crews))

    return train


class Allotment(NamedTuple):
    """Samples of a pool that one party trains on."""

    honest: data.Portion
    poisoned: data.Portion
    """Same as ``honest`` for a party that never poisons."""
    poisons: Callable[[int], bool]


@dataclass(frozen=True, slots=True)
class Allotments:
    """Allotments of all parties, and the root of randomness."""

    parties: Mapping[PartyId, Allotment]
    root: Entropy

    def of(self, name: PartyId, task: TrainingTask) -> tuple[data.Portion, Entropy]:
        """Return a party's samples for a task, and the entropy of its training."""
        own = self.parties[name]
        portion = own.poisoned if own.poisons(task.round) else own.honest
        return portion, training_entropy(party_entropy(self.root, name), task.round, task.work)


def at_once(fleet: batched.DenseFleet | batched.LayerFleet, allotments: Allotments) -> TrainParties:
    """Train many parties at once: faster, and equal to one by one except for rounding."""

    def job(name: PartyId, task: TrainingTask) -> batched.Job:
        portion, entropy = allotments.of(name, task)
        if task.samples is not None:
            portion = portion._replace(samples=min(portion.samples, task.samples))
        # As LocalTrainer seeds the order of samples.
        return batched.Job(portion, int.from_bytes(entropy.draw(8), "big"))

    def train(task: TrainingTask) -> Iterator[tuple[PartyId, F64 | None]]:
        for index, after in fleet.train(task.params, [job(name, task) for name in task.names]):
            yield task.names[index], None if after is None else models.change(task.params, after)

    return train


def steps_at_once(fleet: batched.DpFleet, allotments: Allotments) -> TrainParties:
    """Make the steps of DP-SGD of many parties at once, as :func:`at_once`."""

    def train(task: TrainingTask) -> Iterator[tuple[PartyId, F64 | None]]:
        if task.samples is not None:
            raise UsageError(
                "cannot train on chosen samples with DP-SGD: it draws from all records; leave samples unset"
            )
        jobs = [batched.DpJob(*allotments.of(name, task), task.carries.get(name)) for name in task.names]
        for index, update in fleet.updates(task.params, jobs):
            yield task.names[index], update

    return train


class ChosenTrainers(NamedTuple):
    """Training of a simulation's parties, and its description."""

    train: TrainParties
    vectorised: bool
    note: str


def available_cores() -> int:
    """Return the number of cores that this process may use."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # not on macOS
        return os.cpu_count() or 1


_VECTORISED = "training vectorised over parties: equal to run but for rounding (--exact: to its bits)"


def choose_trainers(
    model: scenario.Model,
    module: torch.nn.Module,
    shards: Mapping[PartyId, data.Shard],
    behaviours: Mapping[PartyId, misbehaviour.PartyBehaviour],
    config: scenario.Training,
    device: torch.device,
    root: Entropy,
    *,
    exact: bool,
    threads: int,
) -> ChosenTrainers:
    """Return the trainers of a simulation; those that train one by one overwrite ``module``.

    The flag ``exact`` gives the results of a run, bit for bit on a CPU, up to rounding on a GPU. On a CPU
    ``threads`` parties or chunks train concurrently, without effect on results.
    """
    first = next(iter(shards.values()))
    # Shares of very different sizes would be padded to the largest.
    plain = not exact and config.batch_fraction is None and config.steps is None and config.method.plain
    widths = model.vectorised_widths(first.input_shape, first.classes) if plain else None
    if config.dp_sgd is None and widths is not None:
        pool, allotments = _allot(shards, behaviours, device, root)
        dense = batched.DenseFleet(widths, pool, config, threads=threads)
        return ChosenTrainers(at_once(dense, allotments), vectorised=True, note=_VECTORISED)
    if config.dp_sgd is None and plain and device.type != "cpu" and batched.fits_fleet(module):
        pool, allotments = _allot(shards, behaviours, device, root)
        layered = batched.LayerFleet(module, pool, first.input_shape, config)
        return ChosenTrainers(at_once(layered, allotments), vectorised=True, note=_VECTORISED)
    if config.dp_sgd is not None and not exact and batched.fits_fleet(module):
        pool, allotments = _allot(shards, behaviours, device, root)
        steps = batched.DpFleet(module, pool, first.input_shape, config, config.dp_sgd, threads=threads)
        return ChosenTrainers(steps_at_once(steps, allotments), vectorised=True, note=_VECTORISED)
    # Dropout and custom models draw from torch's global generator.
    alone = device.type != "cpu" or model.draws
    first_crew = {
        name: rounds.ShardTrainer(
            module, shard, config, device, behaviours[name].data, behaviours[name].poisons
        )
        for name, shard in shards.items()
    }
    crews = [first_crew]
    for _ in range(1, 1 if alone else threads):
        twin = copy.deepcopy(module)
        crews.append({name: trainer.with_module(twin) for name, trainer in first_crew.items()})
    bits = "to the bits of run" if device.type == "cpu" else "equal to run up to rounding, as on any GPU"
    note = f"training party by party, {bits}"
    train = one_by_one([{n: t.update for n, t in crew.items()} for crew in crews], root)
    return ChosenTrainers(train, vectorised=False, note=note)


def _allot(
    shards: Mapping[PartyId, data.Shard],
    behaviours: Mapping[PartyId, misbehaviour.PartyBehaviour],
    device: torch.device,
    root: Entropy,
) -> tuple[data.SamplePool, Allotments]:
    names = list(shards)
    honest = [(shards[name].x, shards[name].y) for name in names]
    poisoned = [behaviours[name].data(shards[name].x, shards[name].y, shards[name].classes) for name in names]
    pool, portions = data.pool_samples(honest + poisoned, device)
    parties = {
        name: Allotment(portions[index], portions[len(names) + index], behaviours[name].poisons)
        for index, name in enumerate(names)
    }
    return pool, Allotments(parties, root)


def _nobody(_party: PartyId) -> bool:
    return False


class Trainings:
    """Local training on demand.

    It holds the updates of one round, 8 d bytes for each party that ``keeps`` selects, since attackers may
    request them.
    """

    def __init__(self, train: TrainParties, keeps: Callable[[PartyId], bool] = _nobody) -> None:
        self._train = train
        self._keeps = keeps
        self._round = -1
        self.carries: Carries = NO_CARRY
        self.samples: int | None = None
        self._kept: dict[tuple[PartyId, int], F64 | None] = {}
        self._failed: dict[PartyId, int] = {}

    def failed_parties(self, round_: int) -> Collection[PartyId]:
        """Return the parties whose last training failed in this round."""
        return [party for party, last in self._failed.items() if last == round_]

    def of(self, occasion: UpdateId, names: Sequence[PartyId]) -> Iterator[tuple[PartyId, F64 | None]]:
        """Yield every party of ``names`` with its update f64 ``(d,)``, in any order; None for a failure.

        Kept ones come first, after all of them are trained.
        """
        if occasion.round != self._round:
            self._round, self._kept = occasion.round, {}
        kept = [name for name in names if self._keeps(name)]
        missing = [name for name in kept if (name, occasion.work) not in self._kept]
        for name, update in self._train_parties(occasion, missing):
            self._kept[name, occasion.work] = update
        for name in kept:
            yield name, self._kept[name, occasion.work]
        yield from self._train_parties(occasion, [name for name in names if not self._keeps(name)])

    def _train_parties(
        self, occasion: UpdateId, names: list[PartyId]
    ) -> Iterator[tuple[PartyId, F64 | None]]:
        if names:
            task = TrainingTask(
                occasion.round, occasion.work, occasion.parameters, names, self.carries, self.samples
            )
            for name, update in self._train(task):
                if update is None:
                    self._failed[name] = occasion.round
                yield name, update
