"""How simulated attackers learn what others trained: they have it trained, and ask."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from securefl.base.errors import UsageError
from securefl.base.ids import PartyId
from securefl.methods.attacks import is_omniscient, shares_updates
from securefl.protocol.round import Occasion
from securefl.runtime.misbehaviour import Knowledge, tellers
from securefl.runtime.simulation.trainings import Trainings
from securefl.scenario import Behaviour, CoalitionAttack


class Grapevine:
    """The coalitions' channels in a simulation, and what an omniscient attacker hears.

    It holds the updates of one round: 8 d bytes for each party that is asked.

    Args:
        cast: who shows which behaviours, written out.
    """

    def __init__(self, cast: Mapping[PartyId, Sequence[Behaviour]]) -> None:
        self._cast = cast
        self._trainings: Trainings | None = None
        self._round = -1
        self._known: dict[tuple[CoalitionAttack, int], Knowledge] = {}
        shown = [behaviour for behaviours in cast.values() for behaviour in behaviours]
        self._asks_everybody = any(map(is_omniscient, shown))

    def asks(self, party: PartyId) -> bool:
        """Whether it may ask ``party`` what it trained."""
        return self._asks_everybody or any(map(shares_updates, self._cast.get(party, ())))

    def connect(self, trainings: Trainings) -> None:
        """Say where to ask. Whoever trains is made after the behaviours, and these need :meth:`insight`."""
        self._trainings = trainings

    def insight(self, attack: CoalitionAttack, occasion: Occasion) -> Knowledge:
        """What the attackers know on ``occasion``. The first who asks has everybody train."""
        if occasion.round != self._round:
            self._round, self._known = occasion.round, {}
        key = (attack, occasion.work)
        if key not in self._known:
            if self._trainings is None:
                raise UsageError("nobody is connected to the grapevine")
            told = self._trainings.of(occasion, tellers(attack, self._cast, occasion))
            self._known[key] = Knowledge({party: update for party, update in told if update is not None})
        return self._known[key]
