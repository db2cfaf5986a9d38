"""Summary of a run."""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from securefl.base import entropy, version
from securefl.base.ids import PartyId
from securefl.methods import clustering, leakage
from securefl.protocol.round import CLOSED, on_metrics
from securefl.runtime import transcript
from securefl.runtime.report.checks import Checked
from securefl.runtime.report.expect import Judgement, exit_code, in_words, judge
from securefl.runtime.report.metrics import RunMetrics
from securefl.runtime.report.outcome import Outcome
from securefl.runtime.report.privacy import Account
from securefl.runtime.report.records import (
    RefusedMessage,
    RoundRecord,
    Volume,
    best_evaluated,
    finite,
    metric_rows,
    unused_rounds,
)
from securefl.scenario import Scenario

_MAX_PARTIES: Final = 2000
"""Maximum parties for a search of combinations."""


@dataclass(frozen=True, slots=True)
class ServerView:
    """Sums of a run, as the server sees them without colluding parties."""

    opened: int
    by_size: Mapping[int, int]
    """Opened sums by number of updates, smallest first."""
    exposed: tuple[tuple[int, str], ...]
    """(round, party) of updates that are a sum, or follow from their round's sums."""
    searched: bool
    """True if all linear combinations of a round's sums were searched."""
    closed: int = 0
    """Sums kept closed for a party's limit."""

    @property
    def smallest(self) -> int | None:
        """Parties in the smallest opened sum; None if there is none."""
        return min(self.by_size, default=None)


def server_view(records: Sequence[RoundRecord], *, new_work: bool = False) -> ServerView:
    """Return the leakage of the opened sums of these rounds.

    With ``new_work`` each reclustering sums other updates, and leakage about their common part is not
    searched.
    """
    sizes = Counter(seen.size for record in records for seen in record.sums)
    exposed: list[tuple[int, str]] = []
    searched = True
    for record in records:
        alone = None if new_work else determined_parties([seen.counted for seen in record.sums])
        searched = searched and alone is not None
        if alone is None:
            alone = {party for seen in record.sums if len(seen.counted) == 1 for party in seen.counted}
        exposed += [(record.round, party) for party in sorted(alone)]
    closed = sum(reason.startswith(CLOSED) for record in records for reason in record.lost.values())
    return ServerView(sizes.total(), dict(sorted(sizes.items())), tuple(exposed), searched, closed)


def determined_parties(sums: Sequence[Collection[str]]) -> set[str] | None:
    """Return the parties whose value is a linear combination of these sums; None if too many to search.

    By the ledger modulo a random prime: wrong with a probability below 10^-9.
    """
    distinct = sorted({tuple(sorted(members)) for members in sums if members})
    parties = sorted({party for members in distinct for party in members})
    if sum(map(len, distinct)) == len(parties):
        return {members[0] for members in distinct if len(members) == 1}
    if len(parties) > _MAX_PARTIES:
        return None
    prime = leakage.prime_from(entropy.OsEntropy().draw(32))
    ledger = leakage.LeakageLedger.begin(leakage.UpdateVersion(0), map(PartyId, parties), prime)
    for members in distinct:
        ledger = ledger.open([PartyId(party) for party in members])
    return set(ledger.exposed)


_MAX_REFUSALS: Final = 50

WORSE_THAN_GUESSING: Final = 20.0
"""Mean cross-entropy in nats that no guess reaches."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """All data on an ended run."""

    run: str
    scenario: Scenario
    outcome: Outcome
    judgements: tuple[Judgement, ...]
    rounds: tuple[RoundRecord, ...]
    view: ServerView
    refusals: Mapping[RefusedMessage, int]
    up: Volume
    down: Volume
    insecure: bool
    """True if secrets came from a seed, and so were none."""
    seed: int = 0
    simulated: bool = False
    privacy: Account | None = None
    claims: Mapping[int, str] = field(default_factory=dict)
    checked: Checked | None = None
    columns: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    """In a simulation of statistics: missing and outside values by column."""
    seconds: float
    files: Mapping[str, str]
    ends: Mapping[str, transcript.JsonValue] = field(default_factory=dict)
    """See :func:`securefl.runtime.transcript.ends.ends_in`."""

    @property
    def destroyed(self) -> bool:
        """True if the final model is worse than guessing: 11 nats, uniformly among 2^16 classes."""
        loss = self.rounds[-1].loss if self.rounds else None
        return loss is not None and not loss <= WORSE_THAN_GUESSING

    @property
    def exit_code(self) -> int:
        """0, 1, 3, 4 or 5 (:mod:`securefl.runtime.report.expect`)."""
        return exit_code(self.judgements, self.outcome)

    def to_json(self) -> dict[str, transcript.JsonValue]:
        """Return the content of ``summary.json``; numbers that are not finite are null."""
        outcome = self.outcome
        return {
            "securefl": version.__version__,
            "run": self.run,
            "seed": self.seed,
            "simulated": self.simulated,
            "scenario": self.scenario.name,
            "exit_code": self.exit_code,
            "exit_meaning": in_words(self.exit_code, self.judgements, outcome),
            "aborted": outcome.aborted,
            "reason": outcome.reason,
            "seconds": round(self.seconds, 3),
            "outcome": {
                "accuracy": finite(outcome.accuracy),
                **_backdoor(outcome.backdoor_success),
                "model_destroyed": self.destroyed,
                "rounds": outcome.rounds,
                "fruitless_last_rounds": outcome.rounds_without_update,
                "survivors": outcome.survivors,
                "clusters_lost": outcome.clusters_lost,
                "opened_sums": outcome.opened_sums,
                "refusals": outcome.refusals,
                "unchanged_rounds": outcome.unchanged,
                **({} if outcome.failures is None else {"failed_trainings": outcome.failures}),
                **({} if outcome.beyond is None else {"updates_beyond_range": outcome.beyond}),
                "epsilon": finite(outcome.epsilon),
                **({"evaluation": dict(outcome.evaluation)} if outcome.evaluation else {}),
                **({"deviations": dict(outcome.deviations)} if outcome.deviations else {}),
                **_kept_model(self.scenario, self.rounds, written="best model" in self.files),
            },
            "expectations": [
                {
                    "metric": judgement.metric,
                    "at_least": judgement.at_least,
                    "at_most": judgement.at_most,
                    "measured": finite(judgement.measured),
                    **({"deviation": judgement.deviation} if judgement.deviation else {}),
                    "ok": judgement.ok,
                }
                for judgement in self.judgements
            ],
            "rounds": [
                {
                    "round": record.round,
                    "accuracy": finite(record.accuracy),
                    "loss": finite(record.loss),
                    **_backdoor(record.backdoor_success),
                    "participants": len(record.participants),
                    "counted": record.survivor_count,
                    "survivors": len(record.counted),
                    "left_out": {out.party: out.reason for out in record.left_out},
                    "opened": len(record.sums),
                    "rejected": len(record.rejected),
                    **({"failed": len(record.failed)} if self.checked is not None else {}),
                    "lost": len(record.lost),
                    **({} if record.failures is None else {"failed_trainings": len(record.failures)}),
                    **(
                        {}
                        if record.beyond_range is None
                        else {"updates_beyond_range": len(record.beyond_range)}
                    ),
                    **({"metrics": metric_rows(record.metrics)} if record.metrics else {}),
                    "seconds": round(record.seconds["total"], 3),
                }
                for record in self.rounds
            ],
            "server_view": {
                "opened_sums": self.view.opened,
                "sums_by_size": {str(members): count for members, count in self.view.by_size.items()},
                "smallest_sum": self.view.smallest,
                "single_updates": [{"round": r, "party": party} for r, party in self.view.exposed],
                "combinations_searched": self.view.searched,
                "kept_closed": self.view.closed,
                "differential_privacy": "none" if self.privacy is None else self.privacy.text,
                **({"metrics": one.whole} if (one := next(on_metrics(self.scenario), None)) else {}),
                "insecure_seeded_entropy": self.insecure,
                **_validation_leakage(self.rounds),
            },
            **({} if self.privacy is None else {"privacy": self.privacy.to_json()}),
            **({} if self.checked is None else {"checks": self.checked.to_json()}),
            **({"columns": {name: {**one} for name, one in self.columns.items()}} if self.columns else {}),
            **_verification_counts(self.claims),
            **({"tally": {**tally}} if (tally := _tally(self.rounds)) else {}),
            "refusals": [
                {**refusal._asdict(), "count": count}
                for refusal, count in list(self.refusals.items())[:_MAX_REFUSALS]
            ],
            "traffic": {
                "up": {"messages": self.up.messages, "bytes": self.up.size},
                "down": {"messages": self.down.messages, "bytes": self.down.size},
            },
            "files": dict(self.files),
            **({"transcripts": dict(self.ends)} if self.ends else {}),
        }


def _kept_model(
    scenario: Scenario, rounds: Sequence[RoundRecord], *, written: bool
) -> dict[str, transcript.JsonValue]:
    """Return the kept model of a run with ``stop.metric``, and rounds with too much noise.

    An aborted run has no best model.
    """
    if scenario.stop.metric is None:
        return {}
    best = best_evaluated(rounds, scenario) if written else None
    unused = unused_rounds(rounds, scenario)
    found: dict[str, transcript.JsonValue] = {"which": "last" if best is None else "best"}
    found |= {"round": best.round} if best is not None else {}
    found |= {"unused_rounds": len(unused), "reason": list(unused.values())[-1]} if unused else {}
    return {"model": found}


def _validation_leakage(rounds: Sequence[RoundRecord]) -> dict[str, transcript.JsonValue]:
    projections, bits = (sum(getattr(one, name) for one in rounds) for name in ("projections", "measured"))
    if not bits:
        return {}
    return {"projections_to_dealer_and_evaluator": projections, "bits_to_deviating_evaluators": bits}


def _tally(rounds: Sequence[RoundRecord]) -> Counter[str]:
    total: Counter[str] = Counter()
    for record in rounds:
        total.update(record.tally)
    return total


def _verification_counts(claims: Mapping[int, str]) -> dict[str, transcript.JsonValue]:
    if not claims:
        return {}
    confirmed: list[transcript.JsonValue] = [round_ for round_, reason in claims.items() if not reason]
    void: list[transcript.JsonValue] = [
        {"round": r, "reason": reason} for r, reason in claims.items() if reason
    ]
    return {"verification": {"confirmed": confirmed, "void": void}}


def _backdoor(success: float | None) -> dict[str, transcript.JsonValue]:
    return {} if success is None else {"backdoor_success": success}


def summarise(*, scenario: Scenario, metrics: RunMetrics, **known: Any) -> Summary:
    """Return the summary of an ended run; ``known`` has other fields of :class:`Summary`."""
    outcome = metrics.outcome()
    volumes = metrics.traffic().values()
    up, down = Volume(), Volume()
    for volume in volumes:
        up = up.plus(*volume.get("up", Volume()))
        down = down.plus(*volume.get("down", Volume()))
    return Summary(
        scenario=scenario,
        outcome=outcome,
        judgements=judge(scenario.expect, outcome),
        rounds=metrics.records,
        view=server_view(metrics.records, new_work=clustering.sums_apart(scenario)),
        refusals=metrics.refusals(),
        up=up,
        down=down,
        privacy=metrics.account(),
        checked=metrics.check_results(),
        claims=metrics.claims,
        columns=metrics.columns(),
        **known,
    )
