"""Exposure to up to three unnamed colluders: the smallest support that contains each party.

Colluders K expose party i exactly if some combination of the sums contains i and no party outside K and i.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from securefl.base.arrays import I64
from securefl.base.errors import UsageError
from securefl.base.ids import PartyId
from securefl.methods.leakage.echelon import Echelon
from securefl.methods.leakage.ledger import LeakageLedger
from securefl.methods.leakage.support import (
    ALWAYS,
    UnluckyError,
    affine,
    equal_groups,
    image,
    lines,
    seen_from,
)

_TRIES = 8


@dataclass(frozen=True, slots=True)
class Coalitions:
    """Smallest set of parties that exposes each party with up to ``searched`` colluders."""

    searched: int
    """Number of colluders up to which the result is complete, at most 3."""
    supports: Mapping[PartyId, tuple[PartyId, ...]]
    """A support with the party in it; if all its other parties collude, they learn the party's update."""

    def colluders_needed(self, party: PartyId) -> int | None:
        """Return the fewest colluders that expose ``party``; None if more than ``searched``."""
        support = self.supports.get(party)
        return None if support is None else len(support) - 1

    def exposed_by(self, colluders: int) -> frozenset[PartyId]:
        """Return all parties that some ``colluders`` others expose; raise a UsageError above ``searched``."""
        if not 0 <= colluders <= self.searched:
            raise UsageError(
                f"colluders must be from 0 to {self.searched}, as was searched; found {colluders}"
            )
        return frozenset(p for p, support in self.supports.items() if len(support) <= colluders + 1)


def coalitions(ledger: LeakageLedger, colluders: int = ALWAYS - 1) -> Coalitions:
    """Return the parties that any ``colluders`` other parties expose, by exhaustive search.

    Parties are missed at most with twice the doubt of the ledger. A false entry has probability below 1e-8
    for 100 parties and 1e-3 for 1,000. Three colluders cost up to N^3 / 2 steps of some 0.5 microseconds,
    fewer up to N^2 / 2.

    Raises:
        UsageError: more than 3 colluders. Name them (:meth:`LeakageLedger.without`), or use
            :func:`securefl.methods.leakage.support.least_support` for a bound.
    """
    if not 0 <= colluders < ALWAYS:
        raise UsageError(
            f"colluders, the number of unnamed ones, must be from 0 to {ALWAYS - 1}, found {colluders}"
        )
    for attempt in range(_TRIES):
        try:
            found = _Search(ledger, attempt).run(colluders + 1)
        except UnluckyError:
            continue
        names = ledger.parties
        return Coalitions(
            colluders,
            {names[i]: tuple(names[j] for j in sorted(support)) for i, support in sorted(found.items())},
        )
    raise UsageError(
        "cannot search the parties' points: no random projection was regular modulo the prime;"
        " try another prime"
    )


class _Search:
    """Search in one projection; ``found`` maps a column to the first support that contains it."""

    def __init__(self, ledger: LeakageLedger, attempt: int) -> None:
        self.prime = ledger.prime
        self.units = ledger.echelon.units
        self.found: dict[int, tuple[int, ...]] = {}
        self.image: dict[int, I64] = {d: image(ledger, d, attempt) for d in (2, 3, 4)}

    def run(self, size: int) -> dict[int, tuple[int, ...]]:
        self._note(*((column,) for column in self.units))
        others = [column for column in range(len(self.image[2])) if column not in self.found]
        if size >= 2 and others:
            points = self._parallel(others)
            if size >= 3:
                self._collinear(points)
            if size >= 4:
                self._coplanar(points)
        return self.found

    def _note(self, *supports: tuple[int, ...]) -> None:
        for support in supports:
            for column in support:
                self.found.setdefault(column, support)

    def _parallel(self, columns: list[int]) -> list[int]:
        """Note the pairs, and return one party for each point."""
        places = affine(self.image[2][columns], self.prime)[:, 0]
        spare = set()
        for group in equal_groups(places):
            first = columns[group[0]]
            for other in (columns[k] for k in group[1:]):
                self._note((first, other))
                spare.add(other)
        return [column for column in columns if column not in spare]

    def _collinear(self, points: list[int]) -> None:
        for j, group in lines(affine(self.image[3][points], self.prime), self.prime):
            first, second, *more = (points[k] for k in group)
            self._note((points[j], first, second), *((points[j], first, k) for k in more))

    def _coplanar(self, points: list[int]) -> None:
        places = affine(self.image[4][points], self.prime)
        for i, column in enumerate(points):
            if column in self.found:
                continue
            # The point is on no line of three, so the others lie in different directions from it.
            others = [k for k in range(len(points)) if k != i]
            directions = affine(seen_from(places, i, self.prime)[others], self.prime)
            for j, group in lines(directions, self.prime):
                triple = self._independent([others[k] for k in (j, *group)], places)
                if triple:
                    self._note((column, *(points[k] for k in triple)))
                    break

    def _independent(self, numbers: list[int], places: I64) -> list[int] | None:
        """Return three of the points that are not on a line, or None: points on a line prove nothing."""
        echelon, chosen = Echelon.empty(self.prime, places.shape[1] + 1), []
        for number in numbers:
            grown = echelon.append(np.concatenate([[1], places[number]]))
            if grown is not echelon:
                chosen.append(number)
            echelon = grown
            if len(chosen) == 3:
                return chosen
        return None
