"""Schedules: who was there, survived and was opened in each round of a recorded run, for a simulation of it.

A simulation of the same seed has the same updates and steps. What it cannot know is what network and
processes did: who was away, who dropped out, which rounds were void; and the clusters, which follow from the
run's id and keys.
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
    """The clusters of a round, as the server of a run has recorded them."""

    seed: bytes
    """Certified, 32 bytes."""
    atom_seed: bytes
    clusters: tuple[tuple[tuple[PartyId, ...], ...], ...]

    def of(
        self,
        plan: RunPlan,
        samples: Mapping[PartyId, int],
        groups: Mapping[PartyId, int],
    ) -> Draw:
        """The draw, with the weights that follow from it.

        Args:
            plan: of the simulation.
            samples: declared counts of those who are present.
            groups: their task groups.

        Raises:
            ConfigError: such clusters are drawn in no run of this scenario.
        """
        told = groups if clustering.tells_groups(plan.scenario.groups) else NO_GROUPS
        made = clusters_of(plan, self.seed, samples.keys(), self.atom_seed, told)
        if plan.scenario.clustering.fixed:
            # They follow from the run and its roster, and not from the seed.
            members = tuple(sorted({party for row in self.clusters for each in row for party in each}))
            made = replace(made, participants=members, clusters=self.clusters)
        if made.clusters != self.clusters:
            reason = "the run drew other clusters than this scenario"
            raise ConfigError("--like", reason, "give its scenario and seed")
        return with_weights(plan, 0, self.seed, made, samples, self.atom_seed, told)


@dataclass(frozen=True, slots=True)
class RoundFate:
    """The fate of one round, as the server of a run has recorded it."""

    present: frozenset[PartyId]
    """Who was in its draw."""
    drawn: RecordedDraw | None = None
    """The clusters; None where none were drawn."""
    survivors: frozenset[PartyId] = frozenset()
    opened: frozenset[ClusterKey] = frozenset()
    left_open: frozenset[PartyId] | None = None
    """Who was drawn, where the server was killed in it and another one went on; None for any other round."""

    def there(self, parties: Mapping[PartyId, SimulatedParty]) -> dict[PartyId, SimulatedParty]:
        """Those of the parties who were in the draw."""
        return {name: party for name, party in parties.items() if name in self.present}

    def deviations(self, parties: Collection[PartyId]) -> Deviations:
        """Whose masked inputs do not come in."""
        silent: dict[PartyId, scenario.Phase] = {
            name: "after-shares" for name in parties if name not in self.survivors
        }
        return Deviations(silent)

    def opened_of(self, sums: Sequence[ClusterSum]) -> list[ClusterSum]:
        """The sums that the run opened, of those that its survivors make.

        Raises:
            ConfigError: it opened others: it is no run of this scenario and seed.
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
    """What is known of a round so far."""

    present: frozenset[PartyId] = frozenset()
    drawn: RecordedDraw | None = None
    survivors: frozenset[PartyId] = frozenset()


@dataclass(frozen=True, slots=True)
class Schedule:
    """The fates of the rounds of a run."""

    run: str
    rounds: Mapping[int, RoundFate]

    @property
    def parties(self) -> frozenset[PartyId]:
        """Whoever was drawn, or present at least, in any round."""
        fates = self.rounds.values()
        return frozenset().union(*(fate.present | (fate.left_open or frozenset()) for fate in fates))

    def of(self, round_: int) -> RoundFate:
        """The fate of a round.

        Raises:
            ConfigError: the run had no such round.
        """
        if round_ not in self.rounds:
            raise ConfigError(
                "--like", f"the run ended before round {round_}", "set stop.rounds to its number of rounds"
            )
        return self.rounds[round_]


def schedule_of(run: str, transcripts: Iterable[Iterable[transcript.Entry]]) -> Schedule:
    """Return the schedule of a run.

    Args:
        run: its id.
        transcripts: entries of the server's transcripts, in the order in which its processes were started.

    Raises:
        ConfigError: verifiers did not confirm a step, which no simulation can repeat.
    """
    rounds: dict[int, RoundFate] = {}
    for entries in transcripts:
        drafts: dict[int, _Draft] = {}
        for entry in entries:
            _take(rounds, drafts, entry)
    return Schedule(run, rounds)


def _take(rounds: dict[int, RoundFate], drafts: dict[int, _Draft], entry: transcript.Entry) -> None:
    said: Mapping[str, Any] = entry.fields
    if not isinstance(said.get("round"), int):
        return
    round_ = said["round"]
    draft = drafts.setdefault(round_, _Draft())
    match entry.kind:
        case "clusters_drawn":
            clusters = tuple(tuple(tuple(map(PartyId, each)) for each in row) for row in said["clusters"])
            seeds = bytes.fromhex(said["seed"]), bytes.fromhex(said["atom_seed"])
            draft.drawn = RecordedDraw(*seeds, clusters)
            drawn = (name for row in clusters for members in row for name in members)
            draft.present = frozenset((*drawn, *map(PartyId, said["resting"])))
        case "survivors_frozen":
            draft.survivors = frozenset(map(PartyId, said["survivors"]))
        case "claim_refused":
            raise ConfigError(
                "--like",
                f"verifiers did not confirm round {round_}, which a simulation cannot repeat",
                "give another run",
            )
        case "round_done" if round_ not in rounds:
            rounds[round_] = _fate(draft, said)


def _fate(draft: _Draft, done: Mapping[str, Any]) -> RoundFate:
    opened = frozenset((r, j) for r, j in done["opened"])
    drawn = frozenset(map(PartyId, done["participants"]))
    if not draft.present and (done["lost"] or not drawn):
        # Another server ends it: what it knows is who was drawn.
        return RoundFate(frozenset(), left_open=drawn)
    if not draft.survivors and opened:
        draft.survivors = frozenset(map(PartyId, done["survivors"]))
    return RoundFate(draft.present or drawn, draft.drawn, draft.survivors, opened)
