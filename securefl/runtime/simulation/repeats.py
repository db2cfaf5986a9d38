"""Models that come again in a simulation, and the parties that would sit out.

Each party of a run judges by its own account, which knows the rounds that it gave shares in. Here the server
is honest: a model comes again only where a round gave no update, so that the history of the models at hand
is all that any account could hold against a round. Runs before this one are not simulated.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from securefl.base.arrays import F32
from securefl.base.ids import PartyId
from securefl.methods.clustering import Assignment
from securefl.methods.leakage import NOTHING_GIVEN, Given, crossed_together, joined
from securefl.protocol.round import RunPlan, repeat_limits, sums_given


@dataclass(frozen=True, slots=True)
class _Round:
    givers: frozenset[PartyId]
    given: Given


class ModelHistory:
    """Sums of the models at hand, and who gave shares for them."""

    def __init__(self, plan: RunPlan) -> None:
        self._plan = plan
        self._rounds: list[_Round] = []
        self._now: Given = NOTHING_GIVEN

    def begin(
        self,
        params: F32,
        assignment: Assignment,
        survivors: Collection[PartyId],
        admitted: Collection[int],
    ) -> frozenset[PartyId]:
        """Take what a round would open; return those who find it too much with what they know of earlier."""
        now = self._now = sums_given(self._plan, params, assignment, survivors, admitted)
        self._rounds = [one for one in self._rounds if any(model in one.given for model in now)]
        own = repeat_limits(self._plan)
        if own is None or not self._rounds:
            return frozenset()
        verdicts: dict[tuple[int, ...], bool] = {}
        found: set[PartyId] = set()
        for party in survivors:
            known = tuple(number for number, one in enumerate(self._rounds) if party in one.givers)
            if known not in verdicts:
                before = NOTHING_GIVEN
                for number in known:
                    before = joined(before, self._rounds[number].given)
                verdicts[known] = bool(crossed_together(before, now, own, b"simulation"))
            if verdicts[known]:
                found.add(party)
        return frozenset(found)

    def note(self, givers: Collection[PartyId]) -> None:
        """These have given their shares for what the round would open."""
        if givers:
            self._rounds.append(_Round(frozenset(givers), self._now))
