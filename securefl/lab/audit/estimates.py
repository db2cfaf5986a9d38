"""Least squares estimates of updates from opened sums, compared with the truth.

The server solves A (X - mu) = S - A mu with the least norm. The prior mu is the coordinate-wise median of the
sums' means, which one attacker does not move. For updates that differ from mu independently and equally, the
error of party i is sqrt(1 - P_ii) of the prior's; P_ii is its leverage (privacy-notes, section 2).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from securefl.base.arrays import F64, I64, Ring
from securefl.base.ids import SERVER, PartyId
from securefl.lab.audit import sampled
from securefl.lab.audit.openings import Exposed
from securefl.lab.audit.recorded import Recorded
from securefl.lab.audit.truth import GroundTruth
from securefl.methods import encoding
from securefl.runtime import transcript

SumKey = tuple[int, int, tuple[PartyId, ...]]
"""Reclustering, cluster and ascending survivors."""
_RANK_TOLERANCE = 1e-9
_RIDGES = (0.0, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0)
_ROUNDING = 1e-11
"""Rounding error of double precision, relative to the largest sum."""


@dataclass(frozen=True, slots=True)
class System:
    """Linear system of one update version."""

    parties: tuple[PartyId, ...]
    """Columns: honest parties in a sum."""
    rows: F64
    """A, (openings, parties)."""
    reclusterings: tuple[int, ...]
    sums: F64
    """S, (openings, coordinates), in steps, without colluders' updates."""
    updates: F64
    """X, (parties, coordinates), in steps: the truth."""
    unsaid: int = 0
    """Sums taken from the truth: shares were released, but the server reports no opening."""


@dataclass(frozen=True, slots=True)
class Estimated:
    """Errors of the estimates by party."""

    error: F64
    """Norm of the error over that of the prior's; 0 if the prior is exact."""
    predicted: F64
    """sqrt(1 - leverage)."""
    recovered: tuple[bool, ...]
    """True if every coordinate is right to half a step."""


def system_of(recorded: Recorded, truth: GroundTruth, one: Exposed) -> System | None:
    """Return the system of one update version; None if no sum was opened or updates are missing.

    An unreported opening is computed from the survivors' encoded updates. With dropout-exact noise this
    differs, so it is left out.
    """
    version = one.opened.version
    whole = recorded.scenario.privacy.placement != "dropout-exact"
    opened = _rings(recorded, version.round)
    known = [o for o in one.opened.openings if whole or o.key in opened]
    counted = sorted({party for opening in known for party in opening.survivors})
    uploads = {party: truth.upload(party, version.round, version.work) for party in counted}
    parties = tuple(party for party in counted if party not in recorded.colluders)
    if not known or not parties or any(upload is None for upload in uploads.values()):
        return None
    places = places_of_sums(recorded, len(cast("Any", uploads[counted[0]])))
    if not places.size:
        return None
    rings = {key: _ring(recorded, record, places) for key, record in opened.items()}
    values = {p: cast("Any", upload)[places].astype(np.float64) for p, upload in uploads.items()}
    sums = np.stack(
        [
            encoding.from_ring(rings[o.key]).astype(np.float64)
            if o.key in rings
            else np.sum([values[party] for party in o.survivors], axis=0)
            for o in known
        ]
    )
    rows = np.zeros((len(known), len(parties)))
    for number, opening in enumerate(known):
        for party in opening.survivors:
            if party in recorded.colluders:
                sums[number] -= values[party]
            else:
                rows[number, parties.index(party)] = 1.0
    return System(
        parties,
        rows,
        tuple(o.reclustering for o in known),
        sums,
        np.stack([values[p] for p in parties]),
        sum(o.key not in rings for o in known),
    )


def estimate(system: System, below: int | None = None) -> Estimated:
    """Solve for all updates, from the first ``below`` reclusterings if given."""
    used = [below is None or r < below for r in system.reclusterings]
    rows, sums = system.rows[used], system.sums[used]
    return solve(rows, sums, system.updates)


def solve(rows: F64, sums: F64, updates: F64, ridge: float = 0.0) -> Estimated:
    """Estimate ``updates`` (n, d) from ``sums`` (m, d) over ``rows`` (m, n), and measure the errors.

    ``ridge`` is the variance of other terms in the sums over that of the updates.
    """
    left, singular, right = np.linalg.svd(rows, full_matrices=False)
    large = singular > _RANK_TOLERANCE * singular.max(initial=0.0)
    left, singular, right = left[:, large], singular[large], right[large]
    inverse = (right.T * (singular / (singular**2 + ridge))) @ left.T
    sizes = rows.sum(axis=1, keepdims=True)
    prior = np.median(sums / np.maximum(sizes, 1.0), axis=0)
    found = prior + inverse @ (sums - sizes * prior)
    missed = np.abs(found - updates)
    # Rounding removes an error below half a step.
    limit = 0.5 + _ROUNDING * float(np.abs(sums).max(initial=0.0)) * len(rows)
    recovered = (missed.max(axis=1, initial=0.0) < limit).tolist()
    before = np.linalg.norm(prior - updates, axis=1)
    error = np.divide(np.linalg.norm(missed, axis=1), before, out=np.zeros(len(before)), where=before > 0)
    leverage = np.clip((right**2).sum(axis=0), 0.0, 1.0)
    return Estimated(error, np.sqrt(1 - leverage), tuple(recovered))


def over_rounds(systems: Sequence[System], recorded: Recorded) -> list[Estimated]:
    """Estimate each party's mean update from the first 1, 2, ... versions, as if it never changed.

    Varying participation reveals the common part of updates (So et al. 2021, arXiv 2106.03328); changes act
    as noise. The best ridge is chosen with the truth, which an attacker lacks.
    """
    all_parties = tuple(p for p in recorded.parties if any(p in s.parties for s in systems))
    found = []
    for number in range(1, len(systems) + 1):
        some = systems[:number]
        present = [p for p in all_parties if any(p in s.parties for s in some)]
        rows = np.zeros((sum(len(s.rows) for s in some), len(present)))
        start = 0
        for system in some:
            columns = [present.index(party) for party in system.parties]
            rows[start : start + len(system.rows), columns] = system.rows
            start += len(system.rows)
        means = [
            np.mean([s.updates[s.parties.index(p)] for s in some if p in s.parties], axis=0) for p in present
        ]
        sums, truth = np.concatenate([s.sums for s in some]), np.stack(means)
        tried = [solve(rows, sums, truth, ridge) for ridge in _RIDGES]
        found.append(min(tried, key=lambda one: float(np.median(one.error))))
    return found


def places_of_sums(recorded: Recorded, length: int) -> I64:
    """Return the coordinates of updates of ``length`` that all sums have.

    A sum with metric words is longer. Without sums, return the sampled ones.
    """
    records = [record for record in sampled.sum_records(recorded) if record["length"] >= length]
    if not records:
        return transcript.sample_positions(recorded.run, length)
    return sampled.common_places(records, recorded.run, length)


def rings_of(recorded: Recorded, one: Exposed, places: I64) -> dict[SumKey, Ring]:
    """Return the opened sums of one update version at these coordinates."""
    opened = _rings(recorded, one.opened.version.round)
    return {key: _ring(recorded, record, places) for key, record in opened.items()}


def _ring(recorded: Recorded, record: sampled.VectorRecord, places: I64) -> Ring:
    values = sampled.values_at(record, recorded.run, places)
    return cast("Ring", values.astype(encoding.ring_dtype(recorded.limits.ring_bits)))


def _rings(recorded: Recorded, round_: int) -> dict[SumKey, sampled.VectorRecord]:
    found = {}
    for entry, _ in recorded.of(SERVER, "sum_opened"):
        if entry.fields["round"] == round_:
            opened: Any = entry.fields["opened"]
            key = (
                opened["reclustering"],
                opened["cluster"],
                tuple(sorted(map(PartyId, opened["survivors"]))),
            )
            found[key] = opened["ring"]
    return found
