"""Schedules: presence, survivors and opened sums by round of a recorded run, for its simulation.

A simulation of the same seed has the same updates and steps. It cannot know absences, dropouts and void
rounds; nor the clusters, which follow from the run's id and keys.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from securefl import scenario
from securefl.base.errors import ConfigError
from securefl.base.ids import PartyId
from securefl.methods import clustering
from securefl.protocol.round import (
    NO_GROUPS,
    ClusterKey,
    ClusterSum,
    Draw,
    RunPlan,
    clusters_of,
    with_weights,
)
from securefl.runtime import transcript
from securefl.runtime.simulation.attempts import Deviations
from securefl.runtime.simulation.party import SimulatedParty


@dataclass(frozen=True, slots=True)
class RecordedDraw:
    """Clusters of a round, as recorded by a run's server."""

    seed: bytes
    """Certified seed, 32 bytes."""
    atom_seed: bytes
    clusters: tuple[tuple[tuple[PartyId, ...], ...], ...]

    def of(
        self,
        plan: RunPlan,
        samples: Mapping[PartyId, int],
        groups: Mapping[PartyId, int],
    ) -> Draw:
        """Return the draw with its weights.

        Raises:
            ConfigError: no run of this scenario draws such clusters.
        """
        groups_sent = groups if clustering.tells_groups(plan.scenario.groups) else NO_GROUPS
        made = clusters_of(plan, self.seed, samples.keys(), self.atom_seed, groups_sent)
        if plan.scenario.clustering.fixed:
            # They follow from the run and its roster, not from the seed.
            members = tuple(sorted({party for row in self.clusters for each in row for party in each}))
            made = replace(made, participants=members, clusters=self.clusters)
        if made.clusters != self.clusters:
            reason = "the run drew other clusters than this scenario"
            raise ConfigError("--like", reason, "give its scenario and seed")
        return with_weights(plan, 0, self.seed, made, samples, self.atom_seed, groups_sent)


@dataclass(frozen=True, slots=True)
class RoundFate:
    """Outcome of one round, as recorded by a run's server."""

    present: frozenset[PartyId]
    drawn: RecordedDraw | None = None
    survivors: frozenset[PartyId] = frozenset()
    opened: frozenset[ClusterKey] = frozenset()
    left_open: frozenset[PartyId] | None = None
    """Drawn parties, if the server was killed in the round and another resumed."""

    def there(self, parties: Mapping[PartyId, SimulatedParty]) -> dict[PartyId, SimulatedParty]:
        """Return the parties that were in the draw."""
        return {name: party for name, party in parties.items() if name in self.present}

    def deviations(self, parties: Collection[PartyId]) -> Deviations:
        """Return deviations of the parties whose masked inputs are missing."""
        silent: dict[PartyId, scenario.Phase] = {
            name: "after-shares" for name in parties if name not in self.survivors
        }
        return Deviations(silent)

    def opened_of(self, sums: Sequence[ClusterSum]) -> list[ClusterSum]:
        """Return the sums that the run opened.

        Raises:
            ConfigError: it opened others, with another scenario or seed.
        """
        found = [one for one in sums if one.key in self.opened]
        if len(found) < len(self.opened):
            raise ConfigError(
                "--like",
                "the run opened other sums than its survivors imply",
                "give its scenario and seed",
            )
        return found


@dataclass(slots=True)
class _Draft:
    present: frozenset[PartyId] = frozenset()
    drawn: RecordedDraw | None = None
    survivors: frozenset[PartyId] = frozenset()
    skipped: bool = False
    """True if a process ended it without clusters of its own."""


@dataclass(frozen=True, slots=True)
class Schedule:
    """Recorded rounds of a run."""

    run: str
    rounds: Mapping[int, RoundFate]

    @property
    def parties(self) -> frozenset[PartyId]:
        """Parties that were drawn or present in any round."""
        fates = self.rounds.values()
        return frozenset().union(*(outcome.present | (outcome.left_open or frozenset()) for outcome in fates))

    def of(self, round_: int) -> RoundFate:
        """Return the outcome of a round.

        Raises:
            ConfigError: the run had no such round.
        """
        if round_ not in self.rounds:
            raise ConfigError(
                "--like", f"the run ended before round {round_}", "set stop.rounds to its number of rounds"
            )
        return self.rounds[round_]


def schedule_of(run: str, transcripts: Iterable[Iterable[transcript.Entry]]) -> Schedule:
    """Return the schedule of a run from its server's transcripts, in the order of process starts.

    Raises:
        ConfigError: verifiers did not confirm a step, which no simulation can repeat.
    """
    rounds: dict[int, RoundFate] = {}
    begun: dict[int, _Draft] = {}
    for entries in transcripts:
        drafts: dict[int, _Draft] = {}
        for entry in entries:
            _take(rounds, drafts, begun, entry)
        begun |= {round_: draft for round_, draft in drafts.items() if draft.present or draft.skipped}
    return Schedule(run, rounds)


def _take(
    rounds: dict[int, RoundFate],
    drafts: dict[int, _Draft],
    begun: Mapping[int, _Draft],
    entry: transcript.Entry,
) -> None:
    """Add an entry to ``drafts``, the rounds of its process, or end a round in ``rounds``.

    ``begun`` has the rounds of earlier processes.
    """
    fields: Mapping[str, Any] = entry.fields
    if not isinstance(fields.get("round"), int):
        return
    round_ = fields["round"]
    draft = drafts.setdefault(round_, _Draft())
    match entry.kind:
        case "clusters_drawn":
            clusters = tuple(tuple(tuple(map(PartyId, each)) for each in row) for row in fields["clusters"])
            seeds = bytes.fromhex(fields["seed"]), bytes.fromhex(fields["atom_seed"])
            draft.drawn = RecordedDraw(*seeds, clusters)
            drawn = (name for row in clusters for members in row for name in members)
            draft.present = frozenset((*drawn, *map(PartyId, fields["resting"])))
        case "round_skipped":
            draft.skipped = True
        case "survivors_frozen":
            draft.survivors = frozenset(map(PartyId, fields["survivors"]))
        case "claim_refused":
            raise ConfigError(
                "--like",
                f"verifiers did not confirm round {round_}, which a simulation cannot repeat",
                "give another run",
            )
        case "round_done" if round_ not in rounds:
            if not draft.present and not draft.skipped:
                # An earlier process drew its clusters, or skipped it, and was killed before this entry.
                draft = begun.get(round_, draft)
            rounds[round_] = _fate(draft, fields)


def _fate(draft: _Draft, done: Mapping[str, Any]) -> RoundFate:
    opened = frozenset((r, j) for r, j in done["opened"])
    drawn = frozenset(map(PartyId, done["participants"]))
    if not draft.present and (draft.skipped or not opened):
        # Another server ended it, which knows only the drawn parties.
        return RoundFate(frozenset(), left_open=drawn)
    if not draft.survivors and opened:
        draft.survivors = frozenset(map(PartyId, done["survivors"]))
    return RoundFate(draft.present or drawn, draft.drawn, draft.survivors, opened)
