"""Coalition members in separate processes."""

import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path

import numpy as np

from securefl import scenario
from securefl.base.arrays import F64, expect
from securefl.base.errors import ConfigError, UsageError
from securefl.base.ids import PartyId
from securefl.methods import attacks, clustering
from securefl.protocol import kernel, messages
from securefl.protocol.round import ClustersDrawn, UpdateId
from securefl.runtime import misbehaviour, transcript
from securefl.runtime.process.settings import ProcessSettings

_FIRST_PAUSE, _LONGEST_PAUSE, _GROWTH = 0.005, 0.25, 1.5
"""Seconds between two polls."""


class CoalitionFolder:
    """One member's view of its coalition's folder."""

    def __init__(self, directory: Path, me: PartyId) -> None:
        self._directory = directory
        self._me = me
        self._mine: list[tuple[int, Path]] = []
        self._closed = threading.Event()

    def close(self) -> None:
        """End all waiting, in any thread; posted updates stay."""
        self._closed.set()

    def post(self, round_: int, work: int, update: F64 | None) -> None:
        """Post one training's result, f64 ``(d,)``; None if it failed.

        Own files of rounds before the last are deleted: no mate waits for them.

        Raises:
            RunAbortedError: the write failed.
        """
        path = self._path(round_, work, self._me)
        partial = path.with_suffix(".part")
        try:
            with partial.open("wb") as file:
                np.save(file, np.empty(0) if update is None else update, allow_pickle=False)
            partial.replace(path)
            for old, note in self._mine:
                if old < round_ - 1:
                    note.unlink(missing_ok=True)
        except OSError as error:
            partial.unlink(missing_ok=True)
            raise transcript.disk_failure(path, error) from error
        self._mine = [(old, note) for old, note in self._mine if old >= round_ - 1] + [(round_, path)]

    def collect(
        self, round_: int, work: int, mates: Collection[PartyId], length: int, until: float
    ) -> dict[PartyId, F64]:
        """Wait for the updates of all ``mates``; at ``until`` (monotonic clock) return those posted.

        Raises:
            UsageError: a file that no member of this run can have posted.
        """
        found: dict[PartyId, F64] = {}
        missing, pause = set(mates), _FIRST_PAUSE
        while True:
            for mate in sorted(missing):
                update = _read(self._path(round_, work, mate))
                if update is None:
                    continue
                missing.remove(mate)
                if update.size:
                    expect(update, f"what {mate} posted", np.float64, (length,))
                    found[mate] = update
            left = until - time.monotonic()
            if not missing or left <= 0 or self._closed.wait(min(pause, left)):
                return found
            pause = min(pause * _GROWTH, _LONGEST_PAUSE)

    def _path(self, round_: int, work: int, party: PartyId) -> Path:
        return self._directory / f"{round_}-{work}-{party}.npy"


def _read(path: Path) -> F64 | None:
    try:
        with path.open("rb") as file:
            update: F64 = np.load(file, allow_pickle=False)
    except FileNotFoundError:
        return None
    except (OSError, EOFError, ValueError) as error:
        raise UsageError(
            f"cannot read {path}, the message between Byzantine parties: {error}; start the run again"
            " in an empty folder"
        ) from error
    return update


Training = Callable[[kernel.Train], F64]
"""Function from request to update, f64 ``(d,)``."""


class Accomplice:
    """Coalition member: effect seam, wrapper of training, and source of its attack's knowledge.

    ``patience`` seconds after its start a training continues without late mates.
    """

    def __init__(
        self,
        me: PartyId,
        behaviours: Mapping[PartyId, Sequence[scenario.Behaviour]],
        folder: CoalitionFolder,
        patience: float,
    ) -> None:
        self._me = me
        self._cast = behaviours
        self._folder = folder
        self._patience = patience
        self._attacks = [
            b
            for b in behaviours.get(me, ())
            if isinstance(b, scenario.CoalitionAttack) and attacks.shares_updates(b)
        ]
        self._drawn: ClustersDrawn | None = None
        self._known: dict[tuple[int, int], misbehaviour.Knowledge] = {}

    def __call__(
        self,
        _event: kernel.Event[messages.AnyMessage],
        _before: object,
        effects: tuple[misbehaviour.Action, ...],
    ) -> tuple[misbehaviour.Action, ...]:
        """Record the round's clusters; return the effects unchanged."""
        for effect in effects:
            if isinstance(effect, kernel.Report) and isinstance(effect.item, ClustersDrawn):
                self._drawn = effect.item
        return effects

    def telling(self, train: Training) -> Training:
        """Return a training that then exchanges its result, or failure, with the coalition.

        It raises the errors of ``train``, and RunAbortedError if a write fails.
        """

        def train_and_tell(asked: kernel.Train) -> F64:
            round_, work = asked.round, asked.work
            attack = next((attack for attack in self._attacks if attack.acts(round_)), None)
            if attack is None:
                return train(asked)
            until, drawn = time.monotonic() + self._patience, self._drawn
            if drawn is None or drawn.round < round_:
                raise UsageError(
                    f"cannot train round {round_}: Byzantine parties need its clusters, not drawn yet"
                )
            if drawn.round > round_:
                # No mate waits for a late update.
                return train(asked)
            occasion = UpdateId(round_, work, asked.params, drawn.clusters)
            mates = misbehaviour.tellers(attack, self._cast, occasion)
            try:
                update = train(asked)
            except UsageError:
                raise
            except Exception:
                # The party then sends zeros, which its attack handles like any update.
                self._exchange(attack, occasion, None, mates, until)
                raise
            self._exchange(attack, occasion, update, mates, until)
            return update

        return train_and_tell

    def _exchange(
        self,
        attack: scenario.CoalitionAttack,
        occasion: UpdateId,
        update: F64 | None,
        mates: Sequence[PartyId],
        until: float,
    ) -> None:
        round_, work = occasion.round, occasion.work
        self._known = {key: known for key, known in self._known.items() if key[0] == round_}
        if self._me not in mates:
            self._known[round_, work] = misbehaviour.Knowledge({})
            return
        self._folder.post(round_, work, update)
        if attack.actors is None or self._me in misbehaviour.actors_of(attack, occasion):
            others = [mate for mate in mates if mate != self._me]
            exchanged = self._folder.collect(round_, work, others, occasion.parameters.size, until)
            own = {} if update is None else {self._me: update}
            self._known[round_, work] = misbehaviour.Knowledge({**exchanged, **own})

    def leave(self) -> None:
        """End all waiting."""
        self._folder.close()

    def insight(self, _attack: scenario.CoalitionAttack, occasion: UpdateId) -> misbehaviour.Knowledge:
        """Return the coalition's knowledge for an update that this party has trained."""
        return self._known[occasion.round, occasion.work]


def accomplice_of(
    settings: ProcessSettings, behaviours: Mapping[PartyId, Sequence[scenario.Behaviour]]
) -> Accomplice | None:
    """Return this party's part in a coalition; None if it has none.

    It waits for mates up to half of its share of the training deadline.

    Raises:
        ConfigError: it has no channel to its mates, or some attack is omniscient.
    """
    attacks.check_runnable(settings.scenario.behaviours)
    me = settings.name
    attack = next(
        (behaviour for behaviour in behaviours.get(me, ()) if attacks.shares_updates(behaviour)), None
    )
    if attack is None:
        return None
    if settings.coalition_dir is None:
        raise ConfigError(
            "behaviours",
            f"{attack.kind} needs its parties on one machine, to share their updates",
            "use securefl run or securefl simulate",
        )
    patience = settings.scenario.deadlines.training / (2 * clustering.works_of(settings.scenario.clustering))
    return Accomplice(me, behaviours, CoalitionFolder(settings.coalition_dir, me), patience)
