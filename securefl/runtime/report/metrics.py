"""Metrics of a run, collected from reports."""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from itertools import takewhile

from securefl.base.errors import ConfigError, RunAbortedError
from securefl.base.ids import PartyId
from securefl.methods import attacks, metrics
from securefl.protocol.round import (
    AnyReport,
    ClaimConfirmed,
    ClaimRefused,
    ClustersDrawn,
    PartiesJoined,
    RoundDone,
    RoundStarted,
    RunPlan,
)
from securefl.runtime import transcript
from securefl.runtime.report import checks, privacy
from securefl.runtime.report.draft import RoundDraft
from securefl.runtime.report.outcome import Outcome, RunEnd
from securefl.runtime.report.records import (
    OVERSIZED,
    Direction,
    RefusedMessage,
    RoundRecord,
    Volume,
    best_evaluated,
)
from securefl.scenario import Behaviour, Scenario


class RunMetrics:
    """Collector of the server's reports, and of all rejections and traffic, by round.

    Args:
        scenario: determines the expected parties of a round.
        write: receives a row for each round that ends.
        dishonest: vantage points with behaviours; their rejections are not counted.
        earlier: rounds before a resume.
        parties: names on the roster; a launcher's names when None.
        reread: returns the records of all written rows, so that none stays in memory.
    """

    def __init__(
        self,
        scenario: Scenario,
        write: Callable[[Mapping[str, transcript.JsonValue]], None] | None = None,
        dishonest: Collection[str] = (),
        earlier: Iterable[RoundRecord] = (),
        parties: Collection[PartyId] | None = None,
        reread: Callable[[], Iterable[RoundRecord]] | None = None,
    ) -> None:
        self._write = write
        self.on_round: Callable[[RoundRecord], None] | None = None
        self._reread = reread
        self._failures: Callable[[int], Mapping[PartyId, str]] | None = None
        self._beyond: Callable[[int], Mapping[PartyId, int]] | None = None
        self.columns: Callable[[], Mapping[str, Mapping[str, int]]] = dict
        """Counts of values outside the ranges of columns, if known."""
        self.stopping: RoundRecord | None = None
        """First round in which every training failed, or an honest update was cut, if known."""
        self._scenario = scenario
        self._dishonest = frozenset(dishonest)
        sampled = scenario.participation.count is not None or scenario.participation.fraction is not None
        names = attacks.party_names(scenario.parties) if parties is None else parties
        self._expected: frozenset[PartyId] = frozenset() if sampled else frozenset(names)
        self._draft: RoundDraft | None = None
        self._end = RunEnd()
        self._records: list[RoundRecord] = []
        if reread is None:
            earlier = self._records = list(earlier)
        self._counted = -1
        self._accounts: privacy.Accounts | None = None
        self._watch: checks.CheckWatch | None = None
        self.claims: dict[int, str] = {}
        """Reasons of void steps by round; empty if verifiers confirmed the step."""
        self._heard: dict[int, str] = {}
        self._before = -1
        for record in earlier:
            self._before = max(self._before, record.round)
            self.claims.update(record.claims)
        self.missing: tuple[PartyId, ...] = ()

    def account_for(self, accounts: privacy.Accounts) -> None:
        """Start accounting for privacy, before the first report; count earlier rounds."""
        self._accounts = accounts
        for record in self._each_record():
            if record.drawn:
                accounts.count(record.participants)

    def know_failures(self, failures: Callable[[int], Mapping[PartyId, str]]) -> None:
        """Count failed trainings, whose reasons by party ``failures`` returns."""
        self._failures = failures

    def know_saturation(self, beyond: Callable[[int], Mapping[PartyId, int]]) -> None:
        """Count coordinates beyond the encoding's range, by party."""
        self._beyond = beyond

    def know_columns(self, columns: Callable[[], Mapping[str, Mapping[str, int]]]) -> None:
        """Count values outside the ranges of columns, which ``columns`` returns.

        Keys by column are ``below``, ``above``, ``infinite`` and ``missing``.
        """
        self.columns = columns

    def is_honest(self, name: str) -> bool:
        """Return True if ``name`` has no behaviour in the scenario."""
        return name not in self._dishonest

    def watch(self, plan: RunPlan, behaviours: Mapping[PartyId, Sequence[Behaviour]]) -> None:
        """Set the deviating parties for the tally of the checks."""
        if plan.scenario.checks.kind != "none":
            self._watch = checks.CheckWatch(plan, behaviours)

    def check_results(self) -> checks.Checked | None:
        """Return the results of the checks, if any."""
        return None if self._watch is None else self._watch.check_results(self.records)

    def account(self) -> privacy.Account | None:
        """Return the account of privacy spent, if any."""
        return None if self._accounts is None else self._accounts.total()

    @property
    def records(self) -> tuple[RoundRecord, ...]:
        """Rounds that ended, in order."""
        return tuple(self._each_record())

    def _each_record(self) -> Iterator[RoundRecord]:
        yield from () if self._reread is None else self._reread()
        yield from self._records

    def on_report(self, now: float, report: AnyReport) -> None:
        """Handle a report of the server's machine, at ``now`` seconds on its clock.

        Raises:
            RunAbortedError: the row of the round cannot be written.
        """
        draft = self._open(now)
        draft.started = draft.started or now
        match report:
            case PartiesJoined(missing=missing):
                self.missing = missing
            case ClaimConfirmed(round=claimed):
                self._claim(claimed, "")
            case ClaimRefused(round=claimed, reason=reason):
                self._claim(claimed, reason)
            case RoundStarted():
                draft.started = now
            case ClustersDrawn(round=drawn, clusters=clusters) if self._accounts is not None:
                self._counted = drawn
                self._accounts.count({party for members in clusters[0] for party in members})
                draft.take(now, report)
            case RoundDone():
                self._close(now, report, draft)
            case _:
                draft.take(now, report)

    def _claim(self, claimed: int, reason: str) -> None:
        if self.claims.get(claimed) != reason:
            self.claims[claimed] = self._heard[claimed] = reason

    def was_done(self, round_: int) -> bool:
        """Return True if an earlier server ended this round; a resumed one tests its model again."""
        return round_ <= self._before

    def _close(self, now: float, done: RoundDone, draft: RoundDraft) -> None:
        self._draft = None
        if self.was_done(done.round):
            return
        if self._accounts is not None and (done.lost or done.opened) and done.round != self._counted:
            # An earlier server drew it, and opened its sums, if any.
            self._accounts.count(done.participants)
        spent = None if self._accounts is None else self._accounts.epsilons()
        record = replace(draft.close(now, done, self._expected, spent), claims=self._heard)
        if self._failures is not None:
            failed = self._failures(done.round)
            known = {name: failed[name] for name in record.counted if name in failed}
            record = replace(record, failures=known)
        if self._beyond is not None:
            found = self._beyond(done.round)
            honest = filter(self.is_honest, record.counted)
            record = replace(record, beyond_range={name: found[name] for name in honest if found.get(name)})
        if self.stopping is None and (record.is_untrained or record.beyond_range):
            self.stopping = record
        self._heard = {}
        self._records.append(record)
        if self._write is not None:
            self._write(self._records[-1].row())
            if self._reread is not None:
                self._records.clear()
        if self.on_round is not None:
            self.on_round(record)

    def on_reject(self, vantage: str, culprit: str, reason: str) -> None:
        """Record that ``vantage`` rejected a message of ``culprit``."""
        self._open(0.0).refuse(RefusedMessage(vantage, culprit, reason))

    def on_traffic(self, party: str, direction: Direction, frames: int, size: int) -> None:
        """Record MQTT messages of ``size`` bytes in total from (up) or to (down) a party."""
        self._open(0.0).carry(party, direction, frames, size)

    def on_end(self, end: RunEnd) -> None:
        """Record the end of the run.

        Raises:
            RunAbortedError: the written rows cannot be read again.
        """
        self._end = end
        if self._reread is None:
            return
        try:
            self._records[:0] = self._reread()
        except ConfigError as error:
            raise RunAbortedError(str(error)) from error
        self._reread = None

    def refusals(self) -> dict[RefusedMessage, int]:
        """Return all rejections, an unfinished round's included, most frequent first."""
        total: Counter[RefusedMessage] = Counter()
        for record in self.records:
            total.update(record.refusals)
        if self._draft is not None:
            total.update(self._draft.refusals)
        return dict(total.most_common())

    def traffic(self) -> dict[str, dict[Direction, Volume]]:
        """Return the run's traffic per party."""
        total: dict[str, dict[Direction, Volume]] = {}
        rounds = [record.traffic for record in self.records]
        for traffic in [*rounds, self._draft.traffic] if self._draft is not None else rounds:
            for party, volumes in traffic.items():
                for direction, volume in volumes.items():
                    mine = total.setdefault(party, {})
                    mine[direction] = mine.get(direction, Volume()).plus(*volume)
        return total

    def outcome(self) -> Outcome:
        """Return the metrics of ``[[expect]]`` so far."""
        records = self.records
        stepped = [record for record in records if record.update_norm is not None]
        unfinished = len(self._draft.sums) if self._draft is not None else 0
        refused = {r: n for r, n in self.refusals().items() if r.by not in self._dishonest}
        checked, evaluated = self.check_results(), self._evaluation()
        return Outcome(
            accuracy=records[-1].accuracy if records else None,
            backdoor_success=records[-1].backdoor_success if records else None,
            rounds=len(stepped),
            survivors=min((len(record.counted) for record in stepped), default=None),
            clusters_lost=sum(len(record.lost) for record in records),
            opened_sums=sum(len(record.sums) for record in records) + unfinished,
            refusals=sum(refused.values()),
            **asdict(self._end),
            failures=_total(record.failures for record in records),
            beyond=_total(record.beyond_range for record in records),
            unchanged=sum(record.is_unchanged for record in records),
            evaluation={one.name: one.value for one in evaluated},
            deviations={one.name: one.deviation for one in evaluated if one.deviation},
            epsilon=None if self._accounts is None else self._accounts.total().epsilon,
            checks_failed=None if checked is None else checked.failed,
            skippers_failed=None if checked is None else checked.silent_failed,
            false_alarms=None if checked is None else checked.false_alarms,
            updates_refused=sum(out.reason == OVERSIZED for record in records for out in record.left_out),
            verified_rounds=list(self.claims.values()).count("") if self.claims else None,
            dishonest_counted=sum(len(self._dishonest.intersection(r.counted)) for r in records),
            rounds_without_update=len(list(takewhile(self._gave_nothing, reversed(records)))),
        )

    def _gave_nothing(self, record: RoundRecord) -> bool:
        # Excluding a possible step is the purpose of the checks.
        void = record.update_norm is None and not record.failed
        return void or bool(self.claims.get(record.round))

    def _evaluation(self) -> Sequence[metrics.Measured]:
        evaluated = [record for record in self.records if record.metrics]
        if not evaluated:
            return ()
        record = best_evaluated(evaluated, self._scenario) or evaluated[-1]
        return record.metrics

    def _open(self, now: float) -> RoundDraft:
        """Return the current round; data between two rounds count for the next."""
        if self._draft is None:
            self._draft = RoundDraft(started=now)
        return self._draft


def _total(by_party: Iterable[Mapping[PartyId, object] | None]) -> int | None:
    known = [len(found) for found in by_party if found is not None]
    return sum(known) if known else None
