"""*replay*: the server's arithmetic recomputed, bit for bit, from its transcript.

The certified seed gives the clusters, sums and counts the update, model and update the next model. Each round
starts from its own record, so that an error counts once.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Final

import numpy as np

from securefl.base import crypto, entropy
from securefl.base.arrays import F32, F64, I64, Ring
from securefl.base.ids import SERVER, RunId
from securefl.lab.audit import finding
from securefl.lab.audit.exhibits import Table
from securefl.lab.audit.recorded import Recorded
from securefl.lab.audit.replay_rounds import ReplayRound, Vectors, replay_rounds
from securefl.lab.audit.truth import GroundTruth
from securefl.methods import encoding, robust, server_optimisers, weighting
from securefl.methods.clustering import Assignment, hides_groups, work_of
from securefl.protocol.round import (
    ClusterKey,
    Draw,
    OpenedRound,
    RunPlan,
    ServerState,
    clusters_of,
    model_digest,
    reason_against_sampling,
    walk,
)
from securefl.runtime import report

AUDIT: Final = "replay"
ClusterKeys = tuple[ClusterKey, ...]
_REMEDY: Final = "do not use the model: the server did not compute what the scenario defines"


@dataclass(frozen=True, slots=True)
class _Stepped:
    """Outcome of a recomputed round."""

    same: bool
    difference: float
    choices: bool
    """True if the rule kept and rejected the same sums."""


def audit_replay(recorded: Recorded, truth: GroundTruth | None) -> finding.Chapter:
    """Recompute clusters, sums and models."""
    vectors = Vectors(recorded, truth)
    rounds = tuple(replay_rounds(recorded, vectors))
    plan = _plan(recorded, rounds, vectors) if rounds else None
    findings = [*_draws(recorded, plan, rounds), *_sums(recorded, plan, truth, vectors, rounds)]
    whole = vectors.whole()
    reason = _why_not(recorded, whole=whole)
    if reason is None and rounds and not (whole or vectors.places.size):
        reason = "models and sums have no sampled coordinate in common; run --lab keeps whole vectors"
    if reason is None and plan is not None and SERVER in recorded.beheaded and _remembers(plan, rounds[0]):
        reason = "its step depends on all earlier rounds, and the first ones are missing"
    rows: list[tuple[int, int, str, float | None]] = []
    if reason is None and plan is not None:
        stepped = _models(plan, rounds)
        findings += _judge_rounds(rounds, stepped, whole=whole)
        rows = [
            (one.round, len(one.sums), "same bits" if again.same else "differs", again.difference)
            for one, again in zip(rounds, stepped, strict=True)
        ]
    findings.append(_limits(truth, rounds, reason, whole=whole))
    return finding.Chapter(
        audit=AUDIT,
        title="Replay: the server's computation repeated",
        method=(
            "Clusters are drawn again from the certified seed, and weights follow from the declared sample"
            " counts. The rule is applied to the opened sums, then the optimiser's step to the announced"
            " model. The next announced model must have the same bits."
        ),
        findings=tuple(findings),
        exhibits=(
            Table(
                title="Models",
                columns=("round", "sums", "next model", "largest difference"),
                rows=tuple(rows),
            ),
        )
        if rows
        else (),
    )


def _why_not(recorded: Recorded, *, whole: bool) -> str | None:
    aggregation = recorded.scenario.aggregation
    if recorded.simulated:
        return "a simulation leaves no transcript; repeat it with the same seed instead"
    if robust.needs_server_gradient(aggregation.rule):
        return f"the rule {aggregation.rule.name} uses gradients of the server's own data"
    if not whole and (reason := reason_against_sampling(recorded.scenario)):
        return f"{reason}; run --lab keeps whole vectors"
    if not whole and (aggregation.pre_aggregation or not aggregation.rule.by_coordinate):
        return "the rule needs whole vectors, which run --lab keeps and audit --lab reads"
    return None


def _plan(recorded: Recorded, rounds: Sequence[ReplayRound], vectors: Vectors) -> RunPlan:
    """Return a plan for arithmetic only, with a stand-in roster."""
    _, roster = crypto.make_identities(recorded.parties, entropy.InsecureSeededEntropy(0))
    # The announcement contains all models.
    each = max(1, rounds[0].before.values.size // recorded.scenario.groups.count)
    state = recorded.state if vectors.whole() else recorded.state.at(vectors.places)
    return RunPlan(RunId(recorded.run), recorded.scenario, recorded.limits, roster, each, state=state)


def _step(plan: RunPlan, one: ReplayRound, moments: F64) -> tuple[ClusterKeys, ClusterKeys, F32, F64]:
    weights = weighting.public_weights(plan.scenario.weighting, one.counts, one.participants)
    assignment = Assignment(tuple(sorted(one.participants)), one.clusters, tasks=one.tasks)
    drawn = Draw(one.seed, assignment, weights, one.resting, one.atom_seed)
    opened = OpenedRound(drawn, (), one.sums, one.totals, one.excluded)
    before = ServerState(one.round, one.before.values, moments, values=one.values)
    made, models = walk.compute_next_models(plan, before, opened)
    return made.result.kept, made.result.rejected, *models


def _remembers(plan: RunPlan, one: ReplayRound) -> bool:
    first = server_optimisers.first_moments(plan.optimiser, plan.total_parameters)
    made = [_step(plan, one, moments)[2] for moments in (first, first + 1.0)]
    return made[0].tobytes() != made[1].tobytes()


def _models(plan: RunPlan, rounds: Sequence[ReplayRound]) -> list[_Stepped]:
    moments: F64 = server_optimisers.first_moments(plan.optimiser, plan.total_parameters)
    done = []
    for one in rounds:
        kept, rejected, params, made_moments = _step(plan, one, moments)
        moments = made_moments if one.confirmed else moments
        # Samples store non-finite values as null.
        finite = np.isfinite(one.after.values)
        made, recorded_ = params[finite], one.after.values[finite]
        same = made.tobytes() == recorded_.tobytes() and np.array_equal(np.isfinite(params), finite)
        gap = np.abs(made.astype(np.float64) - recorded_)
        done.append(
            _Stepped(
                same,
                float(gap.max(initial=0.0)),
                (kept, rejected) == (one.kept, one.rejected),
            )
        )
    return done


def _judge_rounds(
    rounds: Sequence[ReplayRound], stepped: Sequence[_Stepped], *, whole: bool
) -> Iterator[finding.Finding]:
    bad = [(one, again) for one, again in zip(rounds, stepped, strict=True) if not again.same]
    for one, again in bad[:5]:
        yield _breach(
            f"The model after round {one.round} does not follow from its sums: coordinates differ by up to"
            f" {again.difference:.3g}.",
            (one.before.evidence, one.stepped, one.after.evidence),
        )
    chose = [one for one, again in zip(rounds, stepped, strict=True) if whole and not again.choices]
    for one in chose[:5]:
        yield _breach(f"In round {one.round} the rule keeps other sums than the server kept.", (one.stepped,))
    digests = [
        one for one in rounds if whole and model_digest(one.before.values, one.values).hex() != one.announced
    ]
    for one in digests[:5]:
        yield _breach(
            f"The model of round {one.round} is not the one that the parties signed.", (one.before.evidence,)
        )
    if not bad and not chose and not digests:
        size = rounds[0].before.values.size
        what = f"all {size:,} coordinates" if whole else f"{size:,} sampled coordinates"
        also = ", and the rule chose the same sums" if whole else ""
        yield finding.holds(
            AUDIT,
            f"The models of {report.count_of(len(rounds), 'round')} follow from the opened"
            " sums, bit for bit on"
            f" {what}{also}.",
            evidence=(rounds[-1].after.evidence,),
        )


def _draws(
    recorded: Recorded, plan: RunPlan | None, rounds: Sequence[ReplayRound]
) -> Iterator[finding.Finding]:
    clustering = recorded.scenario.clustering
    if clustering.fixed or plan is None:
        return
    bad = []
    for one in rounds:
        present = {*one.resting, *(p for members in one.clusters[0] for p in members)}
        groups = one.groups or dict.fromkeys(present, 0)
        again = clusters_of(plan, one.seed, present, one.atom_seed, groups)
        if (again.clusters, again.tasks) != (one.clusters, one.tasks) or bool(one.atom_seed) != (
            clustering.atoms > 1
        ):
            bad.append(one)
    if bad:
        yield _breach(
            f"The clusters of {report.count_of(len(bad), 'round')} do not follow from the certified seed.",
            tuple(one.drawn for one in bad),
        )
    else:
        yield finding.holds(
            AUDIT,
            f"The clusters of {report.count_of(len(rounds), 'round')} follow from their certified seeds.",
        )


def _sums(
    recorded: Recorded,
    plan: RunPlan | None,
    truth: GroundTruth | None,
    vectors: Vectors,
    rounds: Sequence[ReplayRound],
) -> Iterator[finding.Finding]:
    """Check by ground truth that each sum is the sum of its survivors' encoded updates."""
    if plan is None or truth is None or recorded.scenario.privacy.placement == "dropout-exact":
        # Noise is added after the encoding, and partly removed again.
        return
    bits, checked, bad = recorded.limits.ring_bits, 0, False
    for one in rounds:
        for opened in one.sums:
            work = work_of(recorded.scenario.clustering, opened.reclustering)
            parts = [truth.upload(party, one.round, work) for party in opened.survivors]
            known = [part for part in parts if part is not None]
            # Metrics follow the update.
            ring = opened.ring[: plan.length]
            if not vectors.whole():
                known = [part[vectors.places] for part in known if len(part) > vectors.places.max(initial=-1)]
            if len(known) < len(parts) or len(known[0]) != len(ring) or not len(ring):
                continue
            checked += 1
            # Members of a hidden slot are not recorded: try all subsets of this size.
            count = len(known) if one.totals is None else one.totals.get(opened.key, len(known))
            if not _made_of(ring, known, count, bits):
                bad = True
                whose = "its survivors" if count == len(known) else f"{count} of its {len(known)} survivors"
                yield _breach(
                    f"The sum of cluster {opened.key} in round {one.round} is not the sum of the updates of"
                    f" {whose}.",
                    (one.drawn,),
                )
    if checked and not bad:
        yield finding.holds(
            AUDIT,
            f"Sums that equal the encoded updates of their survivors exactly: all {checked} that were"
            " compared"
            + (", for as many survivors as counts say." if hides_groups(recorded.scenario.groups) else "."),
        )


def _made_of(ring: Ring, encoded: Sequence[I64], count: int, bits: int) -> bool:
    if not 0 <= count <= len(encoded):
        return False
    some = combinations(encoded, count)
    return any(np.array_equal(encoding.to_ring(np.sum(parts, axis=0), bits), ring) for parts in some)


def _limits(
    truth: GroundTruth | None,
    rounds: Sequence[ReplayRound],
    reason: str | None,
    *,
    whole: bool,
) -> finding.Finding:
    """Return the note on unchecked parts."""
    if reason is not None:
        return finding.note(AUDIT, f"Models were not recomputed: {reason}.")
    if not rounds:
        return finding.note(
            AUDIT,
            "Nothing to recompute: the server's transcript has no round with model, seed, sums and next"
            " model.",
        )
    parts = [] if whole else ["coordinates that are not sampled (run --lab keeps whole vectors)"]
    if truth is None:
        parts.append("sums against encoded updates (--lab)")
    parts += ["training", "keys and masks, which are not recorded"]
    return finding.note(AUDIT, f"Not checked by replay: {'; '.join(parts)}.")


def _breach(claim: str, evidence: tuple[finding.Evidence, ...]) -> finding.Finding:
    return finding.breach(AUDIT, claim, evidence=evidence, remedy=_REMEDY)
