"""Knowledge of a coalition: its members' updates, and everybody's if they are omniscient."""

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from securefl import scenario
from securefl.base.arrays import F64
from securefl.base.errors import UsageError
from securefl.base.ids import PartyId
from securefl.methods import attacks
from securefl.protocol.round import UpdateId


class Knowledge:
    """The updates behind one local work of a round.

    Args:
        updates: what each of them trained, f64 ``(d,)``, all of one length: the coalition's members that did
            (who drops out before it has submitted, or fails, tells nothing), or all honest parties.
    """

    def __init__(self, updates: Mapping[PartyId, F64]) -> None:
        # In the order of names: sums of floating-point numbers depend on it.
        self._rows = [updates[name] for name in sorted(updates)]
        self._made: dict[scenario.CoalitionAttack, F64] = {}

    def __len__(self) -> int:
        return len(self._rows)

    def rows(self) -> F64:
        """All updates, f64 ``(k, d)``, k >= 1."""
        return np.stack(self._rows)

    def common(self, attack: scenario.CoalitionAttack, make: Callable[[F64], F64]) -> F64:
        """The result of ``make`` on :meth:`rows`, computed once for all members of ``attack``."""
        if attack not in self._made:
            self._made[attack] = make(self.rows())
        return self._made[attack]


Insight = Callable[[scenario.CoalitionAttack, UpdateId], Knowledge]
"""Where a member gets its coalition's knowledge from."""


def tellers(
    attack: scenario.CoalitionAttack, cast: Mapping[PartyId, Sequence[scenario.Behaviour]], occasion: UpdateId
) -> tuple[PartyId, ...]:
    """Parties whose trained updates a coalition is told of, in the order of names.

    These are the coalition's members in the round's clusters; of an omniscient one all parties there that
    show no attack. Whoever is to fall silent before it has submitted its update is silent here as well.

    Args:
        attack: as :func:`securefl.methods.attacks.assignment.behaviours_of` writes it out.
        cast: who shows which behaviours.
        occasion: of the update.
    """
    there = {party for clusters in occasion.clusters for members in clusters for party in members}
    if attacks.is_omniscient(attack):
        candidates = {party for party in there if not any(map(attacks.is_byzantine, cast.get(party, ())))}
    else:
        candidates = there.intersection(map(PartyId, attack.parties))
    spoken = {None, "after-masked-input", "after-freeze", "after-release"}
    return tuple(sorted(p for p in candidates if attacks.silence(cast.get(p, ()), occasion.round) in spoken))


def nobody_tells(attack: scenario.CoalitionAttack, _occasion: UpdateId) -> Knowledge:
    """The insight of a party without a channel to its mates.

    Raises:
        UsageError: always; scenarios that need a channel are refused where there is none.
    """
    raise UsageError(
        f"cannot run {attack.kind}: its parties need a channel between them, and this run has"
        " none; simulate the run"
    )
