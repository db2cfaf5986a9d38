"""Records of rounds, and rows of ``metrics.jsonl``."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Final, Literal, NamedTuple

from securefl.base.ids import PartyId
from securefl.methods.metrics import Doubted, Measured, gain_of, is_better, why_unused
from securefl.protocol.round import ClusterKey, SumSeen, Suspect
from securefl.runtime import transcript
from securefl.runtime.report.weighing import Weighing
from securefl.scenario import Scenario

Direction = Literal["up", "down"]
"""From the party to the broker, or back."""


WITHHELD: Final = "withheld its nonce"
NOT_THERE: Final = "did not turn up"
RESTING: Final = "not drawn for this round"
OVERSIZED: Final = "its update was refused as too long"
ABSENCES: Final = frozenset({WITHHELD, NOT_THERE, RESTING})


class Volume(NamedTuple):
    """MQTT messages (one per frame) and their bytes."""

    messages: int = 0
    size: int = 0

    def plus(self, messages: int, size: int) -> Volume:
        """Return the volume with these messages added."""
        return Volume(self.messages + messages, self.size + size)


class RefusedMessage(NamedTuple):
    """Rejected message. The reason is the rejecting process's; the culprit may be forged."""

    by: str
    culprit: str
    reason: str


class LeftOut(NamedTuple):
    """Party in no opened sum of a round; the reason is as far as the server knows."""

    party: PartyId
    reason: str


def heard_in(sums: Sequence[SumSeen]) -> int:
    """Return the number of parties whose updates are in any of all of a round's sums.

    With hidden groups, a party is in one group's sum at most: the slots' counts add up.
    """
    inside = [seen.inside for seen in sums if seen.inside is not None]
    return sum(inside) if inside else len({party for seen in sums for party in seen.counted})


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundRecord:
    """Record of one round that ended: participants, sums, exclusions, metrics and times.

    >>> import securefl
    >>> record = securefl.simulate("quickstart", rounds=1).rounds[0]
    >>> record.round, len(record.participants), len(record.sums)
    (0, 12, 4)
    """

    round: int
    accuracy: float | None
    """Accuracy on the test set, 0 to 1; None if the server has none."""
    loss: float | None
    """Mean cross-entropy in nats; infinite for a destroyed model, None without a test set."""
    backdoor_success: float | None = None
    """Share of patched test samples that get the backdoor's class, 0 to 1; None without a backdoor."""
    update_norm: float | None
    """L2 norm of the aggregated update; None if no sum was usable."""
    participants: tuple[PartyId, ...]
    counted: tuple[PartyId, ...]
    """Parties in at least one opened sum."""
    left_out: tuple[LeftOut, ...]
    """Participants that are not counted, and absent parties."""
    sums: tuple[SumSeen, ...]
    kept: tuple[ClusterKey, ...]
    rejected: tuple[ClusterKey, ...]
    """Clusters whose mean the rule excluded."""
    lost: Mapping[ClusterKey, str]
    """Reasons of planned sums that were not opened."""
    failed: Mapping[ClusterKey, str] = field(default_factory=dict)
    """Reasons of opened sums that the checks excluded."""
    redraws: int
    retries: int
    seconds: Mapping[str, float]
    """Seconds per step; ``total`` is the whole round."""
    traffic: Mapping[str, Mapping[Direction, Volume]]
    """Volume per party since the previous round ended."""
    refusals: Mapping[RefusedMessage, int]
    """Count of each rejection since the previous round ended."""
    epsilon: Mapping[PartyId, float | None] | None = None
    """Upper bound of each party's epsilon so far; None for a party without a guarantee, and without
    privacy.
    """
    suspects: tuple[Suspect, ...] = ()
    """Evidence of the checks up to this round."""
    metrics: tuple[Measured, ...] = ()
    """Metrics by sites of the round's initial model."""
    doubted_metrics: tuple[Doubted, ...] = ()
    """Sums with impossible metrics."""
    projections: int = 0
    """Projections of single updates that validation would reveal to dealer and one evaluator together."""
    measured: int = 0
    """Updates about each of which a deviating evaluator can learn one bit of its choice."""
    weighing: Weighing | None = None
    """Weights of declared counts; None if all weights are equal."""
    failures: Mapping[PartyId, str] | None = None
    """Reasons of failed trainings, by counted party; None if unknown to this process. Rows have names
    only.
    """
    beyond_range: Mapping[PartyId, int] | None = None
    """Coordinates beyond ``encoding.range``, by counted honest party; None if unknown to this process."""
    claims: Mapping[int, str] = field(default_factory=dict)
    """Verdicts of verifiers since the previous row, by round: the reason of a void step, or empty."""
    joined: Mapping[PartyId, int | None] = field(default_factory=dict)
    """Parties that joined late in this round, with the first round of their absence; None if they were
    missing when the server started.
    """
    tally: Mapping[str, int] = field(default_factory=dict)
    """Sums of other numbers in the round's reports, by name."""

    @property
    def survivor_count(self) -> int:
        """Parties whose updates were opened: fewer than :attr:`counted` with hidden groups."""
        return heard_in(self.sums)

    @property
    def is_untrained(self) -> bool:
        """True if the training of every counted party is known to have failed."""
        return bool(self.counted) and self.failures is not None and not set(self.counted) - set(self.failures)

    @property
    def is_unchanged(self) -> bool:
        """True if the round's step left the model unchanged."""
        return self.update_norm == 0

    @property
    def drawn(self) -> bool:
        """True if clusters were drawn: the participants' updates count as released."""
        return bool(self.counted or self.lost)

    @classmethod
    def from_row(cls, row: Mapping[str, Any]) -> RoundRecord:
        """Return the record of a row that :meth:`row` made.

        A row has the counted members of sums only; the record uses those for both.

        Raises:
            KeyError, TypeError, ValueError, AttributeError: not such a row.
        """
        clusters = row["clusters"]
        out = tuple(LeftOut(PartyId(each["party"]), each["reason"]) for each in row["left_out"])
        counted = tuple(PartyId(name) for name in row["survivors"])
        there = {*counted, *(each.party for each in out if each.reason not in ABSENCES)}
        if len(there) != row["participants"]:
            raise ValueError("has another number of participants than it lists")
        sums = []
        for seen in clusters["opened"]:
            members = tuple(PartyId(name) for name in seen["survivors"])
            at = seen["reclustering"], seen["cluster"]
            sums.append(SumSeen(*at, members, members, seen.get("inside")))
        return cls(
            round=row["round"],
            accuracy=row["accuracy"],
            loss=math.inf if row["loss"] is None and row["accuracy"] is not None else row["loss"],
            backdoor_success=row.get("backdoor_success"),
            update_norm=row["update_norm"],
            participants=tuple(sorted(there)),
            counted=counted,
            left_out=out,
            sums=tuple(sums),
            kept=tuple((r, j) for r, j in clusters["kept"]),
            rejected=tuple((r, j) for r, j in clusters["rejected"]),
            lost=_reasons(clusters["lost"]),
            failed=_reasons(clusters.get("failed", ())),
            redraws=row["redraws"],
            retries=row["retries"],
            seconds=dict(row["seconds"]),
            traffic={
                party: {way: Volume(v["messages"], v["bytes"]) for way, v in volumes.items()}
                for party, volumes in row["traffic"].items()
            },
            refusals={
                RefusedMessage(each["by"], each["culprit"], each["reason"]): each["count"]
                for each in row["refusals"]
            },
            epsilon=None
            if row.get("epsilon") is None
            else {PartyId(party): spent for party, spent in row["epsilon"].items()},
            suspects=tuple(
                Suspect(tuple(map(PartyId, each["parties"])), each["highest"], each["now"])
                for each in row.get("evidence", ())
            ),
            metrics=tuple(Measured(name, **one) for name, one in row.get("metrics", {}).items()),
            doubted_metrics=tuple(Doubted(**one) for one in row.get("doubted_metrics", ())),
            projections=row.get("projections", 0),
            measured=row.get("measured", 0),
            weighing=Weighing.from_json(row["weights"]) if "weights" in row else None,
            failures={PartyId(party): "" for party in row["failed_trainings"]}
            if "failed_trainings" in row
            else None,
            beyond_range={PartyId(party): many for party, many in row["beyond_range"].items()}
            if "beyond_range" in row
            else None,
            claims={one["round"]: one["reason"] for one in row.get("claims", ())},
            joined={PartyId(party): since for party, since in row.get("joined", {}).items()},
            tally=dict(row.get("tally", {})),
        )

    def row(self) -> dict[str, transcript.JsonValue]:
        """Return the row of ``metrics.jsonl``; numbers that are not finite are null."""
        return {
            "round": self.round,
            "accuracy": finite(self.accuracy),
            "loss": finite(self.loss),
            **({} if self.backdoor_success is None else {"backdoor_success": self.backdoor_success}),
            "update_norm": finite(self.update_norm),
            "participants": len(self.participants),
            "counted": self.survivor_count,
            "survivors": list(self.counted),
            "left_out": [{"party": out.party, "reason": out.reason} for out in self.left_out],
            "clusters": {
                "opened": [
                    {
                        "reclustering": s.reclustering,
                        "cluster": s.cluster,
                        "survivors": list(s.counted),
                        **({} if s.inside is None else {"inside": s.inside}),
                    }
                    for s in self.sums
                ],
                "kept": [list(key) for key in self.kept],
                "rejected": [list(key) for key in self.rejected],
                "lost": _reason_rows(self.lost),
                **({"failed": _reason_rows(self.failed)} if self.failed else {}),
            },
            "redraws": self.redraws,
            "retries": self.retries,
            "seconds": {step: round(spent, 6) for step, spent in self.seconds.items()},
            "traffic": {
                party: {
                    direction: {"messages": volume.messages, "bytes": volume.size}
                    for direction, volume in sorted(volumes.items())
                }
                for party, volumes in sorted(self.traffic.items())
            },
            "refusals": [{**refusal._asdict(), "count": count} for refusal, count in self.refusals.items()],
            **({} if self.epsilon is None else {"epsilon": {p: finite(e) for p, e in self.epsilon.items()}}),
            **({"evidence": listed_evidence(self.suspects)} if self.suspects else {}),
            **({"metrics": metric_rows(self.metrics)} if self.metrics else {}),
            **(
                {"doubted_metrics": [asdict(one) for one in self.doubted_metrics]}
                if self.doubted_metrics
                else {}
            ),
            **({"projections": self.projections} if self.projections else {}),
            **({"measured": self.measured} if self.measured else {}),
            **({} if self.weighing is None else {"weights": self.weighing.to_json()}),
            **({} if self.failures is None else {"failed_trainings": sorted(self.failures)}),
            **(
                {} if self.beyond_range is None else {"beyond_range": dict(sorted(self.beyond_range.items()))}
            ),
            **(
                {"claims": [{"round": r, "reason": w} for r, w in self.claims.items()]} if self.claims else {}
            ),
            **(
                {"joined": {str(party): since for party, since in self.joined.items()}} if self.joined else {}
            ),
            **({"tally": {**self.tally}} if self.tally else {}),
        }


def best_evaluated(records: Sequence[RoundRecord], scenario: Scenario) -> RoundRecord | None:
    """Return the round whose received model is best by ``stop.metric``, as the server selects it.

    None if there is no such metric, or every value has too much noise.
    """
    best: tuple[float, RoundRecord] | None = None
    gain = gain_of(scenario)
    for record in records:
        one = _chosen_by(record, scenario)
        if one is None or why_unused(scenario, one):
            continue
        if is_better(one, None if best is None else best[0], gain):
            best = one.value, record
    return None if best is None else best[1]


def unused_rounds(records: Sequence[RoundRecord], scenario: Scenario) -> dict[int, str]:
    """Return the reason why ``stop.metric`` had too much noise, by round."""
    opened = ((record.round, _chosen_by(record, scenario)) for record in records if record.sums)
    found = {round_: why_unused(scenario, one) for round_, one in opened}
    return {round_: reason for round_, reason in found.items() if reason}


def _chosen_by(record: RoundRecord, scenario: Scenario) -> Measured | None:
    return next((one for one in record.metrics if one.name == scenario.stop.metric), None)


def metric_rows(metrics: Sequence[Measured]) -> dict[str, transcript.JsonValue]:
    """Return metrics by name."""
    rows = {one.name: asdict(one) for one in metrics}
    for row in rows.values():
        del row["name"]
    return {**rows}


def listed_evidence(suspects: Sequence[Suspect]) -> list[transcript.JsonValue]:
    """Return evidence in decimal digits."""
    return [
        {"parties": list(one.parties), "highest": round(one.highest, 4), "now": round(one.now, 4)}
        for one in suspects
    ]


def _reason_rows(reasons: Mapping[ClusterKey, str]) -> list[transcript.JsonValue]:
    return [{"reclustering": r, "cluster": j, "reason": reason} for (r, j), reason in sorted(reasons.items())]


def _reasons(listed: Sequence[Mapping[str, Any]]) -> dict[ClusterKey, str]:
    return {(each["reclustering"], each["cluster"]): each["reason"] for each in listed}


def finite(value: float | None) -> float | None:
    """Return the number, or None if JSON has none."""
    return value if value is not None and math.isfinite(value) else None


def without_infinities(value: transcript.JsonValue) -> transcript.JsonValue:
    """Return the value with None for not finite numbers."""
    match value:
        case float():
            return finite(value)
        case Mapping():
            return {key: without_infinities(item) for key, item in value.items()}
        case list() | tuple():
            return [without_infinities(item) for item in value]
        case _:
            return value
