"""A round while it goes on: reports in, a :class:`RoundRecord` out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import assert_never

from securefl.base.ids import PartyId
from securefl.protocol.round import (
    AnyReport,
    ClusterKey,
    ClustersDrawn,
    DrawVoided,
    InstanceLost,
    InstanceRetried,
    ModelStepped,
    RoundDone,
    RoundSkipped,
    SlotsCounted,
    StepReached,
    SumChecked,
    SumOpened,
    SumsWithheld,
    SurvivorsFrozen,
    UpdatesValidated,
    totals_of,
)
from securefl.runtime.report import records
from securefl.runtime.report.weighing import Weighing, weighing

_MAX_REFUSALS = 1000
"""Different refusals kept per round: one peer cannot fill memory or the disk with inventive garbage."""

_FURTHER = records.RefusedMessage("-", "-", "further refusals")


@dataclass(slots=True)
class RoundDraft:
    """Collects one round of the server."""

    started: float
    traffic: dict[str, dict[records.Direction, records.Volume]] = field(default_factory=dict)
    refusals: Counter[records.RefusedMessage] = field(default_factory=Counter)
    sums: list[records.SumSeen] = field(default_factory=list)
    _seconds: dict[str, float] = field(default_factory=dict)
    _step: tuple[str, float] | None = None
    _members: dict[ClusterKey, tuple[PartyId, ...]] = field(default_factory=dict)
    _inside: dict[ClusterKey, int] = field(default_factory=dict)
    _withheld: set[PartyId] = field(default_factory=set)
    _excluded: set[PartyId] = field(default_factory=set)
    _frozen: frozenset[PartyId] = frozenset()
    _resting: frozenset[PartyId] = frozenset()
    _lost: dict[ClusterKey, str] = field(default_factory=dict)
    _failed: dict[ClusterKey, str] = field(default_factory=dict)
    _closed: dict[int, str] = field(default_factory=dict)
    _oversized: set[PartyId] = field(default_factory=set)
    _projections: int = 0
    _measured: int = 0
    _weighing: Weighing | None = None
    _norm: float | None = None
    _redraws: int = 0
    _retries: int = 0
    _skipped: str = ""

    def take(self, now: float, report: AnyReport) -> None:
        """Note one report; those that say nothing of a round pass unnoticed."""
        match report:
            case StepReached(step=step):
                self._enter(step, now)
            case DrawVoided(withheld=withheld):
                self._redraws += 1
                self._withheld.update(withheld)
            case ClustersDrawn(clusters=clusters, resting=resting, counts=counts, cap=cap):
                self._resting = frozenset(resting)
                self._members = {(r, j): m for r, row in enumerate(clusters) for j, m in enumerate(row)}
                drawn = {party for members in self._members.values() for party in members}
                self._weighing = weighing(dict(counts), drawn, cap)
            case InstanceRetried(excluded=excluded):
                self._retries += 1
                self._excluded.update(excluded)
            case InstanceLost() | SumChecked() | SumsWithheld() | RoundSkipped():
                self._take_failure(report)
            case UpdatesValidated(accepted=accepted, rejected=rejected, projections=projections):
                self._oversized.update(rejected)
                self._measured += len(accepted) + len(rejected)
                self._projections += projections * (len(accepted) + len(rejected))
            case SurvivorsFrozen(survivors=survivors):
                self._frozen = frozenset(survivors)
            case SlotsCounted() | SumOpened():
                self._take_sum(report)
            case ModelStepped(update_norm=norm):
                self._norm = norm
                self._enter("evaluate", now)
            case _:
                pass

    def _take_sum(self, report: SlotsCounted | SumOpened) -> None:
        """Note an opened sum, or how many are in the slots that will be."""
        if isinstance(report, SlotsCounted):
            self._inside.update(totals_of((report,)))
            return
        opened = report.opened
        inside = self._inside.get(opened.key)
        self.sums.append(records.SumSeen(*opened.key, opened.members, opened.survivors, inside))

    def _take_failure(self, report: InstanceLost | SumChecked | SumsWithheld | RoundSkipped) -> None:
        """Note what keeps sums from being opened or used."""
        match report:
            case InstanceLost(reclustering=r, cluster=j, reason=reason):
                self._lost[r, j] = reason
            case SumChecked(reclustering=r, cluster=j, ok=ok, reason=reason):
                if not ok:
                    self._failed[r, j] = reason
            case SumsWithheld(reclusterings=reclusterings, reason=reason):
                self._closed = dict.fromkeys(reclusterings, f"{records.CLOSED}: {reason}")
            case RoundSkipped(reason=reason):
                self._skipped = reason
            case _:
                assert_never(report)

    def carry(self, party: str, direction: records.Direction, frames: int, size: int) -> None:
        """Note traffic."""
        volumes = self.traffic.setdefault(party, {})
        volumes[direction] = volumes.get(direction, records.Volume()).plus(frames, size)

    @property
    def is_unchanged(self) -> bool:
        """True if the round's step left the model as it was."""
        return self._norm == 0

    def refuse(self, refusal: records.RefusedMessage) -> None:
        """Note a refused message."""
        known = refusal in self.refusals or len(self.refusals) < _MAX_REFUSALS
        self.refusals[refusal if known else _FURTHER] += 1

    def close(
        self,
        now: float,
        done: RoundDone,
        expected: frozenset[PartyId],
        spent: Mapping[PartyId, float | None] | None = None,
    ) -> records.RoundRecord:
        """The record of the round.

        Args:
            now: seconds on the server's clock.
            done: how it ended.
            expected: the parties that should have taken part.
            spent: epsilon of each party up to this round; None without privacy.
        """
        self._enter("", now)
        counted = {party for seen in self.sums for party in seen.counted}
        if not self.sums and done.opened:
            # They opened to an earlier server, which was killed as it tested the model.
            counted = set(done.survivors)
        few = "too few of its members were left at the freeze"
        lost = {key: self._lost.get(key, self._closed.get(key[0], few)) for key in done.lost}
        out = [records.LeftOut(p, self._why(p, lost)) for p in done.participants if p not in counted]
        absent = sorted(expected - set(done.participants))
        out += [records.LeftOut(party, self._why_not_drawn(party)) for party in absent]
        return records.RoundRecord(
            round=done.round,
            accuracy=done.accuracy,
            loss=done.loss,
            backdoor_success=done.backdoor_success,
            update_norm=self._norm,
            participants=done.participants,
            counted=tuple(sorted(counted)),
            left_out=tuple(out),
            sums=tuple(self.sums),
            kept=done.kept,
            rejected=done.rejected,
            lost=lost,
            failed=dict(self._failed),
            redraws=self._redraws,
            retries=self._retries,
            seconds={**self._seconds, "total": max(0.0, now - self.started)},
            traffic=self.traffic,
            refusals=dict(self.refusals),
            epsilon=spent,
            suspects=done.suspects,
            metrics=done.metrics,
            doubted=done.doubted,
            projections=self._projections,
            measured=self._measured,
            weighing=self._weighing,
        )

    def _enter(self, step: str, now: float) -> None:
        """Book the time since the last step; a step may come again (a void draw starts over)."""
        if self._step is not None:
            name, since = self._step
            self._seconds[name] = self._seconds.get(name, 0.0) + max(0.0, now - since)
        self._step = (step, now)

    def _why_not_drawn(self, party: PartyId) -> str:
        if party in self._resting:
            return records.RESTING
        return records.WITHHELD if party in self._withheld else records.NOT_THERE

    def _why(self, party: PartyId, lost: dict[ClusterKey, str]) -> str:
        """The reason why a participant is in no opened sum; the most telling of what the server knows."""
        if party in self._oversized:
            return records.OVERSIZED
        if party in self._excluded:
            return "left out when its sum started over"
        mine = {key: reason for key, reason in lost.items() if party in self._members.get(key, ())}
        # What the ledger keeps closed holds everybody, those too that fell silent.
        reasons = [reason for key, reason in mine.items() if key[0] not in self._closed]
        if party in self._frozen and mine and not reasons:
            return f"all its sums were {next(iter(mine.values()))}"
        if reasons:
            return f"its sum was lost: {reasons[0]}"
        if party in self._frozen:
            return "its sum was not opened"
        refused = [refusal.reason for refusal in self.refusals if refusal.culprit == party]
        # In a round that was skipped nobody was asked for anything, or not by this server.
        skipped = f"the round was skipped: {self._skipped}" if self._skipped else ""
        return f"refused: {refused[0]}" if refused else skipped or "silent before its masked input"
