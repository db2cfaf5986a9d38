"""Inputs for recomputing the server's arithmetic."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from securefl.base.arrays import F32, I64, Ring
from securefl.base.ids import EVERYONE, SERVER, PartyId
from securefl.lab.audit import sampled
from securefl.lab.audit.finding import Evidence
from securefl.lab.audit.recorded import Recorded
from securefl.lab.audit.truth import GroundTruth
from securefl.methods import clustering
from securefl.protocol.round import NO_VALUES, ClusterKey, ClusterSum, SlotsCounted, StartValues, slot_totals

Key = tuple[int, int]
Counts = Mapping[PartyId, int]
_NOWHERE: I64 = np.empty(0, dtype=np.int64)


@dataclass(frozen=True, slots=True)
class AnnouncedModel:
    """Announced or final model."""

    values: F32 = field(repr=False)
    """f32 ``(d,)``, or the sampled coordinates."""
    digest: str
    """Hex digest of the whole model's dtype, shape and bytes."""
    evidence: Evidence


@dataclass(frozen=True, slots=True)
class ReplayRound:
    """Completed round and inputs of its step."""

    round: int
    before: AnnouncedModel
    after: AnnouncedModel
    announced: str
    """Hex digest of ``before`` that parties sign."""
    clusters: tuple[tuple[tuple[PartyId, ...], ...], ...]
    resting: tuple[PartyId, ...]
    seed: bytes
    atom_seed: bytes
    counts: Counts
    """By present party, as declared."""
    sums: tuple[ClusterSum, ...] = field(repr=False)
    excluded: frozenset[Key]
    kept: tuple[Key, ...]
    rejected: tuple[Key, ...]
    norm: float | None
    drawn: Evidence
    stepped: Evidence
    tasks: tuple[int, ...] = ()
    """By cluster, if parties state theirs."""
    groups: Mapping[PartyId, int] = field(default_factory=dict)
    """By present party, if stated."""
    confirmed: bool = True
    """True if the next step continues from this one: verifiers confirmed it."""
    totals: Mapping[ClusterKey, int] | None = None
    """Members of slots that may be opened; None without hidden groups."""
    values: StartValues = field(default_factory=lambda: NO_VALUES)

    @property
    def participants(self) -> frozenset[PartyId]:
        """Present and drawn parties."""
        return frozenset(self.counts.keys() - set(self.resting))


class Vectors:
    """Recorded models and sums: all whole, or all at the same coordinates. ``truth`` has whole vectors."""

    def __init__(self, recorded: Recorded, truth: GroundTruth | None) -> None:
        self._run, self._truth = recorded.run, truth
        records = [*_records(recorded)]
        self._whole = bool(records) and all(map(self._is_whole, records))
        shortest = min((record["length"] for record in records), default=0)
        self.places: I64 = sampled.common_places(records, self._run, shortest) if records else _NOWHERE
        """Coordinates that all models and sums have."""

    def of(self, record: sampled.VectorRecord) -> npt.NDArray[Any]:
        """Return the vector of a record in its own dtype: whole, or at :attr:`places`."""
        kept = None if self._truth is None else self._truth.vector(record["digest"])
        if not self._whole:
            return sampled.values_at(record, self._run, self.places) if kept is None else kept[self.places]
        return (
            sampled.values_at(record, self._run, sampled.places_of(record, self._run))
            if kept is None
            else kept
        )

    def whole(self) -> bool:
        """Return True if all models and sums are whole."""
        return self._whole

    def _is_whole(self, record: sampled.VectorRecord) -> bool:
        kept = self._truth is not None and self._truth.has(record["digest"])
        return kept or len(record["samples"]) == record["length"]


def replay_rounds(recorded: Recorded, vectors: Vectors) -> Iterator[ReplayRound]:
    """Yield the rounds that can be recomputed, in order.

    Rounds without clusters and the last round of an interrupted run are left out.
    """
    models = _models(recorded, vectors)
    drawn = {_round(e.fields): (e.fields, at) for e, at in recorded.of(SERVER, "clusters_drawn")}
    stepped = {_round(e.fields): (e.fields, at) for e, at in recorded.of(SERVER, "model_stepped")}
    started = {
        _round(e.fields): str(e.fields["model_digest"]) for e, _ in recorded.of(SERVER, "round_started")
    }
    sums: dict[int, list[ClusterSum]] = {}
    for entry, _ in recorded.of(SERVER, "sum_opened"):
        sums.setdefault(_round(entry.fields), []).append(_sum(cast("Any", entry.fields["opened"]), vectors))
    failed: dict[int, set[Key]] = {}
    for entry, _ in recorded.of(SERVER, "sum_checked"):
        fields: Any = entry.fields
        if not fields["ok"]:
            failed.setdefault(_round(fields), set()).add((fields["reclustering"], fields["cluster"]))
    values = values_of(recorded)
    totals = _totals(recorded)
    refused = {_round(entry.fields) for entry, _ in recorded.of(SERVER, "claim_refused")}
    # A killed server's open rounds included: its next start skips them.
    skipped = {_round(entry.fields) for entry, _ in recorded.of(SERVER, "round_skipped")}
    for round_, (given, at) in sorted(drawn.items()):
        draw: Any = given
        if round_ not in stepped or round_ not in models or round_ + 1 not in models or not draw.get("seed"):
            continue
        reported, where = cast("tuple[Any, Evidence]", stepped[round_])
        # The model stays if the step is void or the result was not confirmed.
        stays = reported["update_norm"] is None or models[round_ + 1].digest == models[round_].digest
        void = round_ in refused | skipped and stays
        yield ReplayRound(
            round=round_,
            before=models[round_],
            after=models[round_ + 1],
            announced=started[round_],
            clusters=tuple(tuple(tuple(map(PartyId, m)) for m in row) for row in draw["clusters"]),
            resting=tuple(map(PartyId, draw["resting"])),
            seed=bytes.fromhex(draw["seed"]),
            atom_seed=bytes.fromhex(draw.get("atom_seed", "")),
            counts={PartyId(party): int(count) for party, count in draw["counts"]},
            sums=() if void else tuple(sorted(sums.get(round_, []), key=lambda one: one.key)),
            excluded=frozenset(failed.get(round_, ())),
            kept=() if void else tuple((r, j) for r, j in reported["kept"]),
            rejected=() if void else tuple((r, j) for r, j in reported["rejected"]),
            norm=reported["update_norm"],
            tasks=tuple(draw.get("tasks", ())),
            groups={PartyId(party): group for party, group in draw.get("groups", ())},
            confirmed=round_ not in refused,
            totals=totals.get(round_, {}) if clustering.hides_groups(recorded.scenario.groups) else None,
            drawn=at,
            stepped=where,
            values=values.get(round_, NO_VALUES),
        )


def _models(recorded: Recorded, vectors: Vectors) -> dict[int, AnnouncedModel]:
    """Return the most frequent model by round; the final model as the next round's."""
    versions: dict[int, Counter[str]] = defaultdict(Counter)
    where: dict[tuple[int, str], tuple[Any, Evidence]] = {}
    for entry, at in recorded.messages(SERVER, "sent", "ModelAnnounce"):
        record, place = cast("Any", entry.fields.get("params")), cast("Any", entry.fields["place"])
        if record is not None:
            to_all = entry.fields["to"] == EVERYONE
            versions[place[0]][record["digest"]] += len(recorded.parties) if to_all else 1
            where.setdefault((place[0], record["digest"]), (record, at))
    found: dict[int, AnnouncedModel] = {}
    for round_, counts in versions.items():
        ((digest, _),) = counts.most_common(1)
        record, at = where[round_, digest]
        found[round_] = AnnouncedModel(vectors.of(record), digest, at)
    for entry, at in recorded.of(SERVER, "model_final"):
        record = cast("Any", entry.fields["params"])
        found[_round(entry.fields) + 1] = AnnouncedModel(vectors.of(record), record["digest"], at)
    return found


def values_of(recorded: Recorded) -> Mapping[int, StartValues]:
    """Return the announced values by round, also of the round after the last."""
    moved = [cast("Any", entry.fields) for entry, _ in recorded.of(SERVER, "values_moved")]
    return {one["round"] + 1: one["following"] for one in moved} | {
        one["round"]: one["values"] for one in moved
    }


def _totals(recorded: Recorded) -> dict[int, dict[ClusterKey, int]]:
    found: dict[int, dict[ClusterKey, int]] = defaultdict(dict)
    for entry, _ in recorded.of(SERVER, "slots_counted"):
        fields: Any = entry.fields
        counted = SlotsCounted(
            fields["round"], fields["cluster"], tuple(fields["counts"]), tuple(fields["slots"])
        )
        found[counted.round].update(slot_totals((counted,)))
    return found


def _sum(opened: Mapping[str, Any], vectors: Vectors) -> ClusterSum:
    return ClusterSum(
        reclustering=opened["reclustering"],
        cluster=opened["cluster"],
        members=tuple(map(PartyId, opened["members"])),
        survivors=tuple(map(PartyId, opened["survivors"])),
        ring=cast("Ring", vectors.of(opened["ring"])),
    )


def _records(recorded: Recorded) -> Iterator[sampled.VectorRecord]:
    for entry, _ in recorded.messages(SERVER, "sent", "ModelAnnounce"):
        if "params" in entry.fields:
            yield cast("Any", entry.fields["params"])
    for entry, _ in recorded.of(SERVER, "model_final"):
        yield cast("Any", entry.fields["params"])
    yield from sampled.sum_records(recorded)


def _round(fields: Mapping[str, Any]) -> int:
    return int(fields["round"])
