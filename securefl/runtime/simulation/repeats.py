"""Repeated models in a simulation, and the parties that would refuse them (ADR 0043, 0058).

The simulated server repeats a model only after a round without update. So the history of the current models
holds all that an account could object to. Earlier runs are not simulated.
"""

from collections.abc import Collection
from dataclasses import dataclass

from securefl.base.arrays import F32
from securefl.base.ids import PartyId
from securefl.methods import clustering, leakage
from securefl.protocol.round import RunPlan, max_silent_members, repeat_limits, sums_by_model


@dataclass(frozen=True, slots=True)
class _Round:
    givers: frozenset[PartyId]
    given: leakage.Given


class ModelHistory:
    """Sums of the current models, with the parties that released shares for them."""

    def __init__(self, plan: RunPlan) -> None:
        self._plan = plan
        self._rounds: list[_Round] = []
        self._now: leakage.Given = leakage.NOTHING_GIVEN
        self._drawn: tuple[int, leakage.Given, frozenset[PartyId]] = -1, leakage.NOTHING_GIVEN, frozenset()
        self._unresolved: dict[PartyId, tuple[leakage.UnresolvedRound, ...]] = {}
        self._unreleased: dict[int, frozenset[PartyId]] = {}

    def blocked_parties(
        self, round_: int, params: F32, assignment: clustering.Assignment, present: Collection[PartyId]
    ) -> frozenset[PartyId]:
        """Return the parties of a draw whose updates wait for another model.

        ``params`` are the round's models. Parties that are ``present`` sent a hello, which states the rounds
        in which they released nothing.
        """
        if repeat_limits(self._plan) is None:
            return frozenset()
        every = range(len(assignment.clusters))
        drawn = sums_by_model(self._plan, params, assignment, assignment.participants, every)
        found = set[PartyId]()
        for party, rounds in self._unresolved.items():
            at_hand = (one for one in rounds if not drawn.keys().isdisjoint(one.drawn))
            left = tuple(self._heard(one, present) if party in present else one for one in at_hand)
            self._unresolved[party] = tuple(one for one in left if one.drawn)
            own = {model for model, rows in drawn.items() if any(party in row for row in rows)}
            if not own.isdisjoint(leakage.unresolved_models(self._unresolved[party], party)):
                found.add(party)
        self._drawn = round_, drawn, frozenset(assignment.participants) - found
        return frozenset(found)

    def _heard(self, one: leakage.UnresolvedRound, present: Collection[PartyId]) -> leakage.UnresolvedRound:
        return one.hear(self._unreleased[one.round].intersection(present))[0]

    def begin(
        self,
        params: F32,
        assignment: clustering.Assignment,
        survivors: Collection[PartyId],
        admitted: Collection[int],
    ) -> frozenset[PartyId]:
        """Record the sums of a round; return the parties whose limits they cross with earlier ones."""
        now = self._now = sums_by_model(self._plan, params, assignment, survivors, admitted)
        self._rounds = [one for one in self._rounds if any(model in one.given for model in now)]
        own = repeat_limits(self._plan)
        if own is None or not (self._rounds or any(self._unresolved.values())):
            return frozenset()
        verdicts: dict[tuple[object, ...], bool] = {}
        found: set[PartyId] = set()
        for party in survivors:
            numbers = tuple(number for number, one in enumerate(self._rounds) if party in one.givers)
            known = leakage.doubtful_members(self._unresolved.get(party, ()), party)
            case = numbers, *sorted(known.items())
            if case not in verdicts:
                before = leakage.NOTHING_GIVEN
                for number in numbers:
                    before = leakage.join_releases(before, self._rounds[number].given)
                verdicts[case] = bool(leakage.crossed_together(before, now, own, b"simulation", known))
            if verdicts[case]:
                found.add(party)
        return frozenset(found)

    def note(self, givers: Collection[PartyId]) -> None:
        """Record that ``givers`` released their shares for the round."""
        if givers:
            self._rounds.append(_Round(frozenset(givers), self._now))
        round_, drawn, took_part = self._drawn
        self._unreleased[round_] = took_part.difference(givers)
        for party in self._unreleased[round_]:
            one = leakage.UnresolvedRound(
                self._plan.run, round_, drawn, max_silent_members(self._plan), frozenset({party})
            )
            self._unresolved[party] = (*self._unresolved.get(party, ()), one)
