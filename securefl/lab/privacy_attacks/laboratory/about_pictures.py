"""*inversion*: pictures reconstructed from the first round's sums, and from sums of fewer members."""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Final, NamedTuple

import numpy as np

from securefl.base.arrays import F64, I64
from securefl.base.ids import PartyId
from securefl.lab import audit
from securefl.lab.privacy_attacks.laboratory import clusters, inversion
from securefl.lab.privacy_attacks.laboratory.case import Case
from securefl.methods import attacks, clustering, encoding
from securefl.protocol.round import ClusterSum
from securefl.runtime import report


def sizes_up_to(members: int) -> tuple[int, ...]:
    """Return 1, about the square root, and ``members`` (>= 1); each size takes a search."""
    return tuple(sorted({1, round(math.sqrt(members)), members}))


def honest_members(case: Case, opened: ClusterSum) -> tuple[PartyId, ...]:
    """Return the honest members of a sum, ascending: other updates reveal little about samples."""
    behind = attacks.behaviours_of(case.recorded.scenario, case.seed)
    return tuple(party for party in sorted(opened.survivors) if party not in behind)


def growing(case: Case, opened: ClusterSum) -> tuple[clusters.ClusterMean, ...]:
    """Return means over growing sets of members of a sum in ``case.first.sums``, honest members first.

    Sizes are those of :func:`sizes_up_to`. Return nothing if the recorded updates do not add up to the sum:
    one is missing, or noise was removed (dropout-exact).
    """
    honest = honest_members(case, opened)
    order = (*honest, *sorted(set(opened.survivors) - set(honest)))
    work = clustering.work_of(case.recorded.scenario.clustering, opened.reclustering)
    kept = [case.uploads(party, case.first.round, work) for party in order]
    known = [upload for upload in kept if upload is not None]
    bits = case.recorded.limits.ring_bits
    if len(known) < len(order) or not np.array_equal(
        encoding.to_ring(np.sum(known, axis=0), bits), opened.ring
    ):
        return ()
    sums = [
        replace(opened, survivors=order[:size], ring=encoding.to_ring(np.sum(known[:size], axis=0), bits))
        for size in sizes_up_to(len(order))
    ]
    return clusters.cluster_means(case.recorded.scenario.encoding, sums, case.weights(case.first))


CLUSTERS: Final = 2
SAMPLES: Final = 48
"""Most samples of a cluster or party that are compared with reconstructions."""
SHOWN: Final = 8


class _Opened(NamedTuple):
    """Opened sum and its reconstructions."""

    sum: ClusterSum
    mean: clusters.ClusterMean
    candidates: F64
    found: inversion.Inversion

    @property
    def name(self) -> str:
        return report.list_of(self.mean.survivors)


def audit_inversion(case: Case) -> audit.Chapter:
    """Invert some sums of the first round, and sums of fewer members of one.

    Raises:
        ConfigError: the samples are not pictures.
    """
    generator = np.random.default_rng(case.seed)
    opened = []
    for one, mean in list(zip(case.first.sums, case.means(case.first), strict=True))[:CLUSTERS]:
        behind = _behind(case, mean)
        candidates = _candidates(case, mean)
        found = inversion.compare_candidates(
            case.dataset, candidates, behind, behind, seed=case.seed, most=SAMPLES
        )
        opened.append(_Opened(one, mean, candidates, found))
    table = audit.Table(
        title="Reconstructions",
        columns=("cluster", "samples", "candidates", "SSIM", "unrelated", "MSE", "as good", "by chance"),
        rows=tuple((one.name, len(_behind(case, one.mean)), *_figures(one.found)) for one in opened),
    )
    followable = max(opened, key=lambda one: len(honest_members(case, one.sum)))
    notes, grown = _as_m_grows(case, followable, generator)
    return audit.Chapter(
        audit="inversion",
        title="Inversion: pictures reconstructed from sums",
        method=(
            "Candidates come from the neurons of a dense first layer, and from a search if few samples are"
            " behind a sum. Each sample is compared with the most similar candidate, and with as many"
            f" unrelated pictures. With more than {SAMPLES} samples, SSIM and MSE are of the most similar"
            " ones. The attack is repeated on hypothetical smaller clusters; findings are about opened sums"
            " only."
        ),
        findings=(*(_inversion_finding(case, one) for one in opened), *notes),
        exhibits=(table, *map(_best, opened), *grown),
    )


def _candidates(case: Case, mean: clusters.ClusterMean, kind: str = "opened") -> F64:
    case.progress(f"inversion: the sum of {report.list_of(mean.survivors)} ({kind})")
    model, before = case.recorded.scenario.model, case.first.before.values
    return inversion.reconstruct(
        model, case.dataset, before, mean.update, _behind(case, mean), seed=case.seed
    )


def _behind(case: Case, mean: clusters.ClusterMean) -> I64:
    return np.concatenate([case.rows[party] for party in mean.survivors])


def _some(rows: I64, generator: np.random.Generator) -> I64:
    return rows if len(rows) <= SAMPLES else generator.permutation(rows)[:SAMPLES]


def _figures(found: inversion.Inversion) -> tuple[audit.Cell, ...]:
    likeness = found.candidates, found.ssim, found.blind_ssim, found.mse
    return *likeness, found.recognised, found.blind_recognised


def _inversion_finding(case: Case, one: _Opened) -> audit.Finding:
    found = one.found
    samples, looked = len(_behind(case, one.mean)), len(found.matches)
    whose = f" of the {looked} most similar" if looked < samples else ""
    claim = (
        f"The attack reconstructs {report.percent(found.recognised)} of {samples} samples behind the sum of"
        f" {one.name} as good as the original (unrelated pictures: {report.percent(found.blind_recognised)})."
        f" Mean similarity{whose}: {found.ssim:.2f} ({found.blind_ssim:.2f})."
    )
    evidence = (audit.Evidence("server", case.first.before.evidence.entry, "the model before the update"),)
    if found.recognised > found.blind_recognised:
        remedy = "use larger clusters, more samples per step, several local steps, or noise"
        return audit.breach("inversion", claim, evidence=evidence, remedy=remedy)
    return audit.holds("inversion", claim, evidence=evidence)


def _as_m_grows(
    case: Case, opened: _Opened, generator: np.random.Generator
) -> tuple[tuple[audit.Finding, ...], tuple[audit.Exhibit, ...]]:
    """Reconstruct one party's samples from sums of growing sets of members, the last of them opened."""
    if len(opened.mean.survivors) == 1:
        return (), ()
    means = growing(case, opened.sum)
    if not means:
        claim = (
            f"Reconstructions from fewer members of the sum of {opened.name} are not shown: the recorded"
            " updates of its members do not add up to the opened sum."
        )
        return (audit.note("inversion", claim),), ()
    victim = means[0].survivors[0]
    samples, pooled = _some(case.rows[victim], generator), _behind(case, opened.mean)
    steps, rows = [], []
    for mean in means:
        last = mean is means[-1]
        kind = "opened" if last else "hypothetical"
        # The whole cluster was inverted above.
        candidates = opened.candidates if last else _candidates(case, mean, kind)
        found = inversion.compare_candidates(
            case.dataset, candidates, samples, pooled, seed=case.seed, most=SAMPLES
        )
        steps.append((mean, found))
        behind = len(_behind(case, mean))
        searched = "yes" if behind <= inversion.MOST else "no"
        rows.append((len(mean.survivors), kind, behind, searched, *_figures(found)))
    table = audit.Table(
        title=f"Samples of {victim} by cluster size m: first m of {report.list_of(means[-1].survivors)}",
        columns=(
            "m",
            "sum",
            "samples",
            "search",
            "candidates",
            "SSIM",
            "unrelated",
            "MSE",
            "as good",
            "by chance",
        ),
        rows=tuple(rows),
        note=(
            "Only the last sum was opened. The others are hypothetical sums of clusters of m: the members'"
            " encoded updates, with their noise. All rows are about"
            f" {report.count_of(len(samples), 'sample')} of {victim}."
        ),
    )
    return (), (table, _worse(victim, steps))


def _worse(victim: str, steps: Sequence[tuple[clusters.ClusterMean, inversion.Inversion]]) -> audit.Pictures:
    first = steps[0][1]
    shown = range(min(SHOWN, len(first.matches)))
    rows = [tuple(audit.Picture(caption="original", pixels=_grey(first.originals[at])) for at in shown)]
    for mean, found in steps:
        m = f"m = {len(mean.survivors)}"
        rows.append(
            tuple(
                audit.Picture(caption=f"{m}: {found.matches[at].ssim:.2f}", pixels=_grey(found.found[at]))
                for at in shown
            )
        )
    return audit.Pictures(
        title=f"Reconstructed samples of {victim} by cluster size m",
        rows=tuple(rows),
        note=(
            "Numbers are SSIM. Each row shows the first of the compared samples, not the best. The last row"
            " is of the opened sum, the others are of hypothetical sums."
        ),
    )


def _best(one: _Opened) -> audit.Pictures:
    found = one.found
    best = np.argsort([match.mse for match in found.matches])[:SHOWN]
    originals = tuple(audit.Picture(caption="original", pixels=_grey(found.originals[at])) for at in best)
    guesses = tuple(
        audit.Picture(caption=f"SSIM {found.matches[at].ssim:.2f}", pixels=_grey(found.found[at]))
        for at in best
    )
    title = f"Best reconstructions from the sum of {one.name}"
    return audit.Pictures(title=title, rows=(originals, guesses))


def _grey(picture: F64) -> tuple[tuple[int, ...], ...]:
    levels = np.clip(np.rint(picture * 255), 0, 255).astype(np.int64)
    return tuple(tuple(row) for row in levels.tolist())
