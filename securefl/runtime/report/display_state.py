"""The state of a run as a display shows it: an immutable picture, redrawn with each report."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Final, Literal

from securefl.base.ids import PartyId
from securefl.protocol.round import (
    AnyReport,
    ClusterKey,
    ClustersDrawn,
    InstanceLost,
    ModelStepped,
    PartiesJoined,
    RoundDone,
    RoundStarted,
    SlotsCounted,
    StepReached,
    SumChecked,
    SumOpened,
    SurvivorsFrozen,
    totals_of,
)
from securefl.runtime.report.events import event_text, refusal_text

STEPS: Final = {
    "hello": "hello",
    "reveal": "draw",
    "training": "train and mask",
    "certify": "certify",
    "release": "open",
    "consult": "own data",
    "evaluate": "test",
}
"""Steps of a round in words."""

OPTIONAL: Final = frozenset({"certify", "consult"})
"""Steps that only some runs have."""

DONE: Final = "done"
"""The step of a round that has ended."""

_EVENTS: Final = 8

Standing = Literal["waiting", "counted", "dropped", "rejected", "lost"]
"""Of a party in the round: no news; in the survivor set; not in it; in a cluster that the rule left out, or
whose sum was lost."""


@dataclass(frozen=True, slots=True)
class DisplayState:
    """The state of a run, for a display."""

    rounds: int
    """Planned rounds."""
    done: int = 0
    before: int = 0
    """How many of those that are done were done before a resume: nothing is known of their time."""
    began: float | None = None
    """When the first round since then began, in the server's seconds."""
    ended: float = 0.0
    """When the latest round ended, in the server's seconds."""
    round: int = 0
    step: str = ""
    since: float = 0.0
    """When the round began, in the server's seconds."""
    now: float = 0.0
    present: tuple[PartyId, ...] = ()
    missing: tuple[PartyId, ...] = ()
    clusters: tuple[tuple[PartyId, ...], ...] = ()
    """Of the first reclustering of the round."""
    standings: dict[PartyId, Standing] = field(default_factory=dict)
    inside: int | None = None
    """Parties whose updates are in the sums that may be opened, where groups are hidden; else None."""
    opened: int = 0
    """Sums opened in this round."""
    planned: int = 0
    """Sums planned in this round."""
    total_opened: int = 0
    refusals: int = 0
    accuracies: tuple[float, ...] = ()
    backdoor: float | None = None
    """The latest success rate of the scenario's backdoor."""
    events: tuple[str, ...] = ()
    """The latest, newest last."""

    def after(self, now: float, report: AnyReport) -> DisplayState:
        """The state after a report."""
        state = replace(self, now=now)
        line = event_text(report)
        if line is not None and not isinstance(report, RoundDone):
            state = state.noting(line)
        return _marked_parties(_progressed(state, now, report), report)

    def left(self, in_round: float) -> float | None:
        """Seconds until the last planned round has ended, at the pace so far; None before one has ended.

        Args:
            in_round: seconds since the latest round began.
        """
        if self.began is None or self.done == self.before:
            return None
        pace = (self.ended - self.began) / (self.done - self.before)
        return max(0.0, pace * (self.rounds - self.done) - (self.since + in_round - self.ended))

    def noting(self, text: str) -> DisplayState:
        """The state with one more event."""
        return replace(self, events=(*self.events, text)[-_EVENTS:])

    def refusing(self, vantage: str, culprit: str, reason: str) -> DisplayState:
        """The state after a refusal."""
        return replace(self.noting(refusal_text(vantage, culprit, reason)), refusals=self.refusals + 1)


def _progressed(state: DisplayState, now: float, report: AnyReport) -> DisplayState:
    """The state after reports that move the run along."""
    match report:
        case PartiesJoined(present=present, missing=missing):
            state = replace(state, present=present, missing=missing)
        case RoundStarted(round=round_):
            began = now if state.began is None else state.began
            state = replace(state, round=round_, since=now, began=began, step="", opened=0, planned=0)
        case StepReached(step=step):
            state = replace(state, step=step)
        case ModelStepped():
            state = replace(state, step="evaluate")
        case RoundDone(accuracy=accuracy, backdoor_success=success):
            accuracies = state.accuracies if accuracy is None else (*state.accuracies, accuracy)
            state = replace(state, done=state.done + 1, ended=now, step=DONE, accuracies=accuracies)
            state = replace(state, backdoor=success)
        case _:
            pass
    return state


def _marked_parties(state: DisplayState, report: AnyReport) -> DisplayState:
    """The state after reports on parties and sums."""
    match report:
        case ClustersDrawn(clusters=clusters):
            state = replace(
                state,
                clusters=clusters[0] if clusters else (),
                planned=sum(map(len, clusters)),
                standings={party: "waiting" for row in clusters[:1] for members in row for party in members},
                inside=None,
            )
        case SurvivorsFrozen(survivors=survivors, dropped=dropped):
            state = _marking(_marking(state, survivors, "counted"), dropped, "dropped")
        case InstanceLost(reclustering=r, cluster=j):
            state = _marking(state, _members(state, (r, j)), "lost")
        case SlotsCounted():
            state = replace(state, inside=(state.inside or 0) + sum(totals_of((report,)).values()))
        case SumOpened():
            state = replace(state, opened=state.opened + 1, total_opened=state.total_opened + 1)
        case SumChecked(reclustering=r, cluster=j, ok=False):
            state = _marking(state, _members(state, (r, j)), "rejected")
        case ModelStepped(rejected=rejected):
            for key in rejected:
                state = _marking(state, _members(state, key), "rejected")
        case _:
            pass
    return state


def _members(state: DisplayState, key: ClusterKey) -> tuple[PartyId, ...]:
    reclustering, cluster = key
    known = reclustering == 0 and cluster < len(state.clusters)
    return state.clusters[cluster] if known else ()


def _marking(state: DisplayState, parties: tuple[PartyId, ...], standing: Standing) -> DisplayState:
    """A party that was dropped stays dropped, whatever becomes of its cluster."""
    marked = {
        party: standing
        for party in parties
        if party in state.standings and state.standings[party] != "dropped"
    }
    return replace(state, standings={**state.standings, **marked})
