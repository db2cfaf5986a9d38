"""Attempts of CrypTen sums, which open with all of their members or not at all.

Results as of :func:`securefl.protocol.round.server.attempts.retry_without_missing`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from securefl import scenario
from securefl.base import text
from securefl.base.ids import PartyId
from securefl.methods import clustering
from securefl.protocol.round import ClusterKey, RunPlan


@dataclass(frozen=True, slots=True)
class Deviations:
    """Deviations of parties in one round that affect counting."""

    silent: Mapping[PartyId, scenario.Phase]
    """Phase in which each party drops out or is killed."""
    wrong_shares: frozenset[PartyId] = frozenset()
    """Parties that release other shares than they were dealt."""

    def without(self, blocked: Collection[PartyId]) -> Deviations:
        """Return the deviations with parties that send nothing after the draw."""
        return replace(self, silent={**self.silent, **dict.fromkeys(blocked, _BLOCKED)})


_BLOCKED: Final[scenario.Phase] = "before-keys"


@dataclass(frozen=True, slots=True)
class BeforeInputs:
    """State of a round when masked inputs are due."""

    unready: Mapping[ClusterKey, str]
    keyless: frozenset[PartyId]
    """Members of a sum lost before any shares were dealt."""
    halted: frozenset[PartyId]
    """Members of a sum lost before any update was submitted."""
    listed: Mapping[ClusterKey, list[PartyId]]
    """Members on the key lists of the others."""
    able: Mapping[ClusterKey, list[PartyId]]
    """Members that submit once they have trained."""


class Attempt(NamedTuple):
    """One attempt of a sum."""

    number: int
    members: tuple[PartyId, ...]
    excluded: tuple[PartyId, ...] = ()
    """Members of the previous attempt only."""


@dataclass(frozen=True, slots=True)
class Attempts:
    """Outcomes of all attempts of a round's sums."""

    lost: Mapping[ClusterKey, str]
    submitted: Mapping[ClusterKey, list[PartyId]]
    """Members that submitted in the last attempt of each other sum."""
    further: tuple[tuple[ClusterKey, Attempt], ...]


def started_over(
    plan: RunPlan,
    assignment: clustering.Assignment,
    clusters: Mapping[ClusterKey, Collection[PartyId]],
    summing: BeforeInputs,
    submitted: Mapping[ClusterKey, list[PartyId]],
    deviations: Deviations,
) -> Attempts:
    """Return the attempts of one round."""
    sums = plan.scenario.secure_sum
    sharing = {key: frozenset(members) for key, members in summing.listed.items()}
    inputs = {key: list(members) for key, members in submitted.items()}
    attempts = {key: Attempt(0, tuple(clusters[key])) for key in sharing}
    further: list[tuple[ClusterKey, Attempt]] = []
    lost: dict[ClusterKey, str] = {}
    gone = {p for p, phase in deviations.silent.items() if phase not in {"after-freeze", "after-release"}}
    while True:
        while True:
            kept = {key: members for key, members in inputs.items() if key not in lost}
            survivors = clustering.survivor_set(clusters, kept, sums.min_survivors, assignment.atoms)
            waiting = {key: members for key, members in sharing.items() if key not in lost}
            short = [k for k, members in waiting.items() if members & survivors not in {frozenset(), members}]
            spent = [key for key in short if attempts[key].number + 1 >= sums.max_attempts]
            if not spent:
                break
            lost |= dict.fromkeys(spent, f"failed in each of {sums.max_attempts} attempts")
        if not short:
            return Attempts(lost, kept, tuple(further))
        for key in sorted(short):
            members = tuple(sorted(sharing[key] & survivors))
            excluded = tuple(p for p in attempts[key].members if p not in members)
            attempts[key] = Attempt(attempts[key].number + 1, members, excluded)
            further.append((key, attempts[key]))
            answering = [party for party in members if party not in gone]
            sharing[key], inputs[key] = frozenset(answering), answering
            if len(answering) < sums.min_survivors:
                lost[key] = f"only {text.count(len(answering), 'member')} advertised keys"
