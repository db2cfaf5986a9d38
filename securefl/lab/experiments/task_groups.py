"""Task groups in a simulation, which knows each party's choice: groups found, lost and counted."""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import Final, Literal

from msgspec import Struct, field

from securefl.base.ids import PartyId
from securefl.methods import attacks, clustering
from securefl.protocol.round import FIRST_SLOT, ClustersDrawn, ModelStepped, SumOpened
from securefl.runtime.report import count_of
from securefl.scenario import Scenario

MOST: Final = 0.8
"""Share of a group's honest members with one model from which the group counts as found."""

Loss = Literal["start", "outvoted", "unheard", "left", "spread", "idle"]
LOSSES: Final[Mapping[Loss, str]] = {
    "start": "never apart from another group",
    "outvoted": "found, and lost where liars were in half or more of its sums",
    "unheard": "found, and lost for want of sums",
    "left": "found, and lost while most of its sums were honest",
    "spread": "never four fifths of it in one model",
    "idle": "found, and not learned, as no sum of it was left",
}
"""Descriptions of steps that lose a group, or leave its model unchanged."""


class GroupOutcome(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Outcome of one group."""

    members: int
    found: bool
    """True if at the end :data:`MOST` of them choose one model that is no other group's favourite."""
    last: int = -1
    """Last round in which it was found, or -1."""
    sums: int = 0
    """Opened sums of its favourite model in that round (or else the last), without screened-out ones."""
    lying: int = 0
    """Those of ``sums`` that contain a Byzantine party."""
    shared: bool = False
    """True if its final favourite is also another group's."""

    @property
    def loss(self) -> Loss | None:
        """Step that lost it, or ``idle``; None if found and learned to the last round."""
        if self.found:
            return None if self.sums else "idle"
        if self.last < 0:
            return "start" if self.shared else "spread"
        if not self.sums:
            return "unheard"
        return "outvoted" if 2 * self.lying >= self.sums else "left"


class GroupsRecord(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Outcomes of all groups."""

    heard: float
    """Share of honest updates in opened sums, mean of the rounds with all models."""
    vain: int
    """Models split off from a model with members of a single group."""
    outcomes: tuple[GroupOutcome, ...] = field(name="fates")


class _Round:
    """Observations of one round."""

    def __init__(self, choice: Mapping[PartyId, int]) -> None:
        self.choice = dict(choice)
        self.tasks: tuple[int, ...] = ()
        self.heard: set[PartyId] = set()
        self.sums: dict[tuple[int, int], tuple[int, bool]] = {}
        """Model, and True if it has a Byzantine party, by key of an opened sum."""
        self.kept: Collection[tuple[int, int]] = ()


class GroupWatch:
    """Listener of a simulation with known groups (``groups.tasks = "rotations"``).

    Args: scenario: of the simulation. seed: public seed, which determines the Byzantine parties. tasks: group
    by party.
    """

    def __init__(self, scenario: Scenario, seed: int, tasks: Mapping[PartyId, int]) -> None:
        self._scenario, self._hidden = scenario, clustering.hides_groups(scenario.groups)
        self._liars = {
            name
            for name, shown in attacks.behaviours_of(scenario, seed).items()
            if any(map(attacks.is_byzantine, shown))
        }
        names = attacks.party_names(scenario.parties)
        self._members = [
            [name for name in names if tasks[name] == group and name not in self._liars]
            for group in range(len(clustering.group_sizes(scenario)))
        ]
        self._rounds: list[_Round] = []

    def on_choice(self, _round: int, groups: Mapping[PartyId, int]) -> None:
        """Record the model that each party learns in the round that begins."""
        self._rounds.append(_Round(groups))

    def on_report(self, _now: float, report: object) -> None:
        """Record a report of the server."""
        if not self._rounds:
            return
        this = self._rounds[-1]
        match report:
            case ClustersDrawn():
                this.tasks = report.tasks
            case SumOpened(opened=opened):
                model = opened.reclustering - FIRST_SLOT if self._hidden else this.tasks[opened.cluster]
                inside = {name for name in opened.survivors if this.choice.get(name) == model}
                this.heard |= inside - self._liars
                this.sums[opened.key] = model, not inside.isdisjoint(self._liars)
            case ModelStepped():
                this.kept = report.kept
            case _:
                pass

    def on_reject(self, _vantage: str, _culprit: str, _reason: str) -> None:
        """Ignore refusals: their effects show in the sums."""

    def conclude(self) -> GroupsRecord | None:
        """Return the record after the last round, if there was one."""
        if not self._rounds:
            return None
        honest = sum(map(len, self._members))
        groups = self._scenario.groups
        whole = groups.warmup + (groups.count - 2) * groups.pace if groups.warmup else 0
        late = self._rounds[whole:] or self._rounds[-1:]
        heard = sum(len(one.heard) for one in late) / (len(late) * honest)
        outcomes = tuple(map(self._outcome, range(len(self._members))))
        return GroupsRecord(heard=round(heard, 4), vain=self._vain(), outcomes=outcomes)

    def _outcome(self, group: int) -> GroupOutcome:
        found = [at for at, one in enumerate(self._rounds) if self._has_group(one, group)]
        end = len(self._rounds) - 1
        last = found[-1] if found else -1
        then = self._rounds[last]
        model = self._favourite(then, group)
        kept = [lies for key, (of, lies) in then.sums.items() if of == model and key in then.kept]
        final = self._favourite(self._rounds[end], group)
        others = (g for g in range(len(self._members)) if g != group)
        return GroupOutcome(
            members=len(self._members[group]),
            found=last == end,
            last=last,
            sums=len(kept),
            lying=sum(kept),
            shared=final is not None and any(self._favourite(self._rounds[end], g) == final for g in others),
        )

    def _has_group(self, one: _Round, group: int) -> bool:
        model = self._favourite(one, group)
        with_it = sum(one.choice.get(name) == model for name in self._members[group])
        others = (g for g in range(len(self._members)) if g != group)
        return (
            model is not None
            and with_it >= MOST * len(self._members[group])
            and all(self._favourite(one, g) != model for g in others)
        )

    def _favourite(self, one: _Round, group: int) -> int | None:
        """Return the model that most honest members of a group chose, the first on a tie."""
        votes = Counter(one.choice[name] for name in self._members[group] if name in one.choice)
        return min(votes, key=lambda model: (-votes[model], model), default=None)

    def _vain(self) -> int:
        """Count models whose members came from a favourite of at most one group."""
        vain = 0
        if not self._scenario.groups.warmup:
            return vain
        for before, after in zip(self._rounds, self._rounds[1:], strict=False):
            known = set(before.choice.values())
            for model in set(after.choice.values()) - known:
                if model < max(known):
                    continue
                origins = Counter(
                    before.choice[name]
                    for name, chosen in after.choice.items()
                    if chosen == model and name in before.choice
                )
                source = min(origins, key=lambda one: (-origins[one], one), default=None)
                shared = [g for g in range(len(self._members)) if self._favourite(before, g) == source]
                vain += len(shared) < 2
        return vain


def found_of(seeds: Sequence[GroupsRecord]) -> str:
    """Format the number of groups found in all seeds."""
    outcomes = [outcome for one in seeds for outcome in one.outcomes]
    return f"{sum(outcome.found for outcome in outcomes)} of {len(outcomes)} found"


def heard_of(seeds: Sequence[GroupsRecord]) -> str:
    """Format the mean share of honest updates counted."""
    return f"{sum(one.heard for one in seeds) / len(seeds):.0%} heard"


def losses_of(seeds: Sequence[GroupsRecord]) -> str:
    """Format the reasons for lost or idle groups; empty if all were learned."""
    lost = [
        (outcome, loss) for one in seeds for outcome in one.outcomes if (loss := outcome.loss) is not None
    ]
    losses = []
    for loss, words in LOSSES.items():
        of_it = [outcome for outcome, why in lost if why == loss]
        if of_it:
            sums = f" ({sum(f.lying for f in of_it)} of {sum(f.sums for f in of_it)} sums)"
            losses.append(f"{len(of_it)} {words}{sums if loss in {'outvoted', 'left'} else ''}")
    vain = sum(one.vain for one in seeds)
    if losses and vain:
        losses.append(f"{count_of(vain, 'model')} parted off a single group")
    return "; ".join(losses)
