"""News of a run's processes."""

from collections.abc import Collection

from securefl.base.ids import EVERYONE, SERVER, PartyId
from securefl.methods import attacks
from securefl.protocol.round import (
    LoopStoodStill,
    NothingLearned,
    RoundDone,
    RunPlan,
    UpdateEncoded,
)
from securefl.runtime import report


def account_for(plan: RunPlan, metrics: report.RunMetrics, seed: int, *, seeded: bool) -> None:
    """Let ``metrics`` account for privacy and track checks, before its first round.

    ``seed`` determines behaviours. If noise is ``seeded`` too no guarantee holds.

    Raises:
        ConfigError: dp_accounting is missing for an epsilon.
    """
    if plan.mechanism is not None:
        void = report.why_none(plan.scenario.behaviours, seeded=seeded)
        without = report.forgoing(plan.scenario, seed)
        metrics.account_for(report.Accounts(plan, plan.mechanism, void=void, without=without))
    metrics.watch(plan, attacks.behaviours_of(plan.scenario, seed))


class Following:
    """Dispatcher of the news of a run's processes.

    ``parties`` receive a broadcast. If ``alone``, only the server sends news: remarks need no name. Failed
    ``trainings`` may be known outside their parties on one machine without ``[privacy]``, or in the lab. So
    may ``updates`` beyond the encoding's range; outside the lab only without a clip bound.
    """

    def __init__(
        self,
        metrics: report.RunMetrics,
        progress: report.Progress,
        parties: Collection[PartyId],
        *,
        alone: bool = False,
        trainings: bool = False,
        updates: bool = False,
    ) -> None:
        self._metrics = metrics
        self._progress = progress
        self._parties = tuple(parties)
        self._alone = alone
        self._trainings = trainings
        self._updates = updates
        self._failures: dict[PartyId, tuple[int, str]] = {}
        self._beyond: dict[PartyId, dict[tuple[int, int], int]] = {}
        self.ending: report.Ending | None = None

    def failures(self, round_: int) -> dict[PartyId, str]:
        """Return the reasons of a round's failed trainings, by party."""
        return {party: reason for party, (last, reason) in self._failures.items() if last == round_}

    def beyond(self, round_: int) -> dict[PartyId, int]:
        """Return the coordinates beyond the encoding's range in a round, by party."""
        return {
            party: sum(many for (number, _), many in found.items() if number == round_)
            for party, found in self._beyond.items()
        }

    def take(self, name: PartyId, item: object) -> None:
        """Handle one item of the process ``name``; ignore items that are not news.

        Raises:
            RunAbortedError: the row of a round cannot be written.
        """
        match item:
            case report.Fact():
                self._on_fact(name, item)
            case report.Refusal(culprit=culprit, reason=reason):
                self._metrics.on_reject(name, culprit, reason)
                self._progress.on_reject(name, culprit, reason)
            case report.Traffic():
                if name == SERVER:
                    self._count(item)
            case report.Remark() | report.Waiting():
                self._remark(name, item)
            case report.Ending():
                if name == SERVER:
                    self.ending = item

    def _on_fact(self, name: PartyId, fact: report.Fact) -> None:
        if name == SERVER:
            self._metrics.on_report(fact.now, fact.item)
            if not (isinstance(fact.item, RoundDone) and self._metrics.was_done(fact.item.round)):
                self._progress.on_report(fact.now, fact.item)
        elif isinstance(fact.item, NothingLearned) and self._trainings:
            self._failures[name] = fact.item.round, fact.item.reason
            self._progress.note(f"{name}: {fact.item.line()}")
        elif isinstance(fact.item, LoopStoodStill):
            self._progress.note(f"site of {name}: {fact.item.line()}")
        elif isinstance(fact.item, UpdateEncoded) and self._updates and self._metrics.is_honest(name):
            self._on_encoded(name, fact.item)

    def _on_encoded(self, name: PartyId, item: UpdateEncoded) -> None:
        if item.saturated:
            self._beyond[name] = {
                **{at: many for at, many in self._beyond.get(name, {}).items() if at[0] >= item.round - 1},
                (item.round, item.work): item.saturated,
            }
            self._progress.note(f"{name}: {item.line()}")

    def _remark(self, name: PartyId, item: report.Remark | report.Waiting) -> None:
        # Omit parties' waits for the server.
        if isinstance(item, report.Remark) or name == SERVER:
            self._progress.note(str(item) if self._alone else f"{name}: {item}")

    def _count(self, traffic: report.Traffic) -> None:
        for party, volume in traffic.received.items():
            self._metrics.on_traffic(party, "up", *volume)
        for to, volume in traffic.sent.items():
            for party in self._parties if to == EVERYONE else (to,):
                self._metrics.on_traffic(party, "down", *volume)
