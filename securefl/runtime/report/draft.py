"""Draft of the current round."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from securefl.base.ids import PartyId
from securefl.protocol.round import AnyReport, ClusterKey, RoundDone, RoundNotes, SumSeen
from securefl.runtime.report import records
from securefl.runtime.report.weighing import weighing

_MAX_REFUSALS = 1000
"""Distinct rejections per round: one peer cannot fill memory or disk."""

_FURTHER = records.RefusedMessage("-", "-", "further refusals")


@dataclass(slots=True)
class RoundDraft:
    """Collector of one round of the server."""

    started: float
    traffic: dict[str, dict[records.Direction, records.Volume]] = field(default_factory=dict)
    refusals: Counter[records.RefusedMessage] = field(default_factory=Counter)
    notes: RoundNotes = field(default_factory=RoundNotes)

    @property
    def sums(self) -> list[SumSeen]:
        """Opened sums."""
        return self.notes.sums

    def take(self, now: float, report: AnyReport) -> None:
        """Add a report to the notes and the tally."""
        self.notes.now = now
        report.note(self.notes)
        self.notes.tally.update(report.row_numbers())

    def carry(self, party: str, direction: records.Direction, frames: int, size: int) -> None:
        """Add traffic."""
        volumes = self.traffic.setdefault(party, {})
        volumes[direction] = volumes.get(direction, records.Volume()).plus(frames, size)

    @property
    def is_unchanged(self) -> bool:
        """True if the round's step left the model unchanged."""
        return self.notes.norm == 0

    def refuse(self, refusal: records.RefusedMessage) -> None:
        """Add a rejected message."""
        known = refusal in self.refusals or len(self.refusals) < _MAX_REFUSALS
        self.refusals[refusal if known else _FURTHER] += 1

    def close(
        self,
        now: float,
        done: RoundDone,
        expected: frozenset[PartyId],
        spent: Mapping[PartyId, float | None] | None = None,
    ) -> records.RoundRecord:
        """Return the record of the round, which ends at ``now`` seconds on the server's clock.

        ``expected`` are the parties that should have taken part; ``spent`` is each party's epsilon so far,
        None without privacy.
        """
        notes, tally = self.notes, Counter(self.notes.tally)
        notes.now = now
        notes.enter_step("")
        counted = {party for seen in self.sums for party in seen.counted}
        if not self.sums and done.opened:
            # They opened at an earlier server, killed while testing the model, and are unknown here.
            counted = set(done.survivors)
        few = "too few of its members were left at the freeze"
        lost = {key: notes.lost.get(key, notes.closed.get(key[0], few)) for key in done.lost}
        out = [records.LeftOut(p, self._why(p, lost)) for p in done.participants if p not in counted]
        absent = sorted(expected - set(done.participants))
        out += [records.LeftOut(party, self._why_not_drawn(party)) for party in absent]
        return records.RoundRecord(
            round=done.round,
            accuracy=done.accuracy,
            loss=done.loss,
            backdoor_success=done.backdoor_success,
            update_norm=notes.norm,
            participants=done.participants,
            counted=tuple(sorted(counted)),
            left_out=tuple(out),
            sums=tuple(self.sums),
            kept=done.kept,
            rejected=done.rejected,
            lost=lost,
            failed=dict(notes.failed),
            redraws=tally.pop("redraws", 0),
            retries=tally.pop("retries", 0),
            seconds={**notes.seconds, "total": max(0.0, now - self.started)},
            traffic=self.traffic,
            refusals=dict(self.refusals),
            epsilon=spent,
            suspects=done.suspects,
            metrics=done.metrics,
            doubted_metrics=done.doubted,
            projections=tally.pop("projections", 0),
            measured=tally.pop("measured", 0),
            weighing=weighing(notes.declared, set().union(*notes.members.values()), notes.cap),
            joined=dict(notes.joined),
            tally=dict(tally),
        )

    def _why_not_drawn(self, party: PartyId) -> str:
        if party in self.notes.resting:
            return records.RESTING
        return records.WITHHELD if party in self.notes.withheld else records.NOT_THERE

    def _why(self, party: PartyId, lost: dict[ClusterKey, str]) -> str:
        if party in self.notes.oversized:
            return records.OVERSIZED
        if party in self.notes.excluded:
            return "left out when its sum started over"
        mine = {key: reason for key, reason in lost.items() if party in self.notes.members.get(key, ())}
        # A sum that the ledger keeps closed includes all members, dropouts too.
        reasons = [reason for key, reason in mine.items() if key[0] not in self.notes.closed]
        if party in self.notes.frozen and mine and not reasons:
            return f"all its sums were {next(iter(mine.values()))}"
        if reasons:
            return f"its sum was lost: {reasons[0]}"
        if party in self.notes.frozen:
            return "its sum was not opened"
        refused = [refusal.reason for refusal in self.refusals if refusal.culprit == party]
        # No party received a request, or not from this server.
        skipped = f"the round was skipped: {self.notes.skipped}" if self.notes.skipped else ""
        return f"refused: {refused[0]}" if refused else skipped or "silent before its masked input"
