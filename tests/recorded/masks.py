"""Masked inputs are uniform, unrelated to each other, and to what they hide.

From the 4,096 sampled coordinates that transcripts hold (``securefl/runtime/transcript/samples.py``).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, cast

import numpy as np

from securefl.base.arrays import F64, I64, Ring
from securefl.base.ids import SERVER, PartyId
from securefl.lab.audit import finding, sampled
from securefl.lab.audit.recorded import Recorded
from securefl.lab.audit.truth import GroundTruth
from securefl.methods import clustering, encoding
from securefl.runtime import report
from tests.recorded import uniformity

AUDIT: Final = "masks"
LEVEL: Final = 1e-3
"""Family-wise rate of false alarms of the whole audit, shared equally by its four families."""
_VECTORS: Final = 600
"""Masked inputs that are compared, evenly chosen: all pairs of these are."""
_MEANING: Final = {
    "uniform": "each masked input, bit by bit",
    "pairs": "differences and sums of any two: across members, rounds, reclusterings and attempts",
    "lags": "coordinates of one masked input against later ones",
    "truth": "each masked input against the true updates of its cluster",
}


@dataclass(frozen=True, slots=True)
class _Masked:
    """One masked input as it came in, or went out."""

    party: PartyId
    place: tuple[int, int, int, int]
    record: sampled.VectorRecord
    evidence: finding.Evidence


def judge_masks(
    recorded: Recorded, truth: GroundTruth | None, level: float = LEVEL
) -> Iterator[finding.Finding]:
    """Yield findings on uniformity, correlations, and with ground truth correlations with what is hidden.

    Args:
        recorded: a run.
        truth: its ground truth, if there is one.
        level: probability of any false alarm; of many runs each has its share.
    """
    masked, hidden = _masked(recorded), clustering.hides_groups(recorded.scenario.groups)
    counts = [one for one in masked if hidden and one.place[1] == clustering.COUNTS]
    seen = [one for one in masked if not hidden or one.place[1] != clustering.COUNTS]
    chosen = _thinned(seen) if seen else []
    places = _places(recorded, chosen)
    if not places.size:
        what = "Masked inputs are sampled at no common coordinate" if seen else "No masked input is recorded"
        yield finding.note(AUDIT, f"{what}: nothing to test.")
        return
    vectors = _stacked(recorded, chosen, places)
    known = [] if truth is None else _known(recorded, truth, chosen, places)
    families = (
        uniformity.uniform(vectors),
        uniformity.pairs(vectors),
        uniformity.lags(vectors),
        uniformity.against(vectors, known),
    )
    tests = [test for test in families if test]
    bad = [_finding(test, chosen) for test in tests if test.p_value < level / len(_MEANING)]
    yield from bad or [_clean(tests, vectors, seen)]
    if counts:
        yield _untested(counts)


def _masked(recorded: Recorded) -> list[_Masked]:
    found = []
    if recorded.has_server:
        entries = [
            (str(e.fields["from"]), e, at)
            for e, at in recorded.distinct_messages(SERVER, "received", "MaskedInput")
        ]
    else:
        entries = [
            (p, e, at)
            for p in recorded.watched
            for e, at in recorded.distinct_messages(p, "sent", "MaskedInput")
        ]
    for party, entry, evidence in entries:
        vector: Any = entry.fields["vector"]
        place: Any = entry.fields["place"]
        found.append(_Masked(PartyId(party), tuple(place), vector, evidence))
    return found


def _places(recorded: Recorded, chosen: Sequence[_Masked]) -> I64:
    """Coordinates that all of them have. Those of the first clustering may have metric words behind them."""
    if not chosen:
        return np.empty(0, dtype=np.int64)
    records = [one.record for one in chosen]
    return sampled.common_places(records, recorded.run, min(record["length"] for record in records))


def _stacked(recorded: Recorded, chosen: Sequence[_Masked], places: I64) -> Ring:
    rows = np.stack([sampled.values_at(one.record, recorded.run, places) for one in chosen])
    return cast("Ring", rows.astype(encoding.ring_dtype(recorded.limits.ring_bits), copy=False))


def _thinned(seen: Sequence[_Masked]) -> Sequence[_Masked]:
    """Evenly: what is compared in pairs grows with the square of its number."""
    return seen[:: -(-len(seen) // _VECTORS)]


def _known(
    recorded: Recorded, truth: GroundTruth, chosen: Sequence[_Masked], places: I64
) -> list[tuple[int, F64]]:
    """Each masked input with the updates of all members of its cluster, at the sampled coordinates."""
    clusters: dict[int, Any] = {}
    for entry, _ in recorded.of(SERVER, "clusters_drawn"):
        clusters[int(str(entry.fields["round"]))] = entry.fields["clusters"]
    updates: dict[tuple[str, int, int], F64 | None] = {}
    known = []
    for number, one in enumerate(chosen):
        round_, r, j, _ = one.place
        work = clustering.work_of(recorded.scenario.clustering, r)
        members = clusters[round_][r][j] if round_ in clusters else [one.party]
        for member in members:
            key = (member, round_, work)
            if key not in updates:
                upload = truth.upload(*key)
                updates[key] = None if upload is None else _at(upload, places)
            values = updates[key]
            if values is not None:
                known.append((number, values))
    return known


def _at(upload: I64, places: I64) -> F64:
    """Values of an update at these coordinates; zero behind it, where masked inputs have metric words."""
    inside = places < len(upload)
    found = np.zeros(len(places))
    found[inside] = upload[places[inside]]
    return found


def _finding(test: uniformity.FamilyTest, chosen: Sequence[_Masked]) -> finding.Finding:
    worst = [chosen[number] for number in test.worst]
    which = " and ".join(f"{one.party} (round {one.place[0]}, reclustering {one.place[1]})" for one in worst)
    return finding.breach(
        AUDIT,
        f"Masked inputs are no noise: {_MEANING[test.name]}. The worst is {which} with a resultant of"
        f" {test.resultant:.3g}, in {test.comparisons:,} comparisons.",
        evidence=tuple(one.evidence for one in worst),
        remedy="masks were left out, used twice or are predictable: take what they hid for known",
        parties=tuple(sorted({one.party for one in worst})),
        error_rate=test.p_value,
    )


def _untested(counts: Sequence[_Masked]) -> finding.Finding:
    words = report.count_of(counts[0].record["length"], "word")
    return finding.note(
        AUDIT,
        f"Not tested: {len(counts):,} masked inputs of {words}, the counts of hidden groups: what is tested"
        " together has one length. Their masks are made as all others are.",
    )


def _clean(tests: Sequence[uniformity.FamilyTest], vectors: Ring, seen: Sequence[_Masked]) -> finding.Finding:
    count, length = vectors.shape
    part = "" if len(seen) == count else f" ({count} of them evenly chosen)"
    most = max(uniformity.detectable(t.comparisons, length, LEVEL / len(_MEANING)) for t in tests)
    return finding.holds(
        AUDIT,
        f"{len(seen):,} masked inputs{part} look uniform and unrelated on {length:,} coordinates:"
        f" {sum(t.comparisons for t in tests):,} comparisons, the most extreme with an adjusted p of"
        f" {min(t.p_value for t in tests):.2g}. A pattern in {100 * min(1.0, most):.0f} % of the"
        " coordinates would have been seen.",
        error_rate=LEVEL,
    )
