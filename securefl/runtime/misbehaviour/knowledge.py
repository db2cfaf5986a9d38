"""Knowledge of a coalition."""

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from securefl import scenario
from securefl.base.arrays import F64
from securefl.base.errors import UsageError
from securefl.base.ids import PartyId
from securefl.methods import attacks
from securefl.protocol.round import UpdateId


class Knowledge:
    """Updates of one local training of a round, f64 ``(d,)``.

    They are those of the coalition's members, or of all honest parties. Members that fail, or drop out before
    they submit, are missing.
    """

    def __init__(self, updates: Mapping[PartyId, F64]) -> None:
        # Floating-point sums depend on the order.
        self._rows = [updates[name] for name in sorted(updates)]
        self._made: dict[scenario.CoalitionAttack, F64] = {}

    def __len__(self) -> int:
        return len(self._rows)

    def rows(self) -> F64:
        """Return all updates, f64 ``(k, d)``, k >= 1."""
        return np.stack(self._rows)

    def common(self, attack: scenario.CoalitionAttack, make: Callable[[F64], F64]) -> F64:
        """Return the result of ``make`` on :meth:`rows`, computed once for all members of ``attack``."""
        if attack not in self._made:
            self._made[attack] = make(self.rows())
        return self._made[attack]


Insight = Callable[[scenario.CoalitionAttack, UpdateId], Knowledge]


def tellers(
    attack: scenario.CoalitionAttack,
    behaviours: Mapping[PartyId, Sequence[scenario.Behaviour]],
    occasion: UpdateId,
) -> tuple[PartyId, ...]:
    """Return the parties whose trained updates a coalition receives, ordered by name.

    These are its members in the round's clusters, or, if it is omniscient, all parties there without an
    attack, except those that drop out before they submit.
    """
    there = {party for clusters in occasion.clusters for members in clusters for party in members}
    if attacks.is_omniscient(attack):
        candidates = {
            party for party in there if not any(map(attacks.is_byzantine, behaviours.get(party, ())))
        }
    else:
        candidates = there.intersection(map(PartyId, attack.parties))
    spoken = {None, "after-masked-input", "after-freeze", "after-release"}
    return tuple(
        sorted(p for p in candidates if attacks.silence(behaviours.get(p, ()), occasion.round) in spoken)
    )


def nobody_tells(attack: scenario.CoalitionAttack, _occasion: UpdateId) -> Knowledge:
    """Raise UsageError, as the insight of a party without a channel to its mates."""
    raise UsageError(
        f"cannot run {attack.kind}: its parties need a channel between them, and this run has"
        " none; simulate the run"
    )
