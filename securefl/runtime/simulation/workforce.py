"""Who does the local training of a simulation: parties one by one, to the bits of a run, or many at once."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from queue import SimpleQueue
from types import MappingProxyType
from typing import NamedTuple, Protocol

from securefl.base.arrays import F32, F64
from securefl.base.entropy import Entropy
from securefl.base.errors import UsageError
from securefl.base.ids import PartyId
from securefl.protocol.round import party_entropy, training_entropy
from securefl.training.batched import DenseFleet, DpFleet, DpJob, Job
from securefl.training.data import Portion
from securefl.training.models import change
from securefl.training.sgd import ahead

Training = Callable[[int, F32, F64 | None, Entropy, int | None], F64]
"""One party's: the round's number, its model f32 (d,), what momentum carries, entropy and how many samples
are used at most, to the update."""

Carries = Mapping[PartyId, F64]
"""What per-example momentum goes on from, f64 (d,); zeros for whoever is not in it."""

NO_CARRY: Carries = MappingProxyType({})


class Workforce(Protocol):
    """Does local training. The same arguments give the same bits."""

    def train(
        self,
        round_: int,
        work: int,
        params: F32,
        names: Sequence[PartyId],
        carries: Carries = NO_CARRY,
        samples: int | None = None,
    ) -> Iterator[tuple[PartyId, F64 | None]]:
        """Yield every party of ``names`` once, in any order, with its update f64 ``(d,)``.

        None stands for a party whose training ends in nothing that may be sent.

        Args:
            round_: the round's number.
            work: of the round's local works; each has its own randomness.
            params: the round's model, f32 ``(d,)``.
            names: who trains. Taking fewer results than there are names is allowed.
            carries: what per-example momentum goes on from.
            samples: how many of its own each uses at most; None for all of them.

        Raises:
            UsageError: a bug.
        """
        ...


class PartyByParty:
    """Each party as its own process would train: the same bits.

    Args:
        crews: every party's training, once per thread; those of one crew may share a model.
        root: the root of the run's randomness.
    """

    def __init__(self, crews: Sequence[Mapping[PartyId, Training]], root: Entropy) -> None:
        self._root = root
        self._threads = len(crews)
        self._idle: SimpleQueue[Mapping[PartyId, Training]] = SimpleQueue()
        for crew in crews:
            self._idle.put(crew)

    def train(
        self,
        round_: int,
        work: int,
        params: F32,
        names: Sequence[PartyId],
        carries: Carries = NO_CARRY,
        samples: int | None = None,
    ) -> Iterator[tuple[PartyId, F64 | None]]:
        """See :class:`Workforce`."""

        def one(name: PartyId) -> F64 | None:
            entropy = training_entropy(party_entropy(self._root, name), round_, work)
            crew = self._idle.get()
            try:
                return crew[name](round_, params, carries.get(name), entropy, samples)
            except UsageError:
                raise
            except Exception:  # whatever a model raises on somebody's data
                return None
            finally:
                self._idle.put(crew)

        yield from ahead(one, names, self._threads)


class Allotment(NamedTuple):
    """Which samples of a pool one party trains on."""

    honest: Portion
    poisoned: Portion
    """The same as ``honest`` for a party that never poisons."""
    poisons: Callable[[int], bool]
    """Whether it does in a round."""


@dataclass(frozen=True, slots=True)
class Allotments:
    """Of all parties, and what their randomness is drawn from."""

    parties: Mapping[PartyId, Allotment]
    root: Entropy

    def portion(self, name: PartyId, round_: int) -> Portion:
        """What a party trains on in a round."""
        own = self.parties[name]
        return own.poisoned if own.poisons(round_) else own.honest

    def entropy(self, name: PartyId, round_: int, work: int) -> Entropy:
        """What its training draws from."""
        return training_entropy(party_entropy(self.root, name), round_, work)


class Vectorised:
    """Many parties at once: up to rounding what they would train one by one, in a fraction of the time.

    Args:
        fleet: computes.
        allotments: of all parties, in the fleet's pool.
    """

    def __init__(self, fleet: DenseFleet, allotments: Allotments) -> None:
        self._fleet = fleet
        self._allotments = allotments

    def train(
        self,
        round_: int,
        work: int,
        params: F32,
        names: Sequence[PartyId],
        carries: Carries = NO_CARRY,
        samples: int | None = None,
    ) -> Iterator[tuple[PartyId, F64 | None]]:
        """See :class:`Workforce`."""
        del carries
        jobs = [self._job(name, round_, work, samples) for name in names]
        for index, after in self._fleet.train(params, jobs):
            yield names[index], None if after is None else change(params, after)

    def _job(self, name: PartyId, round_: int, work: int, samples: int | None) -> Job:
        entropy, portion = (
            self._allotments.entropy(name, round_, work),
            self._allotments.portion(name, round_),
        )
        if samples is not None:
            portion = portion._replace(samples=min(portion.samples, samples))
        # As LocalTrainer seeds the order of samples.
        return Job(portion, int.from_bytes(entropy.draw(8), "big"))


class VectorisedDpSgd:
    """The same for steps of DP-SGD.

    Args:
        fleet: computes.
        allotments: of all parties, in the fleet's pool.
    """

    def __init__(self, fleet: DpFleet, allotments: Allotments) -> None:
        self._fleet = fleet
        self._allotments = allotments

    def train(
        self,
        round_: int,
        work: int,
        params: F32,
        names: Sequence[PartyId],
        carries: Carries = NO_CARRY,
        samples: int | None = None,
    ) -> Iterator[tuple[PartyId, F64 | None]]:
        """See :class:`Workforce`."""
        if samples is not None:
            raise UsageError("DP-SGD draws from all records")
        of = self._allotments
        jobs = [
            DpJob(of.portion(name, round_), of.entropy(name, round_, work), carries.get(name))
            for name in names
        ]
        for index, update in self._fleet.updates(params, jobs):
            yield names[index], update
